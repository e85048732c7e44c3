"""Fetch a corpus into the data folder: the archive first, checked, then its files, all of them or none."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from memgrow.data.corpora.catalogue import Corpus, Web
from memgrow.data.corpora.checksum import Watch, unseen
from memgrow.data.corpora.shelf import refuse_strange, replacing
from memgrow.errors import DataError

FETCHING = ".fetching"  # archives and parts of them, until they are unpacked


def get(corpus: Corpus, source: str | None = None, watch: Watch = unseen) -> tuple[str, ...]:
    """Put the corpus into its folder, in place of an older copy, and say what there is to say of it.

    The source is the corpus's own, or else a file, an http address, or the name of one of its other copies.
    """
    refuse_strange(corpus.folder)
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
    with replacing(corpus.folder, corpus.name) as folder:
        return fill(folder)


def _archive(corpus: Corpus, source: str | None, fetching: Path, watch: Watch) -> Path:
    """The path of a file that is the corpus's archive, beyond doubt."""
    if source is None:
        return corpus.source.fetch(fetching, corpus.seal, watch)
    if source.startswith(("http://", "https://")):
        return Web(source).fetch(fetching, corpus.seal, watch)
    address = urlsplit(source)
    path = Path(url2pathname(address.path) if address.scheme == "file" else source).expanduser()
    if not path.is_file():
        raise DataError(
            f"{source} is no file and no http address; give the archive itself, as a file or an address"
            + (f", or one of {', '.join(corpus.copies)}" if corpus.copies else "")
        )
    corpus.seal.check(path, str(path), watch)
    return path
