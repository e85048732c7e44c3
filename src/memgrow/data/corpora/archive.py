"""Single files out of a zip archive, each under a name of our own choice, so that none can land anywhere else."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from memgrow.data.corpora.checksum import CHUNK, Watch, unseen
from memgrow.errors import DataError


@contextmanager
def opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive; what cannot be read of it is an error that says so."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path} cannot be unpacked ({error}); fetch it again") from None


def find_member(archive: zipfile.ZipFile, path: str) -> zipfile.ZipInfo | None:
    """What lies at that path below the archive's top folder, whatever that is called."""
    wanted = PurePosixPath(path).parts
    there = (info for info in archive.infolist() if not info.filename.startswith("__MACOSX/"))
    return next((info for info in there if PurePosixPath(info.filename).parts[1:] == wanted), None)


def read(archive: zipfile.ZipFile, path: str) -> bytes:
    return archive.read(_member(archive, path))


def unpack(archive: zipfile.ZipFile, path: str, target: Path, watch: Watch = unseen) -> int:
    """Write one member as the file `target`; says how many lines it has."""
    info = _member(archive, path)
    done = lines = 0
    with archive.open(info) as source, target.open("wb") as file:
        while chunk := source.read(CHUNK):
            file.write(chunk)
            done += len(chunk)
            lines += chunk.count(b"\n")
            watch(f"unpacking {target.name}", done, info.file_size)
    return lines


def _member(archive: zipfile.ZipFile, path: str) -> zipfile.ZipInfo:
    found = find_member(archive, path)
    if found is None:
        raise DataError(f"{archive.filename} holds no file {path}; it is another archive: fetch the right one")
    return found
