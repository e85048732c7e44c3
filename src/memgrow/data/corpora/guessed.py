"""Training pairs whose domain somebody guessed: those of which the guess is sure enough."""

from collections.abc import Mapping
from pathlib import Path

from memgrow.data.columns import Columns
from memgrow.data.domain import Example
from memgrow.data.files import read_rows, where
from memgrow.data.records import read_table
from memgrow.errors import DataError

FIELD = "genre_conf"

Examples = Mapping[str, list[Example]]


def read_guessed(path: Path, columns: Columns, confidence: float) -> tuple[Examples, tuple[str, ...]]:
    """The examples by domain, in the order of the file, and how many were left out and why."""
    unsure = {where(path, row.line) for row in read_rows(path) if _sureness(row.values, path, row.line) < confidence}
    table = read_table(path, columns, skip_empty=True)
    taken: dict[str, list[Example]] = {}
    for record in table.records:
        if record.by is not None and record.example.where not in unsure:
            taken.setdefault(record.by, []).append(record.example)
    left_out = {**table.left_out, f"with a {FIELD} below {confidence}": len(unsure)}
    told = (f"{were(count, 'pair')} left out of {path.name}, {why}" for why, count in left_out.items() if count)
    return taken, tuple(told)


def were(count: int, what: str) -> str:
    """A count that agrees with its verb: 1 pair was, 12 pairs were."""
    return f"{count:,} {what} was" if count == 1 else f"{count:,} {what}s were"


def _sureness(values: Mapping[str, object], path: Path, line: int) -> float:
    value = values.get(FIELD)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(
            f"{where(path, line)} has no number for the field {FIELD!r}; "
            "give a file whose rows say how sure their genre is"
        )
    return value
