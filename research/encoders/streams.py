"""The streams of the studies, each in fixed orders, as folders of files that a run reads on any machine."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memgrow import Domain, Example, Stream
from memgrow.data import load_stream
from memgrow.errors import DataError, SettingsError
from research.common.corpora import FIVE, PARTS, Loaded, open_multinli, rank
from research.common.files import atomic_write
from research.data import folder_of

PAIRS = 4_000  # training pairs of each genre of MultiNLI, at most

REVIEWS = (
    *("apparel", "baby", "books", "dvd", "electronics", "health_personal_care", "imdb", "kitchen_housewares"),
    *("MR", "music", "software", "sports_outdoors", "toys_games", "video"),
)


@dataclass(frozen=True)
class StudyStream:
    """A stream: its domains in the first order, and how it is read from its source."""

    name: str
    about: str
    domains: tuple[str, ...]
    open: Callable[[Path | None], Loaded]  # from the folder of its source; None: what was fetched

    def orders(self) -> dict[str, tuple[str, ...]]:
        """The domains as they are listed, from last to first, and shuffled, the same on every machine."""
        drawn = tuple(sorted(self.domains, key=lambda name: rank(1, name)))
        return {"1": self.domains, "2": self.domains[::-1], "3": drawn}


def _sentiment(folder: Path | None) -> Loaded:
    from memgrow.data.corpora import open_corpus

    return Loaded(open_corpus(folder or "sentiment").stream)


def _reviews(folder: Path | None) -> Loaded:
    if folder is None:
        raise SettingsError("the reviews are not fetched by memgrow: name the folder of their files")
    train, test = ([_file(folder, f"{name}_{part}") for name in REVIEWS] for part in ("train", "test"))
    return Loaded(load_stream(train, test=test, skip_empty=True).stream)


def _multinli(folder: Path | None) -> Loaded:
    return open_multinli(folder or folder_of("multinli"), FIVE, PAIRS)


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
    """Write a file for each domain, with all parts drawn; returns what there is to say about the stream."""
    loaded = stream.open(source)
    for name in stream.domains:
        rows = [
            {"text": one.text, "pair": one.pair, "label": one.label, "reply": one.reply, "split": part}
            for part in PARTS
            for one in getattr(loaded.stream[name], part)
        ]
        atomic_write(folder / f"{name}.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return loaded.notices


def read(domains: Sequence[str], folder: Path) -> Stream:
    """The domains as `prepare` wrote them."""
    found = []
    for name in domains:
        parts: dict[str, list[Example]] = {part: [] for part in PARTS}
        for line in _file(folder, name).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            parts[row.pop("split")].append(Example(**row))
        found.append(Domain(name, **{part: tuple(some) for part, some in parts.items()}))
    return Stream(found)


def _file(folder: Path, name: str) -> Path:
    places = [folder / f"{name}.jsonl{end}" for end in ("", ".gz")]
    if (found := next((place for place in places if place.is_file()), None)) is None:
        raise DataError(f"{folder} has no {name}.jsonl: give another folder, or write the stream's files with `data`")
    return found
