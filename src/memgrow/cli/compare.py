"""`memgrow compare` and `demo`: methods side by side on anybody's own stream, and on made-up domains."""

from pathlib import Path
from typing import Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import console, notice, opened, progress_console, save_picture, say, split_names, write_json
from memgrow.cli.report import REPORT, check_replaceable, write_report
from memgrow.errors import SettingsError

Given = Annotated[
    list[str],
    typer.Argument(metavar="STREAM", help="A corpus, a folder, or files: a domain each.", show_default=False),
]
Methods = Annotated[
    str | None,
    typer.Option(metavar="A,B,C", help="Which methods; F and multi-task go with them.", show_default=opt.COMPARED),
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
    on: opt.On = opt.LOCAL,
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
    delimiter: opt.Delimiter = None,
    encoding: opt.Encoding = None,
    map_label: opt.MapLabel = None,
    beam: opt.Beam = 1,
    as_json: opt.AsJson = False,
) -> None:
    """Methods side by side on your own domains: accuracy, forgetting, size, time; of replies, BLEU-2 and perplexity.

    Finished runs are kept in the folder --out: the same command again goes on from them.

    Example: memgrow compare sentiment --methods F+V,F+M+V --seeds 3
    """
    from memgrow.cli.comparing import failed, introduce, references, settings_for, show, write
    from memgrow.cli.recipe import read_recipe
    from memgrow.data import Stream
    from memgrow.experiments.comparison import ENCODER_METHODS, METHODS, RETRAINING, Comparison, runs_of
    from memgrow.experiments.comparison_setup import (
        LABELS,
        for_data,
        kind_of,
        open_stream,
        refuse_incomparable,
        suitable,
    )
    from memgrow.experiments.convergence import Convergence, reference_training
    from memgrow.experiments.grid import Grid
    from memgrow.experiments.on_ray import find_backend
    from memgrow.experiments.reply_records import ReplyEvaluation
    from memgrow.experiments.store import Store
    from memgrow.report.progress_bars import GridBar

    # What is quick to check comes first: a long file need not be read for a misspelt method.
    backend = find_backend(on)
    check_replaceable(out / REPORT)
    asked, vectors = read_recipe(recipe, set_ or (), encoder), opt.vectors_file(vectors)
    named = split_names(methods)
    chosen = named or ([asked.method] if asked.method else [])
    names = named or [*(METHODS if asked.encoder is None else ENCODER_METHODS), *chosen]
    first = (asked.seed or 0) if seed is None else seed
    runs_of(Stream(()), names, (), settings_for(asked, vectors, for_data(LABELS, stream), device))
    loaded = open_stream(
        stream,
        columns=opt.columns(
            text=text,
            pair=pair,
            label=label,
            by=by,
            group=group,
            split_column=split_column,
            reply=reply,
            map_label=map_label,
            delimiter=delimiter,
            encoding=encoding,
        ),
        validation=validation or (),
        test=test or (),
        held_out=held_out or (),
        domains=split_names(domains),
        limit=limit,
        skip_empty=skip_empty,
    )
    for sentence in loaded.notices:
        notice(sentence)
    refuse_incomparable(loaded.stream)
    names = suitable(names, loaded.stream, chosen)
    kind = for_data(kind_of(loaded.stream), stream)
    if beam > 1 and not kind.is_dialogue:
        raise SettingsError("--beam is for replies, and these domains have labels: leave it out")
    settings = settings_for(asked, vectors, kind, device)
    reference = reference_training(settings.training, loaded.stream)
    runs = runs_of(loaded.stream, names, range(first, first + seeds), settings, reference)
    introduce(loaded.stream, settings, asked.defaults(device, kind.is_dialogue))
    with opened(backend), GridBar(progress_console()) as bar:
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
            stack_single=False,  # so that `adapt` gives what is shown here
        )
        outcome = grid.run(run for by_seed in runs.values() for run in by_seed.values())
    beside = references(grid, kind, range(first, first + seeds))
    comparison = Comparison.of(runs, outcome, kind, beside)
    ended = Convergence.of(RETRAINING, runs[RETRAINING], outcome)
    show(comparison, seeds, ended)
    if comparison.results:
        content = write(comparison, loaded.stream, settings, range(first, first + seeds), out, ended)
        if as_json:
            write_json(content, indent=1)
    if comparison.failures:
        raise SettingsError(failed(comparison, seeds * len(runs)))


def demo(
    methods: Annotated[str, typer.Option(metavar="A,B,C", help="Which methods to compare.")] = opt.DEMO,
    seeds: Seeds = 1,
    seed: opt.Seed = 0,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="For the report, the picture and the figures.")] = Path(
        "memgrow-demo"
    ),
    device: opt.Device = "auto",
    as_json: opt.AsJson = False,
) -> None:
    """Four made-up domains in turn: fine-tuning beside the default and a memory that grows, and what to conclude.

    Example: memgrow demo --seeds 3
    """
    from memgrow.experiments.demo import METHODS as DEMO_METHODS
    from memgrow.experiments.demo import run_demo
    from memgrow.report.comparison import demo_table, demo_verdict, marked
    from memgrow.report.matrix import MatrixTable
    from memgrow.report.plots import draw_matrices
    from memgrow.report.progress_bars import TrainingBar
    from memgrow.report.stored_figures import read_figures
    from memgrow.storage import atomic_write, pack_json

    check_replaceable(out / REPORT)
    out.mkdir(parents=True, exist_ok=True)  # what cannot be written to is told before anything is learnt
    say("Four domains arrive one after another; cues of one conflict with those of the next.")
    first = seed or 0
    with TrainingBar(progress_console()) as bar:
        made = run_demo(split_names(methods) or DEMO_METHODS, range(first, first + seeds), device, bar)
    matrices = {marked(method): made.comparison.mean_matrix(method) for method in made.comparison.results}
    for method, matrix in matrices.items():
        console.print(MatrixTable(matrix, f"{method}: test accuracy, %"))
    console.print(demo_table(made.comparison, seeds))
    for sentence in demo_verdict(made.comparison, seeds):
        say(sentence)
    figures = atomic_write(out / "demo.json", pack_json(content := made.to_json()))
    say(f"The figures are in {figures}.")
    runs = "one run" if seeds == 1 else f"mean of {seeds} runs"
    title = f"Four synthetic domains in turn ({runs})"
    forgot = {marked(name): values["forgetting"].mean for name, values in made.comparison.summary.items()}
    save_picture(out / "demo.png", lambda file: draw_matrices(matrices, file, title, forgot))
    write_report(read_figures(figures), out / REPORT)
    if as_json:
        write_json(content, indent=1)
