"""`memgrow predict`."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from memgrow.cli import options as opt
from memgrow.cli.errors import whisper
from memgrow.cli.output import tell_of_cuts, write_json
from memgrow.data import Columns, Example, read_unlabelled
from memgrow.data.records import examples_from_lines, examples_from_words, in_chunks
from memgrow.errors import SettingsError
from memgrow.learner import Learner
from memgrow.models import REPLY

CHUNK = 1024  # texts that are answered together: a pipe of any length takes little memory


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(predict)


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
    beam: opt.Beam = 1,
    device: opt.Device = "auto",
) -> None:
    """Label texts, or reply to them, from arguments, a file or standard input; JSON lines out.

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
        tell_of_cuts(chunk, learner)
        for example, answer in zip(chunk, _answers(learner, chunk, beam), strict=True):
            write_json({"texts": example.texts, **answer})
        sys.stdout.flush()


def _answers(learner: Learner, examples: Sequence[Example], beam: int) -> Iterator[dict[str, Any]]:
    if learner.task != REPLY:
        for answer in learner.predict(examples):
            yield {"label": answer.label, "probabilities": answer.probabilities}
        return
    from memgrow.replying import replies

    for reply in replies(learner, examples, beam=beam):
        yield {"reply": reply.text, "ended": reply.ended}
