"""The table of corpora: what each is, where it comes from, how it is unpacked and how it becomes a stream.

To add a corpus, write a module that unpacks and opens it, and add a row here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from memgrow.data.corpora import cornell, multinli, sentiment, ubuntu
from memgrow.data.corpora.download import Checksum, Watch, download, find_file
from memgrow.data.corpora.multinli import multinli_from_hub
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
        Corpus(
            name="multinli",
            what="premise and hypothesis, five genres: the paper's corpus",
            licence="OANC, CC BY and others",
            source=Web("https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip"),
            # The size and the SHA-256 under which public catalogues of data sets list this archive.
            checksum=Checksum(226_850_426, "049f507b9e36b1fcb756cfd5aeb3b7a0cfcb84bf023793652987f7e7e0957822"),
            files=multinli.FILES,
            unpack=multinli.unpack_multinli,
            open=multinli.open_multinli,
            inner=multinli.INNER,
            copies={"hub": multinli_from_hub},
        ),
        Corpus(
            name="cornell",
            what="lines of films and the replies to them: the paper's source",
            licence="not stated",
            source=Web("http://www.cs.cornell.edu/~cristian/data/cornell_movie_dialogs_corpus.zip"),
            # As public catalogues of data sets list it.
            checksum=Checksum(9_916_637, "3bde8a571f615201bc2d2453e22878090719638592f774720eddec739de8c900"),
            files=cornell.FILES,
            unpack=cornell.unpack_cornell,
            open=cornell.open_cornell,
            inner=cornell.INNER,
            holds=cornell.holds_cornell,
            replies=True,
        ),
        Corpus(
            name="ubuntu",
            what="questions in a help channel and the replies: the paper's target",
            licence="not stated",
            source=Web("http://parl.ai/downloads/ubuntu/ubuntu.tar.gz"),
            # The SHA-256 that the library ParlAI checks this archive by; its size is not published.
            checksum=Checksum(None, "87caf297381287247cbff3aa7cc2f4609f3b12c40e8535688168d7413740e0d0"),
            files=ubuntu.FILES,
            unpack=ubuntu.unpack_ubuntu,
            open=ubuntu.open_ubuntu,
            holds=ubuntu.holds_ubuntu,
            replies=True,
        ),
    )
}


def corpus_called(name: str) -> Corpus:
    """The corpus of that name."""
    if name not in CORPORA:
        raise DataError(f"there is no corpus {name!r}; there is {', '.join(CORPORA)}: choose among these")
    return CORPORA[name]
