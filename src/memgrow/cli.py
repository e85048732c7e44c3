"""The command line: thin commands over the library. A user's mistake is one sentence and exit code 2."""

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from memgrow import __version__
from memgrow import options as opt
from memgrow.adaptation import learn_stream, open_or_create
from memgrow.answers import count_cut, examples_from_lines, examples_from_words, in_chunks
from memgrow.commands import register
from memgrow.data import Columns, Example, Loaded, Stream, load_for_evaluation, load_stream, read_unlabelled
from memgrow.demo import METHODS as DEMO_METHODS
from memgrow.demo import compare
from memgrow.errors import SettingsError
from memgrow.learner import Learner
from memgrow.mistakes import Commands, whisper
from memgrow.namesakes import refuse_namesakes
from memgrow.recipe import read_recipe
from memgrow.report.about import about, about_table
from memgrow.report.bar import Bar
from memgrow.report.doctor import findings
from memgrow.report.growth import counted
from memgrow.report.matrix import MatrixTable
from memgrow.report.picture import draw_matrices
from memgrow.report.reading import reading_shares, reading_table
from memgrow.report.tables import (
    comparison_table,
    letters_table,
    methods_table,
    scores_table,
    stages_table,
    summary_line,
)

CHUNK = 1024  # texts that are labelled together: a pipe of any length takes little memory

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
        comparison = compare(_names(methods) or DEMO_METHODS, seeds, seed or 0, device, bar)
    matrices = {method: comparison.mean_matrix(method) for method in comparison.runs}
    for method, matrix in matrices.items():
        console.print(MatrixTable(matrix, f"{method}: test accuracy, %"))
    console.print(comparison_table(comparison.summary(), seeds))
    figures, picture = out / "demo.json", out / "demo.png"
    figures.write_text(json.dumps(comparison.to_json(), indent=1) + "\n", encoding="utf-8")
    _say(f"The figures are in {figures}.")
    runs = "one run" if seeds == 1 else f"mean of {seeds} runs"
    try:
        forgot = {method: values["forgetting"]["mean"] for method, values in comparison.summary().items()}
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
    columns = Columns(text=text, pair=pair, label=label, by=by, group=group, split=split_column)
    loaded = load_stream(
        data,
        columns=columns,
        validation=validation or (),
        test=test or (),
        held_out=held_out or (),
        domains=_names(domains),
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
    console.print(MatrixTable(learner.history.matrix, "test accuracy, %"))
    _say(summary_line(learner.history))
    _say(f"Saved as {model}." if stages else f"There was nothing new to learn: {model} is as it was.")


@app.command()
def evaluate(
    model: opt.Model,
    data: opt.Files,
    text: opt.Text = None,
    pair: opt.Pair = None,
    label: opt.Label = None,
    by: opt.By = None,
    domains: opt.Domains = None,
    split_column: opt.SplitColumn = None,
    skip_empty: opt.SkipEmpty = False,
    as_json: opt.AsJson = False,
    device: opt.Device = "auto",
) -> None:
    """Accuracy on every file, or on every value of the column --by.

    Example: memgrow evaluate model/ books_test.jsonl dvds_test.jsonl
    """
    columns = Columns(text=text, pair=pair, label=label, by=by, split=split_column)
    learner = Learner.load(model, device)
    loaded = load_for_evaluation(data, columns, _names(domains), skip_empty=skip_empty)
    refuse_namesakes(data, by)
    scores = learner.evaluate(loaded.stream)
    for notice in loaded.notices:
        whisper(notice)
    _tell_of_cuts([example for domain in loaded.stream for example in domain.test], learner)
    if as_json:
        _write_json(scores)
    else:
        console.print(scores_table(scores, {domain.name: len(domain.test) for domain in loaded.stream}))


@app.command()
def predict(
    model: opt.Model,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts; for a model of pairs, two for each answer.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="JSONL, CSV or TSV file of texts.")
    ] = None,
    text: opt.Text = None,
    pair: opt.Pair = None,
    device: opt.Device = "auto",
) -> None:
    """Label texts from arguments, a file or standard input; JSON lines out.

    On standard input a line is a JSON object or a plain text; for a model of pairs, two texts with a tab between.

    Example: memgrow predict model/ "a quiet, moving book"
    """
    if texts and file:
        raise SettingsError("give texts or a --file, not both")
    learner = Learner.load(model, device)
    columns, size = Columns(text=text, pair=pair), CHUNK
    examples: Iterable[Example]
    if texts:
        examples = examples_from_words(texts, learner.task)
    elif file:
        examples = read_unlabelled(file, columns)
    else:
        examples = examples_from_lines(sys.stdin.buffer, columns, learner.task)
        if sys.stdin.isatty():
            whisper("Type a text a line; Ctrl-D ends.")
            size = 1  # somebody waits for each answer
    for chunk in in_chunks(examples, size):
        _tell_of_cuts(chunk, learner)
        for example, answer in zip(chunk, learner.predict(chunk), strict=True):
            _write_json({"texts": example.texts, "label": answer.label, "probabilities": answer.probabilities})
        sys.stdout.flush()


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
        _write_json({"about": about(learner), "history": learner.history.to_json(), "reading": read}, indent=1)
        return
    console.print(about_table(learner))
    console.print(stages_table(learner.history))
    console.print(MatrixTable(learner.history.matrix, "test accuracy, %"))
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


def _names(listed: str | None) -> list[str] | None:
    return [name.strip() for name in listed.split(",") if name.strip()] if listed else None


def _say(sentence: str) -> None:
    """Print a sentence that may hold names of a user's own, which are never markup."""
    if sentence:
        console.print(Text(sentence))


def _write_json(value: Any, indent: int | None = None) -> None:
    """A line of JSON in UTF-8, whatever the terminal's own encoding is."""
    sys.stdout.buffer.write((json.dumps(value, ensure_ascii=False, indent=indent) + "\n").encode())


def _tell_of_cuts(examples: Iterable[Example], learner: Learner) -> None:
    limit = learner.training.max_words
    if cut := count_cut(examples, limit):
        whisper(f"{counted(cut, 'text')} longer than {limit} words: only the beginning is read")
