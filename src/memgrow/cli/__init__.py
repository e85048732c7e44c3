"""The command line: thin commands over the library. A user's mistake is one sentence and exit code 2."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from memgrow import __version__
from memgrow.cli import chat, compare, data, evaluate, paper, predict, theorem
from memgrow.cli import options as opt
from memgrow.cli.adapt import learn_stream, open_or_create
from memgrow.cli.errors import Commands, whisper
from memgrow.cli.output import names, write_json
from memgrow.cli.recipe import read_recipe
from memgrow.data import Columns, Loaded, Stream, load_for_evaluation, load_stream
from memgrow.data.load import refuse_namesakes
from memgrow.data.records import examples_from_words
from memgrow.errors import SettingsError
from memgrow.experiments.demo import METHODS as DEMO_METHODS
from memgrow.experiments.demo import run_demo
from memgrow.learner import Learner
from memgrow.report.bar import Bar
from memgrow.report.comparison import demo_table
from memgrow.report.doctor import findings
from memgrow.report.learner import (
    MatrixTable,
    about,
    about_table,
    letters_table,
    matrix_title,
    methods_table,
    reading_shares,
    reading_table,
    stages_table,
    summary_line,
)
from memgrow.report.plots import draw_matrices


def register(app: typer.Typer) -> None:
    for command in (evaluate, predict, chat, compare, data, paper, theorem):
        command.register(app)


console = Console(highlight=False)

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"memgrow {__version__}\n")
        raise typer.Exit


@app.callback()
def memgrow(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """One text model that learns domain after domain without the old data, and shows what was forgotten."""


@app.command()
def demo(
    methods: Annotated[str, typer.Option(metavar="A,B,C", help="Which methods to compare.")] = ",".join(DEMO_METHODS),
    seeds: Annotated[int, typer.Option(metavar="N", help="How many runs of each, with seeds in turn.", min=1)] = 1,
    seed: opt.Seed = 0,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="For the picture and the figures.")] = Path(
        "memgrow-demo"
    ),
    device: opt.Device = "auto",
) -> None:
    """Four made-up domains in turn: fine-tuning beside a memory that grows.

    Example: memgrow demo --seeds 3
    """
    out.mkdir(parents=True, exist_ok=True)
    console.print("Four domains arrive one after another; cues of one conflict with those of the next.")
    with Bar(console) as bar:
        made = run_demo(names(methods) or DEMO_METHODS, range(seed or 0, (seed or 0) + seeds), device, bar)
    matrices = {method: made.comparison.mean_matrix(method) for method in made.comparison.results}
    for method, matrix in matrices.items():
        console.print(MatrixTable(matrix, f"{method}: test accuracy, %"))
    console.print(demo_table(made.comparison, seeds))
    figures, picture = out / "demo.json", out / "demo.png"
    figures.write_text(json.dumps(made.to_json(), indent=1) + "\n", encoding="utf-8")
    _say(f"The figures are in {figures}.")
    runs = "one run" if seeds == 1 else f"mean of {seeds} runs"
    try:
        forgot = {name: values["forgetting"].mean or 0.0 for name, values in made.comparison.summary.items()}
        draw_matrices(matrices, picture, f"Four synthetic domains in turn ({runs})", forgot)
    except SettingsError as error:  # a picture is an extra: without it the figures are worth having all the same
        whisper(f"There is no picture: {error}")
    else:
        _say(f"The picture is {picture}.")


@app.command()
def adapt(
    model: opt.Model,
    data: opt.Files,
    method: opt.Method = None,
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
    limit: opt.Limit = None,
    skip_empty: opt.SkipEmpty = False,
    again: Annotated[bool, typer.Option("--again", help="Learn anew what was learnt from the same data.")] = False,
) -> None:
    """Learn domains in turn, in a new MODEL or going on from it; resumes if killed.

    Example: memgrow adapt model/ books.jsonl dvds.jsonl.gz --method F+M+V
    """
    # What is quick to check comes first: a long file need not be read for a misspelt method.
    learner = open_or_create(model, read_recipe(recipe, set_ or ()), method, seed, device)
    columns = Columns(text=text, pair=pair, label=label, by=by, group=group, split=split_column, reply=reply)
    loaded = load_stream(
        data,
        columns=columns,
        validation=validation or (),
        test=test or (),
        held_out=held_out or (),
        domains=names(domains),
        limit=limit,
        skip_empty=skip_empty,
    )
    refuse_namesakes(data, by)
    watched = (
        load_for_evaluation(watch, replace(columns, group=None), skip_empty=skip_empty) if watch else Loaded(Stream(()))
    )
    for notice in (*loaded.notices, *watched.notices):
        console.print(Text(notice, "dim"))
    with Bar(console) as bar:
        stages = learn_stream(
            learner, loaded.stream, watched.stream, folder=model, vectors=vectors, again=again, bar=bar
        )
    console.print(MatrixTable(learner.history.matrix, matrix_title(learner.task)))
    _say(summary_line(learner.history))
    _say(f"Saved as {model}." if stages else f"There was nothing new to learn: {model} is as it was.")


@app.command()
def inspect(
    model: opt.Model,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="A text (two for a model of pairs) to see whose slots it reads.",
            show_default=False,
        ),
    ] = None,
    as_json: opt.AsJson = False,
    device: opt.Device = "auto",
) -> None:
    """What a model knows and has been through; whose slots a text reads.

    Example: memgrow inspect model/ "a quiet, moving book"
    """
    learner = Learner.load(model, device)
    examples = examples_from_words(texts or [], learner.task)
    if as_json:
        read = [{"texts": example.texts, "banks": reading_shares(learner, example)} for example in examples]
        write_json({"about": about(learner), "history": learner.history.to_json(), "reading": read}, indent=1)
        return
    console.print(about_table(learner))
    console.print(stages_table(learner.history))
    console.print(MatrixTable(learner.history.matrix, matrix_title(learner.task)))
    _say(summary_line(learner.history))
    for example in examples:
        console.print(reading_table(learner, example))


@app.command()
def doctor() -> None:
    """Which way the recurrence takes on this machine, and why.

    Example: memgrow doctor
    """
    for sentence in findings():
        _say(sentence)


@app.command()
def methods() -> None:
    """The methods by name.

    Example: memgrow methods
    """
    console.print(methods_table(), letters_table())


register(app)


def main() -> None:
    app()


def _say(sentence: str) -> None:
    """Print a sentence that may hold names of a user's own, which are never markup."""
    if sentence:
        console.print(Text(sentence))
