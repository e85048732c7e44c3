"""Commands that have a file of their own; each adds itself to the application."""

import typer

from memgrow.commands import compare, data, paper, theorem


def register(app: typer.Typer) -> None:
    for command in (data, compare, paper, theorem):
        command.register(app)
