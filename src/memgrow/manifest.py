"""What a folder says of its files: a manifest with their checksums, and the earlier versions that it keeps.

An earlier version lies in a folder within, which the manifest names by a number. It is part of the folder: copied and
moved with it, and exchanged with it in one step.
"""

import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from typing import Any

from memgrow.errors import ModelError
from memgrow.folders import MANIFEST as MANIFEST  # which belongs to what is here
from memgrow.folders import VERSION, contents
from memgrow.storage import parse_json
from memgrow.tensor_files import check_size

LARGEST = 1 << 20  # bytes of a manifest
SHA256 = re.compile("[0-9a-f]{64}")


class NoVersionError(ModelError):
    """A folder has no earlier version of that number."""


@dataclass(frozen=True)
class Manifest:
    """What a folder says of its files: the version of their format, their checksums, and where they lie in it."""

    format: int
    sha256: dict[str, str]
    folder: str = "."
    keep: int | None = None  # how many earlier versions are wanted; None: nobody has said so
    earlier: "Mapping[int, Manifest]" = field(default_factory=dict)  # versions that are there, by their numbers

    @classmethod
    def parse(cls, data: bytes) -> "Manifest":
        """Read it; of what does not make sense a ValueError."""
        try:
            value = parse_json(data)
            earlier = {_number(text): cls._of(one) for text, one in value.get("earlier", {}).items()}
            keep = None if value.get("keep") is None else _number(value["keep"])
            found = replace(cls._of(value), keep=keep, earlier=earlier)
            versions = (found, *earlier.values())
            sums = all(SHA256.fullmatch(one) for version in versions for one in version.sha256.values())
            within = [one.folder for one in versions if one is not found or one.folder != "."]
            inside = all(VERSION.fullmatch(folder) for folder in within) and len(set(within)) == len(within)
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError("it is not a manifest") from error
        if not sums or any(type(one.format) is not int or not 0 < one.format < 1 << 31 for one in versions):
            raise ValueError("it is not a manifest")
        if not inside or not all(_is_file_name(name) for one in versions for name in one.sha256):
            raise ValueError("it leads out of the folder")
        return found

    @classmethod
    def _of(cls, value: Any) -> "Manifest":
        return cls(value["format"], dict(value["sha256"]), value.get("folder", "."))

    def to_json(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "sha256": dict(self.sha256),
            **({"folder": self.folder} if self.folder != "." else {}),
            **({"keep": self.keep} if self.keep is not None else {}),
            **({"earlier": {str(n): one.to_json() for n, one in self.earlier.items()}} if self.earlier else {}),
        }

    @classmethod
    def of(cls, path: Path) -> "Manifest":
        """That of a folder; an empty one if there is none, or a damaged one."""
        try:
            with opened_folder(path) as opened:
                return read_manifest(opened, path, sys.maxsize)
        except ModelError:
            return cls(0, {})


def strangers(path: str | Path) -> list[str]:
    """Names in a folder that its manifest does not know: a user's own files."""
    path = Path(os.path.realpath(path))
    manifest = Manifest.of(path)
    return sorted(contents(path) - {MANIFEST, *manifest.sha256})


def stored_at(path: Path, name: str) -> Path:
    """Where a file of a folder lies, be it there or not."""
    return path / Manifest.of(path).folder / name


def _is_file_name(name: str) -> bool:
    """Whether a name can be that of a file in a folder."""
    try:
        written = name.encode()
    except UnicodeEncodeError:
        return False
    return Path(name).name == name and name not in ("", "..") and b"\0" not in written and len(written) <= 255


def _number(value: str | int) -> int:
    """A number that stands in a manifest."""
    if not str(value).isdecimal() or isinstance(value, bool):
        raise ValueError(f"{value!r} is no number")
    return int(value)


def read_manifest(
    opened: Callable[[str], BufferedReader], path: Path, newest: int, number: int | None = None
) -> Manifest:
    """That of a folder that is open, or of its earlier version of that number."""
    try:
        with opened(MANIFEST) as file:
            check_size(file, path / MANIFEST, LARGEST)
            manifest = Manifest.parse(file.read())
    except FileNotFoundError as error:
        raise ModelError(
            f"{path} has no {MANIFEST}: it is not a memgrow model, or was copied in part; copy it again"
        ) from error
    except OSError as error:
        raise ModelError(
            f"{path / MANIFEST} cannot be read ({error.strerror or error}): allow it, or copy the model again"
        ) from error
    except ModelError:
        raise
    except ValueError as error:
        raise ModelError(f"{path / MANIFEST} is damaged: copy the model again, or go back to a saved one") from error
    if number is not None:
        if number not in manifest.earlier:
            raise NoVersionError(f"{path} keeps no version {number}: `memgrow history` shows which there are")
        manifest = manifest.earlier[number]
    if manifest.format > newest:
        raise ModelError(
            f"{path} was written by a newer memgrow (format {manifest.format}; this one reads up to {newest}): "
            "update memgrow"
        )
    return manifest


@contextmanager
def opened_folder(path: Path) -> Iterator[Callable[[str], BufferedReader]]:
    """Opens the files of a folder that may lose its name meanwhile."""
    by_number = os.open in os.supports_dir_fd
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY) if by_number else None
    except OSError as error:
        raise ModelError(f"{path} cannot be read as a folder ({error.strerror}): a model is a folder") from error

    def opened(name: str) -> BufferedReader:
        if folder is None:
            return (path / name).open("rb")
        # Without waiting for a writer, if it is a pipe.
        file = os.fdopen(os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder), "rb")
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise OSError(errno.EINVAL, "It is not a plain file")
        return file

    try:
        yield opened
    finally:
        if folder is not None:
            os.close(folder)
