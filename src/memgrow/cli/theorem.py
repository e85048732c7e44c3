"""`memgrow theorem`: Theorem 1 in numbers."""

import json
from pathlib import Path
from typing import Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import console, note_to_stderr, progress_console, save_picture, say, split_names, write_json
from memgrow.errors import SettingsError


def theorem(
    model: Annotated[
        Path | None, typer.Option("--model", metavar="MODEL", help="A trained model to measure as well.")
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="With --model: texts to measure on; may be repeated.", show_default=False),
    ] = None,
    samples: Annotated[int, typer.Option(metavar="N", help="Draws for each choice of sizes.", min=2)] = opt.SAMPLES,
    draws: Annotated[int, typer.Option(metavar="N", help="With --model: draws of what is new.", min=2)] = opt.DRAWS,
    slots: Annotated[
        int | None, typer.Option(metavar="N", help="With --model: how many are added; else as a domain adds.", min=1)
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", help="With --model: at most so many examples of each domain.", min=1)
    ] = opt.EXAMPLES,
    seed: opt.Seed = 0,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="For the picture and the figures.")] = Path(
        "memgrow-theorem"
    ),
    device: opt.Device = "auto",
    text: opt.Text = None,
    pair: opt.Pair = None,
    label: opt.Label = None,
    by: opt.By = None,
    domains: opt.Domains = None,
    skip_empty: opt.SkipEmpty = False,
    delimiter: opt.Delimiter = None,
    encoding: opt.Encoding = None,
    as_json: opt.AsJson = False,
) -> None:
    """Theorem 1 in numbers: what new slots and new hidden units do to states.

    Example: memgrow theorem --model model/ --data books_test.jsonl
    """
    from memgrow.data import Stream, load_for_evaluation
    from memgrow.experiments.theorem.report import parts, theorem_report
    from memgrow.learner import Learner
    from memgrow.report.progress_bars import PartsBar
    from memgrow.report.theorem import theorem_tables
    from memgrow.report.theorem_plot import draw_theorem
    from memgrow.storage import atomic_write

    if (model is None) != (not data):
        raise SettingsError("a model is measured on texts: give both --model and --data, or neither")
    learners = {} if model is None else {model.name: Learner.load(model, device)}
    stream = Stream(())
    if data:
        columns = opt.columns(text=text, pair=pair, label=label, by=by, delimiter=delimiter, encoding=encoding)
        loaded = load_for_evaluation(data, columns, split_names(domains), skip_empty=skip_empty)
        stream = loaded.stream
        for notice in loaded.notices:
            note_to_stderr(notice)
    with PartsBar(progress_console(), "Theorem 1", parts(len(learners), len(stream), draws)) as bar:
        report = theorem_report(
            learners,
            stream,
            samples=samples,
            slots=slots,
            draws=draws,
            examples=limit,
            seed=seed or 0,
            tick=bar.tick,
        )
    for shown in theorem_tables(report):
        console.print(shown)
    figures = atomic_write(out / "theorem.json", json.dumps(report.to_json(), indent=1) + "\n")
    say(f"The figures are in {figures}.")
    save_picture(out / "theorem.png", lambda file: draw_theorem(report, file))
    if as_json:
        write_json(report.to_json(), indent=1)
