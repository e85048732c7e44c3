"""Fetch the paper's corpora: `python -m research.data get multinli`."""

import argparse
import hashlib
import os
import shutil
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from memgrow.errors import DataError, MemgrowError
from memgrow.models.fetch import get as get_encoder
from research.common.corpora import CORNELL, MULTINLI, UBUNTU, holds
from research.common.files import say
from research.encoders.grammar import NAME as GRAMMAR


@dataclass(frozen=True)
class Source:
    """An archive on the web, its SHA-256, and the files in it that make the corpus."""

    url: str
    sha256: str
    files: tuple[str, ...]
    about: str


SOURCES = {
    "multinli": Source(
        "https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip",
        "049f507b9e36b1fcb756cfd5aeb3b7a0cfcb84bf023793652987f7e7e0957822",
        (*MULTINLI, "README.txt"),
        "premise and hypothesis, five genres; licence: OANC, CC BY and others",
    ),
    "cornell": Source(
        "http://www.cs.cornell.edu/~cristian/data/cornell_movie_dialogs_corpus.zip",
        "3bde8a571f615201bc2d2453e22878090719638592f774720eddec739de8c900",
        (*CORNELL, "README.txt"),
        "lines of films and the replies to them; licence: not stated",
    ),
    "ubuntu": Source(
        "http://parl.ai/downloads/ubuntu/ubuntu.tar.gz",
        "87caf297381287247cbff3aa7cc2f4609f3b12c40e8535688168d7413740e0d0",
        UBUNTU,
        "questions in a help channel and the replies; licence: not stated",
    ),
}


def folder_of(name: str) -> Path:
    """Where a corpus is kept once it has been fetched: in MEMGROW_DATA, or in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("MEMGROW_DATA") or cache / "memgrow/data") / name


def get(name: str, origin: str | None = None) -> Path:
    """Fetch a corpus, or unpack a copy of its archive (`origin`: a file or an address), and check it."""
    source, folder = SOURCES[name], folder_of(name)
    if holds(folder, name):
        return folder
    with tempfile.TemporaryDirectory() as place:
        archive = Path(place) / "archive" if origin is None or "://" in origin else Path(origin)
        try:
            if not archive.is_file():
                with urllib.request.urlopen(origin or source.url, timeout=60) as web, archive.open("wb") as file:
                    shutil.copyfileobj(web, file)
            with archive.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, ValueError) as error:
            raise DataError(f"cannot fetch {origin or source.url}: {error}; give a copy with --from FILE") from error
        if found != source.sha256:
            raise DataError(f"{origin or source.url} has the SHA-256 {found[:12]}..., not {source.sha256[:12]}...")
        unpacked = Path(place) / name
        unpacked.mkdir()
        _unpack(archive, source.files, unpacked)
        if not holds(unpacked, name):
            raise DataError(f"the archive of {name} lacks some of {', '.join(source.files)}")
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(unpacked, folder, dirs_exist_ok=True)
    return folder


def _unpack(archive: Path, names: Sequence[str], folder: Path) -> None:
    """Write the regular files of these names, wherever they are in the archive."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for member in packed.infolist():
                path = PurePosixPath(member.filename)
                if path.name in names and path.parts[0] != "__MACOSX":
                    (folder / path.name).write_bytes(packed.read(member))
        return
    with tarfile.open(archive) as packed_tar:
        for info in packed_tar:
            name = PurePosixPath(info.name).name
            source = packed_tar.extractfile(info) if name in names and info.isreg() else None
            if source is not None:
                with (folder / name).open("wb") as file:
                    shutil.copyfileobj(source, file)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m research.data", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the corpora, and where they are")
    one = commands.add_parser("get", help="fetch a corpus")
    one.add_argument("name", choices=(*SOURCES, GRAMMAR))
    one.add_argument("--from", dest="origin", metavar="FILE", help="a copy of the archive: a file or an address")
    given = parser.parse_args(arguments)
    try:
        if given.command == "get" and given.name == GRAMMAR:
            say(f"{GRAMMAR} is taken from {get_encoder(GRAMMAR, given.origin)}")
        elif given.command == "get":
            say(f"{given.name} is in {get(given.name, given.origin)}")
        for name, source in SOURCES.items() if given.command == "list" else ():
            folder = folder_of(name)
            say(f"{name}: {source.about}; {folder if holds(folder, name) else 'not fetched yet'}")
    except MemgrowError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
