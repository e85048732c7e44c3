"""Commands and groups of them as typer builds them, with what all of ours have."""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from memgrow.cli.errors import (
    BROKEN_PIPE,
    FORGOT,
    USER_ERROR,
    complain,
    give_up_output,
    say_stopped,
    sentence_for,
)
from memgrow.cli.output import console, notes
from memgrow.errors import ForgettingError, MemgrowError, interruption


def _hush(quiet: bool) -> None:
    console.quiet = notes.quiet = quiet


def _of_every_command(
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            help="Print nothing but errors, and JSON where it is asked for.",
            callback=_hush,
            expose_value=False,
        ),
    ] = False,
) -> None:
    """The options of every command."""


def _common_options() -> list[Any]:
    one = typer.Typer(add_completion=False)
    one.command()(_of_every_command)
    return get_command(one).params


class PlainFlags:
    """Shows no type beside a flag, which takes no value."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params


class Command(PlainFlags, TyperCommand):
    """A command; it can be told to be quiet."""

    def __init__(self, *arguments: Any, params: Any = None, **named: Any) -> None:
        super().__init__(*arguments, params=[*(params or ()), *_common_options()], **named)

    def invoke(self, ctx: Any) -> Any:
        if ctx.params.get("as_json"):
            console.quiet = True  # the JSON at the end stands alone
        return super().invoke(ctx)


class Group(PlainFlags, TyperGroup):
    """Commands of one name."""


class Commands(Group):
    """Turns errors into sentences, whichever command they happen in."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of our output has gone, as `head` does: nothing to say, and nobody to hear
            give_up_output()
            ctx.exit(BROKEN_PIPE)
        except KeyboardInterrupt as stopped:
            ctx.exit(say_stopped(stopped, ctx.invoked_subcommand))
        except (ImportError, SystemError) as error:  # what an interrupted import may make of Ctrl-C
            if (pressed := interruption(error)) is None:
                raise
            ctx.exit(say_stopped(pressed, ctx.invoked_subcommand))
        except (MemgrowError, OSError, MemoryError, RuntimeError) as error:
            sentence = sentence_for(error)
            if sentence is None:
                raise
            complain(sentence)
            give_up_output()
            ctx.exit(FORGOT if isinstance(error, ForgettingError) else USER_ERROR)
