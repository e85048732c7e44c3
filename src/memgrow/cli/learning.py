"""A model's folder and what is learnt in it: opened or created, domain by domain, with a line for each."""

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

from memgrow.cli.output import notice
from memgrow.cli.recipe import Recipe
from memgrow.data import Domain, Stream
from memgrow.data.files import is_data_file
from memgrow.device import allow_tf32
from memgrow.errors import DataError, MemgrowError, ModelError, SettingsError, counted, listed
from memgrow.evaluation.history import Stage
from memgrow.learner import Learner
from memgrow.models import REPLY
from memgrow.models.pretrained.catalogue import find_encoder
from memgrow.models.pretrained.files import EncoderFiles
from memgrow.report.learner import stage_line
from memgrow.report.progress_bars import TrainingBar
from memgrow.report.tracking import SHOWN, Tracking, find_tracker
from memgrow.storage.folder import MANIFEST, foreign_names
from memgrow.training.defaults import defaults_for, sizes_line


def open_or_create(
    folder: Path,
    recipe: Recipe,
    method: str | None,
    seed: int | None,
    device: str,
    vectors: Path | None = None,
    replies: bool = False,
) -> Learner:
    """The model of the folder with what is asked for now, or a new one where there is none.

    Where nobody names its sizes, these suit the device, and its words are as long as the `vectors`.
    """
    method, seed = method or recipe.method, recipe.seed if seed is None else seed
    make = partial(_created, vectors, replies) if is_free(folder) else partial(_opened, folder)
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
    tracked: Tracking | None = None,
    **options: Any,
) -> list[Stage]:
    """Learn each domain of the stream that the model has not learnt yet, saving it after each.

    The options are those of `Learner.adapt`.
    """
    if unread := learner.method.unread(learner.options, defaults_for(learner.settings).options):
        bar.note(f"{learner.method.name} does not use what is set for {', '.join(unread)}")
    stages: list[Stage] = []
    bar.replies = learner.task == REPLY or any(domain.has_replies for domain in stream)
    if not learner.method.joint:
        bar.coming = _most_steps(learner, stream)

    def tell(stage: Stage, new: bool) -> None:
        for learned in stage.learned:
            bar.coming.pop(learned, None)
        if new:
            bar.clear()
            bar.say(stage_line(stage, learner.task))
            stages.append(stage)
            if tracked is not None:
                tracked.stage(learner.history, learner.task)
        else:
            name = " and ".join(stage.learned)
            bar.note(f"{name}: skipped, as it was learnt from the same data (--again learns it anew)")

    # A name of its own is needed to write beside it: not "." and not a link, which writing would replace.
    place = Path(os.path.realpath(folder))
    options["progress"] = tracked or bar
    learner.learn(stream, watch=watched, again=again, on_stage=tell, folder=place, **options)
    return stages


def _most_steps(learner: Learner, stream: Stream) -> dict[str, int]:
    """The steps of training that each domain takes at most."""
    steps, first = {}, learner.model is None
    for domain in stream:
        batches = ceil(len(domain.train) / learner.training.batch)
        steps[domain.name] = batches * learner.training.epochs_for(batches, first or learner.method.reinit)
        first = False
    return steps


@contextmanager
def tracking(name: str | None, folder: str, model: Path, bar: TrainingBar) -> Iterator[Tracking | None]:
    """A tracker by its name, which is told what the bar is told; None, if none is asked for."""
    if name is None:
        yield None
        return
    bar.note(f"To watch it by {name}: {SHOWN[name].format(shlex.quote(folder))}")
    with Tracking(find_tracker(name, folder, Path(os.path.realpath(model)).name), bar) as tracked:
        yield tracked


def files_and_names(watch: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """What is to be watched, as files and as names of domains in the data: a word that is no file is a name.

    One that ends as data files do is a file that is not there; v1.2 does not, and is a name.
    """
    given = list(watch)
    names = [path for path in given if path.name == str(path) and not is_data_file(path) and not path.exists()]
    return [path for path in given if path not in names], [str(path) for path in names]


def parted(stream: Stream, chosen: Sequence[str] | None, watched: Sequence[str]) -> tuple[Stream, list[Domain]]:
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


def is_free(folder: Path) -> bool:
    """Whether a model can be created here; an error if something else is in the way."""
    if folder.is_dir():
        if (folder / MANIFEST).exists():
            return False
        if foreign_names(folder):
            raise ModelError(f"{folder} is not a memgrow model and holds other things: choose another name")
        return True
    if folder.exists():
        raise ModelError(f"{folder} is a file, and a model is a folder: choose another name, or move it away")
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    if not above.is_dir():
        raise ModelError(f"{folder} cannot be created, as {above} is a file: choose another place")
    return True


def sizes_note(learner: Learner, recipe: Recipe, device: str) -> str:
    """A line about the sizes that a new model has, where nobody has named them."""
    usual = recipe.defaults(device, learner.task == REPLY)
    line = sizes_line(usual, learner.settings, learner.training)
    return f"{line} (--recipe and --set change them)" if usual.suits else ""


def _created(
    vectors: Path | None, replies: bool, recipe: Recipe, method: str | None, seed: int | None, device: str
) -> Learner:
    usual = recipe.defaults(device, replies)
    return Learner.create(
        method or usual.method,
        task=REPLY if replies else None,
        model=recipe.model(usual.model, vectors),
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
        files = _same_encoder(folder, recipe.encoder, learner.encoder)
        learner.config = replace(learner.config, encoder=files)
        asked = replace(asked, encoder=files.name)
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
    training = recipe.section("training", learner.training)
    learner.config = replace(learner.config, training=training, seed=learner.seed if seed is None else seed)
    before = {domain: len(rows) for domain, rows in learner.state.method_state.rows.items()}
    learner.use(method or learner.method.name, recipe.section("options", learner.options))
    if before and not learner.method.keeps_rows:
        rows = counted(sum(before.values()), "row")
        notice(f"{folder} keeps {rows} of {listed(before)}: {learner.method.name} drops them with the next save")
    return learner
