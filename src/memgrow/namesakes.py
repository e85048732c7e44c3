"""Files of one name in different folders, which would become one domain without a word."""

from collections.abc import Sequence
from pathlib import Path

from memgrow.data.filenames import domain_and_part
from memgrow.errors import DataError


def refuse_namesakes(paths: Sequence[Path], by: str | None) -> None:
    """A domain is called after its file, unless a column names it: then files may well be called the same."""
    first: dict[tuple[str, str | None], Path] = {}
    for path in paths:
        called = domain_and_part(path)
        if by is None and called in first:
            raise DataError(
                f"{first[called]} and {path} would both be the domain {called[0]}: rename one of them, "
                "or join them in one file if they are one domain"
            )
        first[called] = path
