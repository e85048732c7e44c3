"""Commands that memgrow 1.0 no longer has: hidden, they say what to use instead and exit with 2."""

from collections.abc import Callable

import typer

from memgrow.errors import SettingsError

REMOVED_COMMANDS = {
    "paper": "run `python -m research.paper` in a checkout of the repository",
    "theorem": "run `python -m research.theorem` in a checkout of the repository",
    "recipes": "--recipe takes small, small-dialogue, demo or a YAML file of settings",
    "tune": "use scikit-learn's search with memgrow.sklearn.MemgrowClassifier",
}
ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def removed(name: str, advice: str) -> Callable[[typer.Context], None]:
    """The command in its place."""

    def command(context: typer.Context) -> None:
        raise SettingsError(f"memgrow {name} was removed in 1.0: {advice}")

    return command
