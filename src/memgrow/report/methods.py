"""The methods by name, as tables for the terminal."""

from memgrow.defaults import defaults_for
from memgrow.errors import SettingsError
from memgrow.methods import LETTERS, METHODS, Method, check_method
from memgrow.models import ModelSettings, PretrainedEncoder, PretrainedSettings
from memgrow.report.table import Column, Table


def methods_table() -> Table:
    columns = [
        Column("method", wrap="never"),
        Column("grows", wrap="letters"),
        Column("sees", wrap="never"),
        Column("encoder", wrap="never"),
        Column("what it does", wrap="letters"),
    ]
    rows = [
        (
            method.name,
            ", ".join(method.grows) or "nothing",
            "all data" if method.together else "new data",
            _with_encoder(method),
            method.about,
        )
        for method in METHODS.values()
    ]
    return Table(None, columns, rows)


def letters_table() -> Table:
    columns = [Column("letter"), Column("encoder"), Column("what it does", wrap="letters")]
    rows = [
        (name, "no" if one.grows and one.grows not in PretrainedEncoder.grows else "yes", one.about)
        for name, one in LETTERS.items()
    ]
    return Table("letters after a name, as in F+V+A", columns, rows)


def defaults_line() -> str:
    """The methods that are taken where nobody names one."""
    plain, replies, tuned = defaults_for(None), defaults_for(None, replies=True), defaults_for(PretrainedSettings())
    return (
        f"A new model takes {plain.method}, one that replies {replies.method}, and with a pretrained encoder "
        f"{tuned.method} (keep: {tuned.options.keep}). "
        "Column encoder: whether a method goes with a pretrained one."
    )


def _with_encoder(method: Method) -> str:
    """Whether a method goes with a pretrained encoder: yes, no, or only with one."""
    if not _goes_with(method, PretrainedSettings(slots=1)):
        return "no"
    return "yes" if _goes_with(method, ModelSettings()) else "only"


def _goes_with(method: Method, settings: ModelSettings) -> bool:
    try:
        check_method(method, settings)
    except SettingsError:
        return False
    return True
