"""The command line: thin commands over the library. A user's mistake is one sentence and exit code 2."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from memgrow import __version__
from memgrow.cli import (
    adapt,
    compare,
    data,
    encoder,
    evaluate,
    export,
    history,
    inspect,
    predict,
    report,
    serve,
    undo,
    verify,
    watch,
)
from memgrow.cli.errors import (
    BROKEN_PIPE,
    EXIT_CODES,
    end_output,
    hear_sigterm,
    say_stopped,
    stop_hearing,
)
from memgrow.cli.groups import Command, Commands, Group
from memgrow.cli.output import replace_unwritable_signs
from memgrow.cli.removed import ANY_ARGUMENTS, REMOVED_COMMANDS, removed
from memgrow.errors import interruption

COMMANDS: dict[str, Callable[..., None] | typer.Typer] = {  # in the order of --help
    "demo": compare.demo,
    "adapt": adapt.adapt,
    "inspect": inspect.inspect,
    "history": history.history,
    "undo": undo.undo,
    "verify": verify.verify,
    "export": export.export,
    "doctor": inspect.doctor,
    "methods": inspect.methods,
    "evaluate": evaluate.evaluate,
    "predict": predict.predict,
    "chat": predict.chat,
    "watch": watch.watch,
    "serve": serve.serve,
    "compare": compare.compare,
    "report": report.report,
    "data": data.commands,
    "encoder": encoder.commands,
}

NAME = "memgrow"

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},  # of all commands
    pretty_exceptions_enable=False,
)
for name, command in COMMANDS.items():
    if isinstance(command, typer.Typer):
        for part in command.registered_commands:
            part.cls = Command
        app.add_typer(command, name=name, cls=Group)
    else:
        app.command(name, cls=Command)(command)
for name, advice in REMOVED_COMMANDS.items():
    app.command(name, hidden=True, context_settings=ANY_ARGUMENTS)(removed(name, advice))


def _print_version(wanted: bool) -> None:
    if wanted:
        if sys.stdout is not None:
            sys.stdout.write(f"memgrow {__version__}\n")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def memgrow(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """One text model that learns domain after domain without the old data, and shows what was forgotten."""


def main() -> None:
    streams = sys.stdout, sys.stderr
    try:  # around all that runs once signals are heard
        hear_sigterm()
        replace_unwritable_signs()
        app(prog_name=NAME)
    except BaseException as end:  # an interruption may arrive as another error, inside an import say
        sys.stdout, sys.stderr = streams  # typer may have put others in their place, which hide that nobody reads
        stop_hearing()
        failed = end_output()
        if stopped := interruption(end):  # perhaps while options were read, or just before the end
            sys.exit(say_stopped(stopped, next(iter(sys.argv[1:]), None)))
        if isinstance(end.__context__, BrokenPipeError):  # so rich ends a help page that nobody reads
            sys.exit(BROKEN_PIPE)
        if failed is not None and isinstance(end, SystemExit) and not end.code:
            sys.exit(failed)
        raise
