"""Archives of corpora: fetched from the web, checked by size and SHA-256, and unpacked file by file.

A download that broke off is resumed where it stopped (which `pooch` does not do), and an archive has its name only when
its checksum is right. Members are unpacked under names of our own choice, so that none can land anywhere else.
"""

import hashlib
import http.client
import re
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from memgrow.errors import DataError
from memgrow.version import __version__

CHUNK = 1 << 18
TIMEOUT_S = 30.0  # without a byte

Watch = Callable[[str, int, int | None], None]  # what is being done, how many bytes are done, of how many if known


def no_progress(doing: str, done: int, total: int | None) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """The size and the SHA-256 that tell one archive from every other."""

    size: int | None  # bytes; None where nobody has published it, and the SHA-256 must do
    sha256: str

    def check(self, path: Path, where: str, watch: Watch = no_progress) -> None:
        """Raise an error unless the file is the one meant; `where` says in the message where it came from."""
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            raise DataError(
                f"{where} is not the file that memgrow knows: it has {size:,} bytes and not {self.size:,}; "
                "fetch it again, or have another copy"
            )
        digest = hashlib.sha256()
        with path.open("rb") as file:
            done = 0
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                done += len(chunk)
                watch("checking", done, size)
        if digest.hexdigest() != self.sha256:
            raise DataError(
                f"{where} is not the file that memgrow knows: its SHA-256 is {digest.hexdigest()[:12]}... and not "
                f"{self.sha256[:12]}...; fetch it again, or have another copy"
            )


class _BrokenOffError(Exception):
    """The connection ended before the file did."""


def download(url: str, target: Path, checksum: Checksum, watch: Watch = no_progress) -> Path:
    """Fetch a file as `target`. What has come so far lies in `target`.part, from which the next call goes on."""
    part = target.with_name(target.name + ".part")
    if target.exists():  # it was fetched, but not used up: it has to prove itself again
        target.replace(part)
    size = _announced(url) if checksum.size is None else checksum.size
    while _size(part) < size:
        before = _size(part)
        try:
            _resume(url, part, size, watch)
        except _BrokenOffError as broken:
            if _size(part) <= before:  # as long as every try gets further than the one before, it is worth another
                raise DataError(
                    f"the download of {url} broke off after {_size(part) / 1e6:.1f} of {size / 1e6:.1f} MB "
                    f"({broken}); run the same command again, it goes on from there where the server lets it"
                ) from None
    try:
        checksum.check(part, url, watch)
    except DataError:
        part.unlink()
        raise
    return part.replace(target)


def _announced(url: str) -> int:
    """The length of the file, as the server says it."""
    with _ask(url, 0) as response:
        length = response.headers.get("Content-Length") or ""
    if not length.isdecimal():
        raise DataError(f"{url} does not say how long it is; fetch it by other means, and give it with --from FILE")
    return int(length)


def _resume(url: str, part: Path, size: int, watch: Watch) -> None:
    """Append to `part` what is still missing, or write all of it where the server sends whole files only."""
    done = _size(part)
    response = _ask(url, done)
    with response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            done = 0
        elif _first_byte(response) != done:
            part.unlink()
            raise _BrokenOffError("the server sent another piece than was asked for")
        announced = response.headers.get("Content-Length")
        if announced is not None and announced.isdecimal() and done + int(announced) != size:
            raise DataError(
                f"{url} is not the archive that memgrow knows: it has {done + int(announced):,} bytes and not "
                f"{size:,}; look at the address, or give a copy with --from FILE"
            )
        with part.open("ab" if done else "wb") as file:
            while done <= size and (chunk := _read(response)):
                file.write(chunk)
                done += len(chunk)
                watch(f"downloading {size / 1e6:,.1f} MB", done, size)
    if done < size:
        raise _BrokenOffError("the connection was closed")


def _ask(url: str, done: int) -> http.client.HTTPResponse:
    headers = {"User-Agent": f"memgrow/{__version__}"} | ({"Range": f"bytes={done}-"} if done else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        raise DataError(
            f"{url} cannot be had: the server answered {error.code} {error.reason}; "
            "try later, or give a copy with --from FILE"
        ) from None
    except (OSError, http.client.HTTPException, ValueError) as error:  # URLError is an OSError
        reason = getattr(error, "reason", None) or error
        raise DataError(
            f"{url} cannot be reached ({getattr(reason, 'strerror', None) or reason}); "
            "check the network, or give a copy with --from FILE"
        ) from None
    assert isinstance(response, http.client.HTTPResponse)
    return response


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOffError(error) from None


def _first_byte(response: http.client.HTTPResponse) -> int | None:
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def find_file(folder: Path, name: str, inner: str = "") -> Path | None:
    """The file plain or with .gz, in the folder or in the folder `inner` within it, as an archive may unpack to."""
    candidates = [place / called for place in (folder, folder / inner) for called in (name, f"{name}.gz")]
    return next((path for path in candidates if path.is_file()), None)


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive; what cannot be read of it is an error that says so."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path} cannot be unpacked ({error}); fetch it again") from None


def find_member(archive: zipfile.ZipFile, path: str) -> zipfile.ZipInfo | None:
    """The member at that path below the archive's top folder, whatever that folder is called."""
    wanted = PurePosixPath(path).parts
    there = (info for info in archive.infolist() if not info.filename.startswith("__MACOSX/"))
    return next((info for info in there if PurePosixPath(info.filename).parts[1:] == wanted), None)


def read_member(archive: zipfile.ZipFile, path: str) -> bytes:
    """The content of one member."""
    return archive.read(_member(archive, path))


def unpack_member(archive: zipfile.ZipFile, path: str, target: Path, watch: Watch = no_progress) -> int:
    """Write one member as the file `target`; returns how many lines it has."""
    info = _member(archive, path)
    with archive.open(info) as source:
        return copy_stream(source, target, info.file_size, watch)


def copy_stream(source: IO[bytes], target: Path, size: int, watch: Watch) -> int:
    """Write a stream as the file `target`; returns how many lines it has."""
    done = lines = 0
    with target.open("wb") as file:
        while chunk := source.read(CHUNK):
            file.write(chunk)
            done += len(chunk)
            lines += chunk.count(b"\n")
            watch(f"unpacking {target.name}", done, size)
    return lines


def _member(archive: zipfile.ZipFile, path: str) -> zipfile.ZipInfo:
    found = find_member(archive, path)
    if found is None:
        raise DataError(f"{archive.filename} holds no file {path}; it is another archive: fetch the right one")
    return found
