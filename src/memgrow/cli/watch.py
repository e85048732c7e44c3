"""`memgrow watch`: whether texts are still like those that a model has learnt."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import note_to_stderr, say, standard_input, write_json
from memgrow.errors import ModelError

if TYPE_CHECKING:
    from memgrow.data import Example
    from memgrow.evaluation.drift import DriftMonitor, Verdict
    from memgrow.learner import Learner

SHOWN = 20  # windows that have a line of their own


def watch(
    model: opt.Model,
    file: Annotated[
        Path | None,
        typer.Argument(
            readable=False,
            metavar="TEXTS",
            help="JSONL, CSV, TSV or Parquet file of texts; without it, standard input.",
            show_default=False,
        ),
    ] = None,
    text: opt.Text = None,
    pair: opt.Pair = None,
    delimiter: opt.Delimiter = None,
    encoding: opt.Encoding = None,
    window: Annotated[int, typer.Option(metavar="N", help="Texts that are tested together.")] = opt.WINDOW,
    alpha: Annotated[
        float, typer.Option(metavar="SHARE", help="How often texts like those learnt may alarm.")
    ] = opt.ALPHA,
    as_json: opt.AsJson = False,
    device: opt.Device = "auto",
) -> None:
    """Tell whether texts are still like those that a model has learnt, or adapting seems due.

    A line for each window of texts, as soon as it is full, and what they say together. Texts need no labels.

    Example: memgrow watch model/ asked.jsonl
    """
    from memgrow.data import Example
    from memgrow.data.files import line_chunks
    from memgrow.data.inputs import in_chunks, inputs_from_file, inputs_from_lines
    from memgrow.evaluation.drift import Verdict, together
    from memgrow.learner import Learner

    if file is None:
        opt.refuse_delimiter(delimiter, "standard input has a text or an object a line")
    columns = opt.columns(text=text, pair=pair, delimiter=delimiter, encoding=encoding)
    learner = Learner.load(model, device)
    monitor = learner.drift_monitor(window, alpha)
    if not learner.reference.domains:
        raise ModelError(f"{model}: {monitor.report().sentence}")
    examples: Iterable[Example] = (
        (one.example for one in inputs_from_file(file, columns))
        if file
        else (
            one.example
            for some in inputs_from_lines(line_chunks(standard_input()), columns, learner.task)
            for one in some
        )
    )
    found: list[Verdict] = []
    texts = 0
    for chunk in in_chunks(examples, window):
        texts += len(chunk)
        for verdict in monitor.add(chunk, _confidences(learner, chunk)):
            found.append(verdict)
            _show(monitor, verdict, len(found), texts, as_json)
        if sys.stdout is not None:
            sys.stdout.flush()
    if (rest := monitor.finish()) is not None:
        found.append(rest)
        _show(monitor, rest, len(found), texts, as_json)
    if len(found) > SHOWN and not as_json:
        say(f"... {len(found):,} windows in all")
    due, sentence = together(found, alpha, texts)
    if monitor.note:
        note_to_stderr(monitor.note)
    if as_json:
        write_json({"texts": texts, "windows": len(found), "due": due, "sentence": sentence, "alpha": alpha})
    else:
        say(sentence, soft_wrap=True)


def _confidences(learner: "Learner", examples: "list[Example]") -> list[float] | None:
    from memgrow.models import REPLY

    if learner.task == REPLY:
        return None
    return [one.confidence for one in learner.predict(examples)]


def _show(monitor: "DriftMonitor", verdict: "Verdict", number: int, texts: int, as_json: bool) -> None:
    from memgrow.evaluation.drift import in_words

    if as_json:
        write_json({"until": texts, **vars(verdict), "alarm": verdict.p <= monitor.alpha})
    elif number <= SHOWN:
        say(f"up to text {texts:,}: {in_words(verdict, monitor.alpha)}", soft_wrap=True)
