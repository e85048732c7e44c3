"""Commands that have a file of their own; each adds itself to the application."""

import typer

from memgrow.commands import chat, compare, data, evaluate, paper, predict, theorem


def register(app: typer.Typer) -> None:
    for command in (evaluate, predict, chat, compare, data, paper, theorem):
        command.register(app)
