"""What a file's name says of the domain and the part that it holds."""

from pathlib import Path

from memgrow.data.files import name_without_suffix
from memgrow.data.splits import PART_NAMES

JOINTS = "_-."


def domain_and_part(path: Path) -> tuple[str, str | None]:
    """The domain and the part: books_train.jsonl.gz is the train part of books, books.csv is books as a whole.

    A file that is called by its part alone, as in books/test.csv, is named after its folder.
    """
    name = name_without_suffix(path)
    for called, part in PART_NAMES.items():
        if name.lower() == called:
            return path.resolve().parent.name or name, part
        for joint in JOINTS:
            ending = joint + called
            if name.lower().endswith(ending) and name.lower() != ending:
                return name[: -len(ending)], part
    return name, None
