"""A file from the web: goes on where it broke off, and has its name only when its checksum is right."""

import http.client
import re
import urllib.error
import urllib.request
from pathlib import Path

from memgrow import __version__
from memgrow.data.corpora.checksum import CHUNK, Seal, Watch, unseen
from memgrow.errors import DataError

PATIENCE = 30.0  # seconds without a byte


class _BrokenOffError(Exception):
    """The connection ended before the file did."""


def download(url: str, target: Path, seal: Seal, watch: Watch = unseen) -> Path:
    """The file as `target`. What has come so far lies in `target`.part, from which the next call goes on."""
    part = target.with_name(target.name + ".part")
    if target.exists():  # it was fetched, but not used up: it has to prove itself again
        target.replace(part)
    size = _announced(url) if seal.size is None else seal.size
    while _size(part) < size:
        before = _size(part)
        try:
            _go_on(url, part, size, watch)
        except _BrokenOffError as broken:
            if _size(part) <= before:  # as long as every try gets further than the one before, it is worth another
                raise DataError(
                    f"the download of {url} broke off after {_size(part) / 1e6:.1f} of {size / 1e6:.1f} MB "
                    f"({broken}); run the same command again, it goes on from there where the server lets it"
                ) from None
    try:
        seal.check(part, url, watch)
    except DataError:
        part.unlink()
        raise
    return part.replace(target)


def _announced(url: str) -> int:
    """How long the server says that the file is."""
    with _ask(url, 0) as response:
        length = response.headers.get("Content-Length") or ""
    if not length.isdecimal():
        raise DataError(f"{url} does not say how long it is; fetch it by other means, and give it with --from FILE")
    return int(length)


def _go_on(url: str, part: Path, size: int, watch: Watch) -> None:
    done = _size(part)
    response = _ask(url, done)
    with response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            done = 0  # the server sends whole files only
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
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=PATIENCE)
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
