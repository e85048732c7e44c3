"""`memgrow adapt`: create a model or go on from it, domain by domain, with a bar and a line for each."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from memgrow.checkpoint import SIGNS
from memgrow.cli import options as opt
from memgrow.cli.output import console, say, split_names
from memgrow.cli.recipe import Recipe, read_recipe
from memgrow.data import Columns, Domain, Loaded, Stream, load_for_evaluation, load_stream
from memgrow.defaults import defaults_for
from memgrow.device import allow_tf32
from memgrow.errors import DataError, MemgrowError, ModelError, SettingsError, listed
from memgrow.folders import contents
from memgrow.history import Stage
from memgrow.learner import Learner
from memgrow.locking import hold
from memgrow.models.pretrained.catalogue import find_encoder
from memgrow.models.pretrained.files import EncoderFiles
from memgrow.report.learner import matrix_title, stage_line, summary_line
from memgrow.report.matrix import MatrixTable
from memgrow.report.progress_bars import TrainingBar
from memgrow.training.processes import check_processes


def adapt(
    model: opt.Model,
    data: opt.Files,
    method: opt.Method = None,
    encoder: opt.Encoder = None,
    vectors: opt.Vectors = None,
    recipe: opt.Recipe = None,
    set_: opt.Set = None,
    seed: opt.Seed = None,
    device: opt.Device = "auto",
    text: opt.Text = None,
    pair: opt.Pair = None,
    label: opt.Label = None,
    reply: opt.Reply = None,
    by: opt.By = None,
    domains: opt.Domains = None,
    group: opt.Group = None,
    split_column: opt.SplitColumn = None,
    validation: opt.Validation = None,
    test: opt.Test = None,
    held_out: opt.HeldOut = None,
    watch: opt.Watch = None,
    max_forgetting: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS",
            help="Keep no domain that costs more than this on one that is watched.",
            rich_help_panel=opt.SETTINGS,
        ),
    ] = None,
    keep_versions: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Earlier versions that undo can go back to; 1 at first.", rich_help_panel=opt.SETTINGS
        ),
    ] = None,
    processes: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Share the texts of each batch, with --encoder: one GPU or part of the CPU to a process.",
            rich_help_panel=opt.SETTINGS,
        ),
    ] = 1,
    limit: opt.Limit = None,
    skip_empty: opt.SkipEmpty = False,
    again: Annotated[bool, typer.Option("--again", help="Learn anew what was learnt from the same data.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait while another process changes the model.")] = False,
) -> None:
    """Learn domains in turn, in a new MODEL or going on from it; resumes if killed.

    Example: memgrow adapt model/ books.jsonl dvds.jsonl.gz --method F+M+V
    """
    _is_free(model)  # before anything is made beside it
    with hold(model, *((inf, partial(say, style="dim")) if wait else ())):
        # What is quick to check comes first: a long file need not be read for a misspelt method.
        learner = open_or_create(model, read_recipe(recipe, set_ or (), encoder), method, seed, device)
        check_processes(processes, learner.settings, learner.device)
        columns = Columns(text=text, pair=pair, label=label, by=by, group=group, split=split_column, reply=reply)
        chosen, watch_files, watch_names = split_names(domains), *_files_and_names(watch or ())
        loaded = load_stream(
            data,
            columns=columns,
            validation=validation or (),
            test=test or (),
            held_out=held_out or (),
            domains=chosen and list(dict.fromkeys([*chosen, *watch_names])),
            limit=limit,
            skip_empty=skip_empty,
        )
        stream, watched_too = _parted(loaded.stream, chosen, watch_names)
        watched = (
            load_for_evaluation(watch_files, replace(columns, group=None), skip_empty=skip_empty)
            if watch_files
            else Loaded(Stream(()))
        )
        for notice in (*loaded.notices, *watched.notices):
            say(notice, "dim")
        with TrainingBar(console) as bar:
            stages = learn_stream(
                learner,
                stream,
                [*watched.stream, *watched_too],
                folder=model,
                again=again,
                bar=bar,
                vectors=vectors,
                max_forgetting=max_forgetting,
                keep_versions=keep_versions,
                processes=processes,
            )
        console.print(MatrixTable(learner.history.matrix, matrix_title(learner.task)))
        say(summary_line(learner.history))
        say(f"Saved as {model}." if stages else f"There was nothing new to learn: {model} is as it was.")


def open_or_create(folder: Path, recipe: Recipe, method: str | None, seed: int | None, device: str) -> Learner:
    """The model of the folder with what is asked for now, or a new one where there is none."""
    method, seed = method or recipe.method, recipe.seed if seed is None else seed
    make = _created if _is_free(folder) else partial(_opened, folder)
    learner = make(recipe, method, seed, device)
    allow_tf32(learner.device)
    return learner


def learn_stream(
    learner: Learner,
    stream: Stream,
    watched: Iterable[Domain],
    *,
    folder: Path,
    again: bool,
    bar: TrainingBar,
    **options: Any,
) -> list[Stage]:
    """Learn each domain of the stream that the model has not learnt yet, saving it after each.

    The options are those of `Learner.adapt`.
    """
    if unread := learner.method.unread(learner.options, defaults_for(learner.settings).options):
        bar.note(f"{learner.method.name} does not use what is set for {', '.join(unread)}")
    stages: list[Stage] = []

    def tell(stage: Stage, new: bool) -> None:
        if new:
            bar.clear()
            bar.say(stage_line(stage, learner.task))
            stages.append(stage)
        else:
            name = " and ".join(stage.learned)
            bar.note(f"{name}: skipped, as it was learnt from the same data (--again learns it anew)")

    # A name of its own is needed to write beside it: not "." and not a link, which writing would replace.
    place = Path(os.path.realpath(folder))
    learner.learn(stream, watch=watched, again=again, on_stage=tell, folder=place, progress=bar, **options)
    return stages


def _files_and_names(watch: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """What is to be watched, as files and as names of domains in the data: a word that is no file is a name."""
    given = list(watch)
    names = [path for path in given if path.name == str(path) and not path.suffix and not path.exists()]
    return [path for path in given if path not in names], [str(path) for path in names]


def _parted(stream: Stream, chosen: Sequence[str] | None, watched: Sequence[str]) -> tuple[Stream, list[Domain]]:
    """The domains to learn, and those that are only watched, with their test examples alone."""
    if strange := [name for name in watched if name not in stream.names]:
        raise DataError(
            f"--watch {listed(strange)} is no file, and no domain of the data, which has {listed(stream.names)}: "
            "give one or the other"
        )
    learns = set(chosen or stream.names)
    only = [Domain(domain.name, test=domain.test) for domain in stream if domain.name not in learns]
    if untested := [domain.name for domain in only if not domain.test]:
        raise DataError(f"--watch {listed(untested)} has no test examples: give some, or leave it out")
    return Stream(domain for domain in stream if domain.name in learns), only


def _is_free(folder: Path) -> bool:
    """Whether a model can be created here; an error if something else is in the way."""
    if folder.is_dir():
        inside = contents(folder)
        if inside and not inside & SIGNS:
            raise ModelError(f"{folder} is not a memgrow model and holds other things: choose another name")
        return not inside
    if folder.exists():
        raise ModelError(f"{folder} is a file, and a model is a folder: choose another name, or move it away")
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    if not above.is_dir():
        raise ModelError(f"{folder} cannot be created, as {above} is a file: choose another place")
    return True


def _created(recipe: Recipe, method: str | None, seed: int | None, device: str) -> Learner:
    usual = recipe.defaults
    return Learner.create(
        method or usual.method,
        model=recipe.section("model", usual.model),
        training=recipe.section("training", usual.training),
        options=recipe.section("options", usual.options),
        seed=seed or 0,
        device=device,
    )


def _same_encoder(folder: Path, asked: str, ours: EncoderFiles) -> EncoderFiles:
    """The files of the model's encoder, with the weights that it came with, if these are those of what is asked for."""
    try:
        found = find_encoder(asked)
    except MemgrowError:
        if asked != ours.name:
            raise
        return ours  # a model has all that it needs, also where its encoder is no longer found
    if found.sha256 != ours.sha256:
        raise SettingsError(
            f"{folder} was made with the encoder {ours.name}, whose weights were others than those of {asked} "
            "now, and a model keeps its encoder: leave --encoder out, or start a model of another name"
        )
    return replace(ours, weights=found.weights)


def _opened(folder: Path, recipe: Recipe, method: str | None, seed: int | None, device: str) -> Learner:
    learner = Learner.load(folder, device)
    asked = recipe.section("model", learner.settings)
    if recipe.encoder is not None and learner.encoder is not None:
        learner.encoder = _same_encoder(folder, recipe.encoder, learner.encoder)
        asked = replace(asked, encoder=learner.encoder.name)
    other = [
        f"{name} {ours} (not {value})"
        for name, value in vars(asked).items()
        if value != (ours := getattr(learner.settings, name))
    ]
    if other:
        raise SettingsError(
            f"{folder} was made with {', '.join(other)}, and a model keeps its sizes: "
            "leave them out, or start a model of another name"
        )
    learner.training = recipe.section("training", learner.training)
    learner.use(method or learner.method.name, recipe.section("options", learner.options))
    learner.seed = learner.seed if seed is None else seed
    return learner
