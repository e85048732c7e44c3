"""`memgrow compare` and `demo`: methods side by side on anybody's own stream, and on made-up domains."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import console, opened, save_picture, say, split_names
from memgrow.cli.recipe import Recipe, read_recipe
from memgrow.cli.report import check_replaceable, write_report
from memgrow.data import Columns, Stream
from memgrow.errors import SettingsError, counted
from memgrow.experiments.bag_of_words import HOW_TO_GET, References, is_installed, reference_records
from memgrow.experiments.comparison import ENCODER_METHODS, METHODS, Comparison, Settings, runs_of
from memgrow.experiments.comparison_setup import (
    LABELS,
    Kind,
    for_data,
    kind_of,
    open_stream,
    refuse_incomparable,
    suitable,
)
from memgrow.experiments.demo import METHODS as DEMO_METHODS
from memgrow.experiments.demo import run_demo
from memgrow.experiments.grid import Grid
from memgrow.experiments.on_ray import LOCAL, find_backend
from memgrow.experiments.reply_records import ReplyEvaluation
from memgrow.experiments.store import Store
from memgrow.methods import MethodSettings
from memgrow.models import PretrainedSettings
from memgrow.report.comparison import compared_table, demo_table, digits, domains_table, legend, verdict
from memgrow.report.matrix import MatrixTable
from memgrow.report.plots import draw_comparison, draw_matrices
from memgrow.report.progress_bars import GridBar, TrainingBar
from memgrow.report.stored_figures import read_figures
from memgrow.storage import atomic_write, pack_json
from memgrow.text.vector_files import detect

REPORT = "report.html"

Given = Annotated[
    list[str],
    typer.Argument(metavar="STREAM", help="A corpus, a folder, or files: a domain each.", show_default=False),
]
Methods = Annotated[
    str | None,
    typer.Option(metavar="A,B,C", help="Which methods; F and multi-task go with them.", show_default=",".join(METHODS)),
]
Seeds = Annotated[int, typer.Option(metavar="N", help="How many runs of each, with seeds in turn.", min=1)]
Workers = Annotated[int | None, typer.Option(metavar="N", help="Processes; else as many as suit.", min=1)]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="For figures, picture, report and finished runs.")]


def compare(
    stream: Given,
    methods: Methods = None,
    seeds: Seeds = 3,
    out: Out = Path("memgrow-compare"),
    workers: Workers = None,
    on: opt.On = LOCAL,
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
    limit: opt.Limit = None,
    skip_empty: opt.SkipEmpty = False,
    beam: opt.Beam = 1,
) -> None:
    """Methods side by side on your own domains: accuracy, forgetting, size, time; of replies, BLEU-2 and perplexity.

    Finished runs are kept in the folder --out: the same command again goes on from them.

    Example: memgrow compare sentiment --methods F+V,F+M+V --seeds 3
    """
    # What is quick to check comes first: a long file need not be read for a misspelt method.
    backend = find_backend(on)
    check_replaceable(out / REPORT)
    asked = read_recipe(recipe, set_ or (), encoder)
    named = split_names(methods)
    chosen = named or ([asked.method] if asked.method else [])
    names = named or [*(METHODS if asked.encoder is None else ENCODER_METHODS), *chosen]
    first = (asked.seed or 0) if seed is None else seed
    runs_of(Stream(()), names, (), settings_for(asked, vectors, for_data(LABELS, stream)))
    loaded = open_stream(
        stream,
        columns=Columns(text=text, pair=pair, label=label, by=by, group=group, split=split_column, reply=reply),
        validation=validation or (),
        test=test or (),
        held_out=held_out or (),
        domains=split_names(domains),
        limit=limit,
        skip_empty=skip_empty,
    )
    for notice in loaded.notices:
        say(notice, "dim")
    refuse_incomparable(loaded.stream)
    names = suitable(names, loaded.stream, chosen)
    kind = for_data(kind_of(loaded.stream), stream)
    if beam > 1 and not kind.is_dialogue:
        raise SettingsError("--beam is for replies, and these domains have labels: leave it out")
    settings = settings_for(asked, vectors, kind)
    runs = runs_of(loaded.stream, names, range(first, first + seeds), settings)
    _introduce(loaded.stream, settings, kind)
    with opened(backend), GridBar(console) as bar:
        grid = Grid(
            loaded.stream,
            Store(out / "runs"),
            vectors=vectors,
            device=device,
            workers=workers,
            stack=1 if settings.model.kind.is_pretrained else kind.stack,  # these are trained one by one
            progress=bar,
            reply_evaluation=ReplyEvaluation(beam=beam, samples=0) if kind.is_dialogue else None,
            backend=backend,
        )
        outcome = grid.run(run for by_seed in runs.values() for run in by_seed.values())
    beside = _references(grid, kind, range(first, first + seeds))
    comparison = Comparison.of(runs, outcome, kind, beside)
    _show(comparison, seeds)
    if comparison.results:
        _write(comparison, loaded.stream, settings, range(first, first + seeds), out)
    if comparison.failures:
        raise SettingsError(_failed(comparison, seeds * len(runs)))


def settings_for(recipe: Recipe, vectors: Path | None, kind: Kind) -> Settings:
    """The recipe's settings, on top of small sizes; words are as long as the vectors that are given for them."""
    if recipe.encoder is not None:
        return _encoder_settings(recipe, vectors, kind)
    model = kind.model if vectors is None else replace(kind.model, embedding=detect(vectors).size)
    settings = Settings(
        recipe.section("model", model),
        recipe.section("training", kind.training),
        recipe.section("options", MethodSettings()),
    )
    if vectors is not None and settings.model.embedding != model.embedding:
        raise SettingsError(
            f"the vectors of {vectors} have {model.embedding} numbers, but embedding is {settings.model.embedding}: "
            "leave embedding out, or give other vectors"
        )
    return settings


def _encoder_settings(recipe: Recipe, vectors: Path | None, kind: Kind) -> Settings:
    """The recipe's settings on top of those that suit a pretrained encoder."""
    if vectors is not None or kind.is_dialogue:
        raise SettingsError(
            f"{recipe.encoder} is a pretrained encoder, which classifies texts and has pieces of words of its own: "
            f"leave out --encoder, or {'give rows with labels' if kind.is_dialogue else '--vectors'}"
        )
    usual = recipe.defaults
    model, _ = recipe.section("model", usual.model).resolved()
    return Settings(model, recipe.section("training", usual.training), recipe.section("options", usual.options))


def _references(grid: Grid, kind: Kind, seeds: range) -> References:
    """What a user would pick instead; nothing of the kind makes replies."""
    if kind.is_dialogue:
        return {}
    if not is_installed():
        say(HOW_TO_GET, "dim")
        return {}
    return reference_records(grid.ledger, seeds)


def _introduce(stream: Stream, settings: Settings, kind: Kind) -> None:
    sizes = [sum(len(getattr(domain, part)) for domain in stream) for part in ("train", "validation", "test")]
    say(f"{' → '.join(stream.names)}: {sizes[0]:,} training, {sizes[1]:,} validation, {sizes[2]:,} test examples")
    model, training = settings.model, settings.training
    if isinstance(model, PretrainedSettings):
        say(
            f"encoder {model.encoder}, rate {training.rate:g}, batch {training.batch}, at most "
            f"{counted(training.epochs, 'epoch')}",
            "dim",
        )
        return
    small = " (small sizes; --recipe and --set change them)" if (model, training) == (kind.model, kind.training) else ""
    say(
        f"embedding {model.embedding}, hidden {model.hidden}, slots {model.slots}, rate {training.rate:g}, "
        f"batch {training.batch}, at most {counted(training.epochs, 'epoch')}{small}",
        "dim",
    )


def _show(comparison: Comparison, seeds: int) -> None:
    for method in comparison.order:
        matrix = comparison.mean_matrix(method)
        if len(matrix.rows) > 1:
            console.print(MatrixTable(matrix, f"{method}: {comparison.kind.title}", digits(comparison)))
    if comparison.results:
        console.print(domains_table(comparison))
        console.print(compared_table(comparison, seeds))
        for sentence in (legend(comparison, seeds), verdict(comparison)):
            say(sentence)


def _write(comparison: Comparison, stream: Stream, settings: Settings, seeds: range, out: Path) -> None:
    parts = ("train", "validation", "test")
    content = {
        "domains": {domain.name: {part: len(getattr(domain, part)) for part in parts} for domain in stream},
        "seeds": list(seeds),
        "measure": comparison.kind.measure,
        "settings": settings.to_json(),
        "methods": comparison.to_json(),
        "failures": [
            {"method": one.run.method, "seed": one.run.seed, "stage": one.stage, "reason": one.reason}
            for one in comparison.failures
        ],
    }
    figures = atomic_write(out / "compare.json", pack_json(content))
    say(f"The figures are in {figures}.")
    title = f"{' → '.join(stream.names)} ({counted(len(seeds), 'seed')})"
    save_picture(out / "compare.png", lambda file: draw_comparison(comparison, file, title))
    write_report(read_figures(figures), out / REPORT)


def _failed(comparison: Comparison, runs: int) -> str:
    """A sentence about the runs that failed: which, the reason of the first, and what to do."""
    failures = comparison.failures
    which = ", ".join(dict.fromkeys(failure.run.method for failure in failures))
    return (
        f"{len(failures)} of {counted(runs, 'run')} failed ({which}): {failures[0].reason}; "
        "the same command again tries only what failed"
    )


def demo(
    methods: Annotated[str, typer.Option(metavar="A,B,C", help="Which methods to compare.")] = ",".join(DEMO_METHODS),
    seeds: Seeds = 1,
    seed: opt.Seed = 0,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="For the report, the picture and the figures.")] = Path(
        "memgrow-demo"
    ),
    device: opt.Device = "auto",
) -> None:
    """Four made-up domains in turn: fine-tuning beside a memory that grows.

    Example: memgrow demo --seeds 3
    """
    check_replaceable(out / REPORT)
    out.mkdir(parents=True, exist_ok=True)  # what cannot be written to is told before anything is learnt
    say("Four domains arrive one after another; cues of one conflict with those of the next.")
    first = seed or 0
    with TrainingBar(console) as bar:
        made = run_demo(split_names(methods) or DEMO_METHODS, range(first, first + seeds), device, bar)
    matrices = {method: made.comparison.mean_matrix(method) for method in made.comparison.results}
    for method, matrix in matrices.items():
        console.print(MatrixTable(matrix, f"{method}: test accuracy, %"))
    console.print(demo_table(made.comparison, seeds))
    figures = atomic_write(out / "demo.json", pack_json(made.to_json()))
    say(f"The figures are in {figures}.")
    runs = "one run" if seeds == 1 else f"mean of {seeds} runs"
    title = f"Four synthetic domains in turn ({runs})"
    forgot = {name: values["forgetting"].mean or 0.0 for name, values in made.comparison.summary.items()}
    save_picture(out / "demo.png", lambda file: draw_matrices(matrices, file, title, forgot))
    write_report(read_figures(figures), out / REPORT)
