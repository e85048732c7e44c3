"""The command line: thin commands over the library."""

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from memgrow import __version__
from memgrow.cli import adapt, compare, domain, evaluate, fetch, model, predict, report, serve
from memgrow.cli.app import EXIT_CODES, REMOVED_COMMANDS, Application, Command, run
from memgrow.errors import SettingsError

NAME = "memgrow"
EXTRAS = {"plots": "matplotlib", "serve": "fastapi", "sklearn": "sklearn", "stats": "scipy", "arrow": "pyarrow"}
GROUPS: dict[str, dict[str, Callable[..., None] | None]] = {
    "Learn": {"adapt": adapt.adapt, "undo": model.undo, "domain": None},
    "Use": {
        "predict": predict.predict,
        "chat": predict.chat,
        "evaluate": evaluate.evaluate,
        "inspect": model.inspect,
        "drift": evaluate.drift,
        "serve": serve.serve,
        "export": model.export,
    },
    "Compare": {"report": report.report, "compare": compare.compare, "demo": compare.demo, "methods": model.methods},
    "Set up": {"data": None, "encoder": None},
}  # None: a group of commands, see below
FETCHED = {"data": ("public corpora", "sentiment"), "encoder": ("pretrained encoders", "minilm")}  # with an example
FETCH: dict[str, Callable[..., None]] = {"get": fetch.get, "list": fetch.list_all, "where": fetch.where}

app = typer.Typer(
    cls=Application,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _help(sentence: str, *words: str) -> str:
    return f"{sentence}\n\nExample: memgrow {' '.join(words)}"


def _removed(name: str, instead: str) -> Callable[..., None]:
    def explain(words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
        raise SettingsError(f"memgrow {name} no longer exists: {instead}")

    return explain


for _group, _commands in GROUPS.items():
    for _name, _command in _commands.items():
        if _command is not None:
            app.command(_name, cls=Command, rich_help_panel=_group)(_command)
_about = _help("Export, import and remove domains of a domain memory.", "domain", "remove", "model/", "books")
_domain = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=_about)
for _word, _action in domain.ACTIONS.items():
    _domain.command(_word, cls=Command)(_action)
app.add_typer(_domain, name="domain", rich_help_panel="Learn")
for _name, (_what, _one) in FETCHED.items():
    _about = _help(f"Fetch {_what}.", _name, "get", _one)
    _fetched = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=_about)
    for _word, _action in FETCH.items():
        _about = _help(str(_action.__doc__), _name, _word, *([] if _word == "list" else [_one]))
        _fetched.command(_word, cls=Command, help=_about)(_action)
    app.add_typer(_fetched, name=_name, rich_help_panel="Set up")
for _name, _instead in REMOVED_COMMANDS.items():
    _settings: dict[str, Any] = {"ignore_unknown_options": True, "help_option_names": []}
    app.command(_name, hidden=True, context_settings=_settings)(_removed(_name, _instead))


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from memgrow.models.hub import DEFAULT_ENCODER, KNOWN

        ready = "ready" if KNOWN[DEFAULT_ENCODER].is_here() else f"encoder {DEFAULT_ENCODER} not fetched yet"
        python = ".".join(map(str, sys.version_info[:3]))
        print(f"{ready}: memgrow {__version__} (torch {version('torch')}, Python {python})")
        if lacking := [extra for extra, package in EXTRAS.items() if find_spec(package) is None]:
            print(f"not installed: {', '.join(f'memgrow[{extra}]' for extra in lacking)}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def memgrow(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Teach one text model domain after domain without the old data, and measure what it forgets."""


def main() -> None:
    run(app, NAME)
