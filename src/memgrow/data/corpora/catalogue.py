"""The table of corpora: what each is, where it comes from, how it is unpacked and how it becomes a stream.

To add a corpus, write a module that unpacks and opens it, and add a row here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from memgrow.data.corpora import sentiment
from memgrow.data.corpora.download import Checksum, Watch, download, find_file
from memgrow.data.corpora.pip_source import fetch_source
from memgrow.data.load import Loaded
from memgrow.errors import DataError
from memgrow.places import cache_folder

VARIABLE = "MEMGROW_DATA"


def data_folder() -> Path:
    """The folder of all corpora: MEMGROW_DATA, or else memgrow/data among the user's caches. It may not exist yet."""
    return cache_folder("data", VARIABLE)


class Source(Protocol):
    """The place that an archive comes from."""

    def fetch(self, folder: Path, checksum: Checksum, watch: Watch) -> Path: ...


@dataclass(frozen=True)
class Web:
    """An address."""

    url: str

    def fetch(self, folder: Path, checksum: Checksum, watch: Watch) -> Path:
        return download(self.url, folder / f"{checksum.sha256[:16]}.archive", checksum, watch)


@dataclass(frozen=True)
class Package:
    """The source archive of a package, from the index that pip is set to."""

    name: str
    version: str

    def fetch(self, folder: Path, checksum: Checksum, watch: Watch) -> Path:
        return fetch_source(self.name, self.version, folder, checksum, watch)


@dataclass(frozen=True)
class Corpus:
    """A corpus: a row of the table."""

    name: str
    what: str
    licence: str
    source: Source
    checksum: Checksum  # of the archive
    files: tuple[str, ...]  # without these, plain or with .gz, it is not the corpus
    unpack: Callable[[Path, Path, Watch], tuple[str, ...]]  # from an archive to a folder, with sentences for the user
    open: Callable[[Path], Loaded]
    inner: str = ""  # the folder to which the archive itself unpacks
    # Other sources by name, each a function that fills a folder.
    copies: Mapping[str, Callable[[Path, Watch], tuple[str, ...]]] = field(default_factory=dict)
    holds: Callable[[Path], bool] | None = None  # whether a folder has it, where that takes more than names of files
    replies: bool = False  # messages and replies: with other such corpora it makes one stream

    @property
    def folder(self) -> Path:
        """The folder it is kept in once it has been fetched."""
        return data_folder() / self.name

    def is_in(self, folder: Path) -> bool:
        """Whether a folder holds the corpus."""
        if self.holds is not None:
            return self.holds(folder)
        return all(find_file(folder, name, self.inner) for name in self.files)


CORPORA = {
    corpus.name: corpus
    for corpus in (
        Corpus(
            name="sentiment",
            what="rated sentences: films, products, editorials, tweets",
            licence="MIT",
            source=Package("vaderSentiment", "0.5"),
            checksum=Checksum(2_448_964, "5d97c37f3ef6e24eef331122e055dbedafeb6a56abfce0608b326701116ea49a"),
            files=sentiment.FILES,
            unpack=sentiment.unpack_sentiment,
            open=sentiment.open_sentiment,
        ),
    )
}


def corpus_called(name: str) -> Corpus:
    """The corpus of that name."""
    if name not in CORPORA:
        raise DataError(f"there is no corpus {name!r}; there is {', '.join(CORPORA)}: choose among these")
    return CORPORA[name]
