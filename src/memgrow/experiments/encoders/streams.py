"""The streams of the study, each in fixed orders, as folders of files that a run reads on any machine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memgrow.data import Stream
from memgrow.data.corpora import open_corpus
from memgrow.data.corpora.multinli import FIVE, open_multinli
from memgrow.data.files import write_jsonl
from memgrow.data.load import Loaded, load_stream
from memgrow.data.splits import rank
from memgrow.errors import DataError, SettingsError

PAIRS = 4_000  # training pairs of each genre of MultiNLI, at most

REVIEWS = (
    *("apparel", "baby", "books", "dvd", "electronics", "health_personal_care", "imdb", "kitchen_housewares"),
    *("MR", "music", "software", "sports_outdoors", "toys_games", "video"),
)


@dataclass(frozen=True)
class StudyStream:
    """A stream of the study: its domains in the first order, and how it is had from its source."""

    name: str
    about: str
    domains: tuple[str, ...]
    open: Callable[[Path | None], Loaded]  # from the folder of its source; None: what was fetched

    def orders(self) -> dict[str, tuple[str, ...]]:
        """The domains as they are listed, from last to first, and as chance that is the same everywhere has them."""
        drawn = tuple(sorted(self.domains, key=lambda name: rank(1, name)))
        return {"1": self.domains, "2": self.domains[::-1], "3": drawn}


def _sentiment(folder: Path | None) -> Loaded:
    return open_corpus(folder or "sentiment")


def _reviews(folder: Path | None) -> Loaded:
    if folder is None:
        raise SettingsError("the reviews are not fetched by memgrow: name the folder of their files")
    parts = [
        [_file(folder, name, part) for name in REVIEWS] for part in ("train", "test")
    ]  # NAME_train and NAME_test, for validation a tenth of what is there for training
    return load_stream(parts[0], test=parts[1], skip_empty=True)


def _file(folder: Path, name: str, part: str) -> Path:
    places = [folder / f"{name}_{part}.jsonl{end}" for end in ("", ".gz")]
    return next((place for place in places if place.is_file()), places[0])


def _multinli(folder: Path | None) -> Loaded:
    if folder is None:
        return open_corpus("multinli", domains=FIVE, limit=PAIRS)
    return open_multinli(folder, FIVE, PAIRS)


STREAMS = {
    stream.name: stream
    for stream in (
        StudyStream(
            "sentiment",
            "rated sentences of four kinds",
            ("films", "products", "editorials", "tweets"),
            _sentiment,
        ),
        StudyStream("reviews", "reviews of fourteen kinds of things", REVIEWS, _reviews),
        StudyStream("multinli", f"MultiNLI's five genres, at most {PAIRS:,} training pairs of each", FIVE, _multinli),
    )
}


def stream_called(name: str, known: Mapping[str, StudyStream] = STREAMS) -> StudyStream:
    if name not in known:
        raise SettingsError(f"there is no stream {name!r}; there are {', '.join(known)}")
    return known[name]


def prepare(stream: StudyStream, source: Path | None, folder: Path) -> tuple[str, ...]:
    """Write the stream as a file for each domain, with all parts drawn; returns what there is to say about it."""
    loaded = stream.open(source)
    write_jsonl(Stream(loaded.stream[name] for name in stream.domains), folder)
    return loaded.notices


def read(domains: Sequence[str], folder: Path) -> Stream:
    """The domains as `prepare` wrote them, whether or not they were compressed since."""
    files = [_prepared(folder, name) for name in domains]
    return load_stream(files, domains=domains).stream


def _prepared(folder: Path, name: str) -> Path:
    for place in (folder / f"{name}.jsonl", folder / f"{name}.jsonl.gz"):
        if place.is_file():
            return place
    raise DataError(f"{folder} has no {name}.jsonl: write the stream's files there first, with `data`")
