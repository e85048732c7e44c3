"""Data files: what a file's name says of its domain, part and format; its rows; and domains written as files."""

import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from memgrow.data.arrow_files import COLUMNAR
from memgrow.data.domain import Domain, Stream
from memgrow.data.example import Example, half_of_a_character
from memgrow.data.formats import READERS, Reader, Row
from memgrow.data.lines import AS_IT_IS, FileFormat, is_compressed, unreadable
from memgrow.data.splits import PART_NAMES, PARTS
from memgrow.errors import DataError, SettingsError
from memgrow.storage import atomic_open

JOINTS = "_-."  # between the name of a domain and that of a part


def read_rows(path: Path, file_format: FileFormat = AS_IT_IS) -> Iterator[Row]:
    """The rows of a file, read as its suffix says; at least one, or it is an error."""
    reader = check_file(path)
    formats_of([path], file_format)  # what it has no use for is not passed over without a word
    empty = True
    for row in reader(path, file_format):
        empty = False
        yield row
    if empty:
        raise DataError(f"{path} is empty: it has no rows; give a file with at least one")


def formats_of(paths: Sequence[Path], given: FileFormat) -> list[FileFormat]:
    """How each of several files is written: what is given is for those that have a use for it, and one must have."""
    takes = {
        "delimiter": [_takes_delimiter(path, given.delimiter) for path in paths],
        "encoding": [not path.name.lower().endswith(COLUMNAR) for path in paths],
    }
    if given.delimiter is not None and not any(takes["delimiter"]):
        raise SettingsError(
            f"a delimiter ({given.delimiter!r}) is given for {paths[0].name}, but only fields of .csv files are "
            "separated by what one likes; leave it out, or rename the file if it is a CSV"
        )
    if given.encoding is not None and not any(takes["encoding"]):
        raise SettingsError(
            f"an encoding ({given.encoding}) is given for {paths[0].name}, whose format has its own; leave it out"
        )
    return [
        FileFormat(**{name: getattr(given, name) if use else None for name, use in zip(takes, uses, strict=True)})
        for uses in zip(*takes.values(), strict=True)
    ]


def _takes_delimiter(path: Path, delimiter: str | None) -> bool:
    name = path.name.lower().removesuffix(".gz")
    return name.endswith(".csv") or (name.endswith(".tsv") and delimiter == "\t")


def name_without_suffix(path: Path) -> str:
    """The file's name without its format: reviews.jsonl.gz is called reviews."""
    return _name_and_reader(path)[0]


def domain_and_part(path: Path) -> tuple[str, str | None]:
    """The domain and the part: books_train.jsonl.gz is the train part of books, books.csv is books as a whole.

    A file that is called by its part alone, as in books/test.csv, is named after its folder.
    """
    name = name_without_suffix(path)
    for called, part in PART_NAMES.items():
        if name.lower() == called:
            return Path(os.path.realpath(path)).parent.name or name, part
        for joint in JOINTS:
            ending = joint + called
            if name.lower().endswith(ending) and name.lower() != ending:
                return name[: -len(ending)], part
    return name, None


def check_file(path: Path) -> Reader:
    """The reader for a file; refuses what is not there, is no file, or is of no known format."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path} does not exist; check the name and the folder") from None
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise unreadable(path, error) from None
    if stat.S_ISDIR(mode):
        raise DataError(f"{path} is a folder; name the files in it one by one")
    if not stat.S_ISREG(mode):  # a pipe may wait for ever, and a device may never end
        raise DataError(f"{path} is no regular file but a pipe or a device; save what comes from it as a file first")
    return _name_and_reader(path)[1]


def is_data_file(path: Path) -> bool:
    """Whether a name ends as those of data files do, be the file there or not."""
    return path.name.lower().removesuffix(".gz").endswith(tuple(READERS))


def _name_and_reader(path: Path) -> tuple[str, Reader]:
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    for suffix, reader in READERS.items():
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            if suffix in COLUMNAR and is_compressed(path):
                raise DataError(f"{path} is compressed twice; unpack it, and give the file without .gz")
            return name[: -len(suffix)], reader
    lines = ", ".join(suffix for suffix in READERS if suffix not in COLUMNAR)
    raise DataError(
        f"{path} is not of a known format; give a file whose name ends in {lines}, alone or with .gz, or in "
        f"{', '.join(COLUMNAR)}"
    )


def write_jsonl(stream: Stream, folder: str | Path) -> list[Path]:
    """Write each domain to DOMAIN.jsonl in the folder, with a split column; load_stream reads them back."""
    folder = Path(folder)
    paths = [_file_of(domain.name, folder) for domain in stream]
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for domain, path in zip(stream, paths, strict=True):
        with _writing(path):
            _write(domain, path)
    return paths


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be written ({reason}); choose another place or name") from error


def _file_of(name: str, folder: Path) -> Path:
    path = folder / f"{name}.jsonl"
    if path.name != f"{name}.jsonl":
        raise DataError(f"the domain {name!r} cannot name a file in {folder}; rename it without slashes")
    if (read := domain_and_part(path)[0]) != name:
        raise DataError(
            f"the file of the domain {name!r} would be read as another domain, {read!r}: rename it, so that it does "
            f"not end as the names of parts do ({', '.join(PART_NAMES)})"
        )
    return path


def _write(domain: Domain, path: Path) -> None:
    with atomic_open(path) as file:
        for part in PARTS:
            for example in getattr(domain, part):
                row = json.dumps(_fields(example) | {"split": part}, ensure_ascii=False)
                if (half := half_of_a_character(row)) is not None:
                    place = example.where or f"an example of {domain.name}"
                    raise DataError(f"{place} holds half a character ({half}) that stands for nothing alone; remove it")
                file.write(f"{row}\n".encode())


def _fields(example: Example) -> dict[str, str]:
    if example.reply is not None:
        return {"message": example.text, "response": example.reply}
    texts = {"text": example.text} if example.pair is None else {"premise": example.text, "hypothesis": example.pair}
    return texts if example.label is None else texts | {"label": example.label}
