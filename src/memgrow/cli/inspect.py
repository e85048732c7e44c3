"""`memgrow inspect`, `methods` and `doctor`: what a model, memgrow and this machine have to say of themselves."""

from dataclasses import asdict
from typing import Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import console, say, write_json, write_line
from memgrow.printable import json_text


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
    from memgrow.data.inputs import inputs_from_arguments
    from memgrow.evaluation.attention import additions_by_bank, attention_by_bank, unknown_words
    from memgrow.learner import Learner
    from memgrow.report.learner import about, about_table, matrix_title, stages_table, summary_line
    from memgrow.report.matrix import MatrixTable
    from memgrow.report.reading import reading_table

    learner = Learner.load(model, device)
    examples = [one.example for one in inputs_from_arguments(texts or [], learner.task)]
    if as_json:
        read = [
            {
                "texts": example.texts,
                "tokens": learner.tokens(example),
                "unknown": unknown_words(learner, example),
                "banks": attention_by_bank(learner, example),
                **({"adds": adds} if (adds := additions_by_bank(learner, example)) else {}),
            }
            for example in examples
        ]
        write_json({"about": asdict(about(learner)), "history": learner.history.to_json(), "reading": read}, indent=1)
        return
    console.print(about_table(learner))
    console.print(stages_table(learner.history, learner.task))
    console.print(MatrixTable(learner.history.matrix, matrix_title(learner.task)))
    say(summary_line(learner.history, learner.task))
    for example in examples:
        console.print(reading_table(learner, example))


def methods(as_json: opt.AsJson = False) -> None:
    """The methods by name, the defaults first.

    Example: memgrow methods
    """
    from memgrow.report.methods import defaults_line, letters_table, methods_table, read_methods

    known = read_methods()
    if as_json:
        write_line(json_text(known, 1))
        return
    console.print(methods_table(known), letters_table(known))
    say(defaults_line(known))


def doctor(as_json: opt.AsJson = False) -> None:
    """Which way the recurrence takes on this machine, and why.

    Example: memgrow doctor
    """
    from memgrow.cli.machine import findings

    if as_json:
        write_json({"findings": list(findings())}, indent=1)
        return
    for sentence in findings():
        say(sentence)
