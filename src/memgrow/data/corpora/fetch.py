"""Fetch a corpus into the data folder: the archive first, checked, then its files, all of them or none."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from memgrow.data.corpora.catalogue import VARIABLE, Corpus, Web
from memgrow.data.corpora.download import Watch, no_progress
from memgrow.errors import DataError
from memgrow.places import expanded
from memgrow.storage import atomic_folder

NOTE = "corpus.json"  # what memgrow wrote into the folder of a corpus, and how long each file is
FETCHING = ".fetching"  # archives and parts of them, until they are unpacked


def get(corpus: Corpus, source: str | None = None, watch: Watch = no_progress) -> tuple[str, ...]:
    """Put the corpus into its folder, in place of an older copy; returns sentences for the user.

    The source is the corpus's own, or else a file, an http address, or the name of one of its other copies.
    """
    check_replaceable(corpus.folder)
    fetching = corpus.folder.parent / FETCHING
    try:
        fetching.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{fetching.parent} cannot hold data ({error.strerror}); set MEMGROW_DATA to a folder that can be written"
        ) from None
    try:
        if source is not None and (copy := corpus.copies.get(source)):
            return _fill(corpus, lambda folder: copy(folder, watch))
        archive = _archive(corpus, source, fetching, watch)
        sentences = _fill(corpus, lambda folder: corpus.unpack(archive, folder, watch))
    except OSError as error:
        raise DataError(
            f"{corpus.name} could not be written to {corpus.folder.parent} ({error.strerror or error}); "
            "make room there, or set MEMGROW_DATA to another folder, and run the same command again"
        ) from error
    if archive.parent == fetching:
        archive.unlink()
    return sentences


def _fill(corpus: Corpus, fill: Callable[[Path], tuple[str, ...]]) -> tuple[str, ...]:
    with install(corpus.folder, corpus.name) as folder:
        return fill(folder)


def _archive(corpus: Corpus, source: str | None, fetching: Path, watch: Watch) -> Path:
    """The path of a file whose checksum is that of the corpus's archive."""
    if source is None:
        return corpus.source.fetch(fetching, corpus.checksum, watch)
    if source.startswith(("http://", "https://")):
        return Web(source).fetch(fetching, corpus.checksum, watch)
    address = urlsplit(source)
    path = expanded(url2pathname(address.path) if address.scheme == "file" else source)
    if not path.is_file():
        raise DataError(
            f"{source} is no file and no http address; give the archive itself, as a file or an address"
            + (f", or one of {', '.join(corpus.copies)}" if corpus.copies else "")
        )
    corpus.checksum.check(path, str(path), watch)
    return path


@contextmanager
def install(folder: Path, name: str) -> Iterator[Path]:
    """An empty folder to be filled, which then takes the place of `folder`, with a note of what was written."""
    with atomic_folder(folder) as beside:
        yield beside
        files = {path.name: path.stat().st_size for path in sorted(beside.iterdir())}
        note = json.dumps({"corpus": name, "files": files}, indent=1) + "\n"
        (beside / NOTE).write_text(note, encoding="utf-8")


def check_replaceable(folder: Path, note: str = NOTE, variable: str = VARIABLE) -> None:
    """Refuse to replace a folder that memgrow did not write; the variable names the folder around it."""
    if folder.is_symlink() or (folder.exists() and not (folder / note).is_file()):
        raise DataError(
            f"{folder} is there and is not memgrow's own; move it away, or set {variable} to another folder"
        )


def check_intact(folder: Path) -> None:
    """Refuse files that are not as long as memgrow wrote them; a folder of the user's own is taken as it is."""
    if not (folder / NOTE).is_file():
        return
    try:
        note = json.loads((folder / NOTE).read_bytes())
        name, files = str(note["corpus"]), dict(note["files"])
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{folder / NOTE} is damaged; remove {folder} and fetch the corpus again") from None
    for file, size in files.items():
        path = folder / file
        if not path.is_file() or path.stat().st_size != size:
            raise DataError(f"{path} is not as it was written; run `memgrow data get {name} --again`")
