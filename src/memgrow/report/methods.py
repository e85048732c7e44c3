"""The methods by name, as tables for the terminal; they are read from a file, as their own table needs torch."""

import json
from pathlib import Path
from typing import Any

from memgrow.report.table import Column, Table

FILE = Path(__file__).with_name("methods.json")  # by `python -m memgrow.report.method_rows`


def read_methods() -> dict[str, Any]:
    """The methods and the letters, as `memgrow methods --json` prints them."""
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content


def methods_table(content: dict[str, Any]) -> Table:
    """The defaults stand first, and are marked."""
    columns = [
        Column("method", wrap="never"),
        Column("grows", wrap="letters"),
        Column("sees", wrap="never"),
        Column("encoder", wrap="never"),
        Column("what it does", wrap="letters"),
    ]
    rows = [
        (
            one["name"],
            ", ".join(one["grows"]) or "nothing",
            one["sees"],
            one["encoder"],
            f"{one['default']}: {one['about']}" if one["default"] else one["about"],
        )
        for one in content["methods"]
    ]
    return Table(None, columns, rows, lines_above=[sum(one["default"] is not None for one in content["methods"])])


def letters_table(content: dict[str, Any]) -> Table:
    columns = [Column("letter"), Column("encoder"), Column("what it does", wrap="letters")]
    rows = [(one["name"], one["encoder"], one["about"]) for one in content["letters"]]
    return Table("letters after a name, as in F+V+A", columns, rows)


def defaults_line(content: dict[str, Any]) -> str:
    """The methods that are taken where nobody names one."""
    kept = [one["name"] for one in content["methods"] if one["keeps_rows"]]
    plain, replies, tuned = (one["name"] for one in content["methods"] if one["default"])
    settings = ", ".join(f"{name}: {value}" for name, value in content["encoder_settings"].items())
    return (
        f"A new model takes {plain}, for replies {replies}; with a pretrained encoder {tuned}"
        f"{f' ({settings})' if settings else ''}. "
        f"{' and '.join(kept)} keeps rows of earlier domains, as text, in the model's folder: it is taken only by its "
        "name. Column encoder: whether a method goes with a pretrained one."
    )
