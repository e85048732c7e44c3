"""The command line: thin commands over the library. Here is the list of them; `app` is what runs them."""

from collections.abc import Callable
from typing import Any

import typer

from memgrow.cli import adapt, compare, evaluate, fetch, methods, model, predict, serve
from memgrow.cli.app import REMOVED_COMMANDS, Command, app, main, removed

__all__ = ["GROUPS", "app", "main"]

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
    "Compare": {"report": compare.report, "compare": compare.compare, "demo": compare.demo, "methods": methods.methods},
    "Set up": {"data": None, "encoder": None},
}  # None: a group of commands, see below
DOMAIN_HELP = "Export, import and remove domains of a domain memory.\n\nExample: memgrow domain remove model/ books"
FETCHED = {"data": ("public corpora", "sentiment"), "encoder": ("pretrained encoders", "minilm")}  # with an example


def _add_group(name: str, panel: str, about: str) -> typer.Typer:
    group = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=about)
    app.add_typer(group, name=name, rich_help_panel=panel)
    return group


for _group, _commands in GROUPS.items():
    for _name, _command in _commands.items():
        if _command is not None:
            app.command(_name, cls=Command, rich_help_panel=_group)(_command)
_domain = _add_group("domain", "Learn", DOMAIN_HELP)
for _word, _action in model.DOMAIN.items():
    _domain.command(_word, cls=Command)(_action)
for _name, (_what, _one) in FETCHED.items():
    _fetched = _add_group(_name, "Set up", f"Fetch {_what}.\n\nExample: memgrow {_name} get {_one}")
    for _word, _action in fetch.ACTIONS.items():
        _example = f"Example: memgrow {_name} {_word} {'' if _word == 'list' else _one}".rstrip()
        _fetched.command(_word, cls=Command, help=f"{_action.__doc__}\n\n{_example}")(_action)
_any_options: dict[str, Any] = {"ignore_unknown_options": True, "help_option_names": []}
for _name, _instead in REMOVED_COMMANDS.items():
    app.command(_name, hidden=True, context_settings=_any_options)(removed(_name, _instead))
