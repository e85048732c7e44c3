"""The command line: thin commands over the library. A user's mistake is one sentence and exit code 2."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
from rich.console import Console
from rich.markup import escape

from memgrow import options as opt
from memgrow.adaptation import adapt_model
from memgrow.answers import examples_from_lines, examples_from_words, in_chunks
from memgrow.data import Columns, Example, load_for_evaluation, load_stream, read_unlabelled
from memgrow.demo import METHODS as DEMO_METHODS
from memgrow.demo import compare
from memgrow.errors import MemgrowError, SettingsError
from memgrow.learner import Learner
from memgrow.recipe import read_recipe
from memgrow.report.about import about
from memgrow.report.bar import Bar
from memgrow.report.picture import draw_matrices
from memgrow.report.tables import (
    comparison_table,
    matrix_table,
    methods_table,
    reading_table,
    scores_table,
    stages_table,
    summary_line,
)

console = Console()
whispers = Console(stderr=True)


class Commands(typer.core.TyperGroup):
    """Turns mistakes into sentences, whichever command they are made in."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except MemgrowError as error:
            whispers.print(f"[red]memgrow:[/red] {escape(str(error))}", soft_wrap=True, highlight=False)
            ctx.exit(2)
        except BrokenPipeError:  # the reader of our output has gone, as `head` does: nothing to say, and nobody to hear
            raise
        except OSError as error:
            whispers.print(f"[red]memgrow:[/red] {escape(str(error))}", soft_wrap=True, highlight=False)
            ctx.exit(2)
        except KeyboardInterrupt:
            whispers.print("memgrow: stopped; what was saved before is unchanged", highlight=False)
            ctx.exit(130)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="One text model that learns domain after domain, without the old data and without forgetting.",
)


def _names(domains: str | None) -> list[str] | None:
    return [name.strip() for name in domains.split(",")] if domains else None


@app.command()
def demo(
    methods: Annotated[str, typer.Option(help="Which methods to compare (a,b,c).")] = ",".join(DEMO_METHODS),
    seeds: Annotated[int, typer.Option(help="How many runs of each, with seeds one after another.", min=1)] = 1,
    seed: opt.Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the figures.")] = Path("memgrow-demo"),
    device: opt.Device = "auto",
) -> None:
    """Four made-up domains in turn: fine-tuning beside a memory that grows.

    Example: memgrow demo --seeds 3
    """
    console.print("Four domains arrive one after another; cues of one conflict with those of the next.")
    with Bar(console) as bar:
        comparison = compare(_names(methods) or DEMO_METHODS, seeds, seed or 0, device, bar)
    for method in comparison.runs:
        console.print(matrix_table(comparison.mean_matrix(method), f"{method}: test accuracy, %"))
    console.print(comparison_table(comparison.summary(), seeds))
    out.mkdir(parents=True, exist_ok=True)
    (out / "demo.json").write_text(json.dumps(comparison.to_json(), indent=1) + "\n", encoding="utf-8")
    runs = "one run" if seeds == 1 else f"mean of {seeds} runs"
    matrices = {method: comparison.mean_matrix(method) for method in comparison.runs}
    draw_matrices(matrices, out / "demo.png", f"Four synthetic domains in turn ({runs})")
    console.print(f"The picture is {out / 'demo.png'}, the figures are in {out / 'demo.json'}.")


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
    again: Annotated[bool, typer.Option(help="Learn a domain anew even if its data has been learnt.")] = False,
) -> None:
    """Learn domains in turn; creates MODEL if it is not there, else goes on from it. Resumes if it was killed.

    Example: memgrow adapt model/ books.jsonl dvds.jsonl.gz --method F+M+V
    """
    columns = Columns(text=text, pair=pair, label=label, by=by, group=group, split=split_column)
    loaded = load_stream(
        data,
        columns=columns,
        validation=validation or (),
        test=test or (),
        held_out=held_out or (),
        domains=_names(domains),
        limit=limit,
    )
    watched = load_for_evaluation(watch, columns).stream if watch else ()
    for notice in loaded.notices:
        console.print(f"[dim]{escape(notice)}[/dim]", highlight=False)
    learner = adapt_model(
        model,
        loaded.stream,
        watched,
        recipe=read_recipe(recipe, set_ or ()),
        method=method,
        seed=seed,
        device=device,
        vectors=vectors,
        again=again,
        console=console,
    )
    console.print(matrix_table(learner.history.matrix, "test accuracy, %"))
    if line := summary_line(learner.history):
        console.print(line, highlight=False)
    console.print(f"Saved as {model}.")


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
    as_json: opt.AsJson = False,
    device: opt.Device = "auto",
) -> None:
    """Accuracy on every file, or on every value of the column --by.

    Example: memgrow evaluate model/ books_test.jsonl dvds_test.jsonl
    """
    columns = Columns(text=text, pair=pair, label=label, by=by, split=split_column)
    learner = Learner.load(model, device)
    loaded = load_for_evaluation(data, columns, _names(domains))
    for notice in loaded.notices:
        whispers.print(f"[dim]{escape(notice)}[/dim]", highlight=False)
    scores = learner.evaluate(loaded.stream)
    if as_json:
        sys.stdout.write(json.dumps(scores) + "\n")
    else:
        console.print(scores_table(scores, {domain.name: len(domain.test) for domain in loaded.stream}))


@app.command()
def predict(
    model: opt.Model,
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts; for a model of pairs, two for each answer.", show_default=False)
    ] = None,
    file: Annotated[Path | None, typer.Option(help="JSONL, CSV or TSV file of texts.")] = None,
    text: opt.Text = None,
    pair: opt.Pair = None,
    device: opt.Device = "auto",
) -> None:
    """Label texts from arguments, a file or standard input (a JSON object or a plain text a line); JSONL out.

    Example: memgrow predict model/ "a quiet, moving book"   or   memgrow predict model/ < lines.jsonl
    """
    if texts and file:
        raise SettingsError("give texts or a --file, not both")
    learner = Learner.load(model, device)
    columns = Columns(text=text, pair=pair)
    examples: Iterable[Example]
    if texts:
        examples = examples_from_words(texts, learner.task)
    elif file:
        examples = read_unlabelled(file, columns)
    else:
        examples = examples_from_lines(sys.stdin.buffer, columns, learner.task)
    for chunk in in_chunks(examples):
        for example, answer in zip(chunk, learner.predict(chunk), strict=True):
            row = {"texts": example.texts, "label": answer.label, "probabilities": answer.probabilities}
            sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
        sys.stdout.flush()


@app.command()
def inspect(
    model: opt.Model,
    texts: Annotated[
        list[str] | None, typer.Argument(help="A text (two for a model of pairs) to see whose slots it reads.")
    ] = None,
    as_json: opt.AsJson = False,
    device: opt.Device = "auto",
) -> None:
    """What a model knows: domains, slots, words, parameters, history; whose slots a text reads.

    Example: memgrow inspect model/ "a quiet, moving book"
    """
    learner = Learner.load(model, device)
    if as_json:
        known = {"about": about(learner), "history": learner.history.to_json()}
        sys.stdout.write(json.dumps(known, ensure_ascii=False, indent=1) + "\n")
        return
    for name, value in about(learner).items():
        console.print(f"[bold]{name}[/bold] {escape(str(value))}", highlight=False)
    console.print(stages_table(learner.history))
    console.print(matrix_table(learner.history.matrix, "test accuracy, %"))
    if line := summary_line(learner.history):
        console.print(line, highlight=False)
    for example in examples_from_words(texts or [], learner.task):
        console.print(reading_table(learner, example))


@app.command()
def methods() -> None:
    """The methods by name.

    Example: memgrow methods
    """
    console.print(methods_table())


def main() -> None:
    app()
