"""The corpus as each table wants it: read once, cut down as often as need be."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from memgrow.data import Stream
from memgrow.data.corpora.multinli import open_multinli
from memgrow.data.splits import fair_slice
from memgrow.experiments.paper.protocol import GENRES, Data


@dataclass
class Corpus:
    """MultiNLI in a folder, and a file of further pairs whose genre was guessed. `tell` hears how it was read."""

    folder: Path
    extra: Path | None = None
    tell: Callable[[str], None] = lambda sentence: None
    _whole: dict[bool, Stream] = field(default_factory=dict)
    _cut: dict[Data, Stream] = field(default_factory=dict)

    def stream(self, data: Data) -> Stream:
        """All five genres, each with at most as many pairs as asked for."""
        if data not in self._cut:
            self._cut[data] = Stream(
                replace(
                    domain,
                    train=fair_slice(domain.train, data.limit),
                    validation=fair_slice(domain.validation, data.held_out),
                    test=fair_slice(domain.test, data.held_out),
                )
                for domain in self._open(data.extra)
            )
        return self._cut[data]

    def _open(self, extra: bool) -> Stream:
        if extra not in self._whole:
            loaded = open_multinli(self.folder, GENRES, extra=self.extra if extra else None)
            for notice in loaded.notices:
                self.tell(notice)
            self._whole[extra] = loaded.stream
        return self._whole[extra]


def sizes(stream: Stream) -> dict[str, dict[str, int]]:
    """Pairs of each part of each genre."""
    parts = ("train", "validation", "test")
    return {domain.name: {part: len(getattr(domain, part)) for part in parts} for domain in stream}
