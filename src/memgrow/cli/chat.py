"""`memgrow chat`."""

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from memgrow.cli import options as opt
from memgrow.cli.errors import whisper
from memgrow.errors import ModelError
from memgrow.learner import Learner
from memgrow.models import REPLY
from memgrow.report.table import percent

console = Console(highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(chat)


def chat(
    model: opt.Model,
    beam: opt.Beam = 1,
    temperature: Annotated[
        float | None,
        typer.Option(metavar="T", help="Draw words by chance: 1 as probable as they are, less is calmer.", min=0.01),
    ] = None,
    max_words: Annotated[int, typer.Option(metavar="N", help="A longer reply is cut.", min=1)] = 40,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
) -> None:
    """Talk to a model that has learnt replies; shows whose slots each reply read.

    A line is a message, and has no memory of the one before it. An empty line or Ctrl-D ends.

    Example: memgrow chat model/ --beam 5
    """
    from memgrow.replying import replies, whose_slots

    learner = Learner.load(model, device)
    if learner.task != REPLY:
        raise ModelError(f"{model} answers with labels, not with words: use memgrow predict")
    if sys.stdin.isatty():
        whisper("Type a message a line; an empty line ends.")
    for turn, line in enumerate(sys.stdin):
        if not (message := line.strip()):
            break
        (reply,) = replies(
            learner, [message], beam=beam, temperature=temperature, max_words=max_words, seed=(seed or 0) + turn
        )
        console.print(Text(reply.text + ("" if reply.ended else " …")))
        if shares := whose_slots(learner, message, reply):
            console.print(Text("   " + ", ".join(f"{name} {percent(share)}%" for name, share in shares.items()), "dim"))
