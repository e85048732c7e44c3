"""The corpora as each table wants them: read once, cut down as often as need be."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from memgrow.data import Stream, synthetic_dialogue
from memgrow.data.corpora import corpus_called, open_cornell, open_ubuntu
from memgrow.data.corpora.multinli import open_multinli
from memgrow.data.load import Loaded
from memgrow.data.splits import fair_slice
from memgrow.errors import SettingsError
from memgrow.experiments.paper.protocol import DIALOGUES, GENRES, Data

SOURCE, TARGET = DIALOGUES
HELD_OUT = {SOURCE: 10_000, TARGET: 3_000}  # the paper's validation pairs, and as many for test
TRAIN = 9_000  # the paper's training pairs of the target

Tell = Callable[[str], None]
"""Hears how a corpus was read."""


class Corpus(Protocol):
    """Anything that tables can be made on."""

    def stream(self, data: Data) -> Stream:
        """All domains, each with at most as many pairs as asked for."""


@dataclass
class MultiNLI:
    """MultiNLI in a folder, and a file of further pairs whose genre was guessed."""

    folder: Path
    extra: Path | None = None
    tell: Tell = lambda sentence: None
    _whole: dict[bool, Stream] = field(default_factory=dict)
    _cut: dict[Data, Stream] = field(default_factory=dict)

    @classmethod
    def found(cls, folder: Path | None, extra: Path | None, tell: Tell) -> "MultiNLI | None":
        """The corpus in a folder, or where it was fetched to; None if it was not."""
        fetched = corpus_called("multinli")
        there = folder is not None or fetched.is_in(fetched.folder)
        return cls(folder or fetched.folder, extra, tell) if there else None

    def stream(self, data: Data) -> Stream:
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


@dataclass
class Dialogues:
    """Both domains of dialogue, as published or prepared, in one folder or where they were fetched to."""

    folder: Path | None = None
    tell: Tell = lambda sentence: None
    _cut: dict[Data, Stream] = field(default_factory=dict)

    def stream(self, data: Data) -> Stream:
        if data not in self._cut:
            loaded = {SOURCE: self._source(data), TARGET: self._target(data)}
            for name, one in loaded.items():
                for notice in one.notices:
                    self.tell(f"{name}: {notice}")
            domains = [domain for one in loaded.values() for domain in one.stream]
            self._cut[data] = Stream(replace(domain, train=fair_slice(domain.train, data.limit)) for domain in domains)
        return self._cut[data]

    def _source(self, data: Data) -> Loaded:
        held_out = data.held_out or HELD_OUT[SOURCE]
        return open_cornell(self._in(SOURCE), held_out, held_out)

    def _target(self, data: Data) -> Loaded:
        held_out = data.held_out or HELD_OUT[TARGET]
        return open_ubuntu(self._in(TARGET), (min(data.limit or TRAIN, TRAIN), held_out, held_out))

    def _in(self, name: str) -> Path:
        corpus = corpus_called(name)
        folder = self.folder or corpus.folder
        if not corpus.is_in(folder):
            how = f"{folder} holds no {name}" if self.folder else f"there is no {name} to learn from"
            raise SettingsError(
                f"{how}: fetch it with `memgrow data get {name}`, or name the folder of both, "
                f"{' and '.join(DIALOGUES)}, with --data"
            )
        return folder


@dataclass
class MadeDialogues:
    """Dialogues made by rule, under the names of the two corpora, to see that all works."""

    _made: dict[Data, Stream] = field(default_factory=dict)

    def stream(self, data: Data) -> Stream:
        if data not in self._made:
            held_out = data.held_out or 100
            made = synthetic_dialogue(2, train=data.limit or 1000, validation=held_out, test=held_out)
            self._made[data] = Stream(replace(domain, name=name) for domain, name in zip(made, DIALOGUES, strict=True))
        return self._made[data]


def sizes(stream: Stream) -> dict[str, dict[str, int]]:
    """Pairs of each part of each domain."""
    parts = ("train", "validation", "test")
    return {domain.name: {part: len(getattr(domain, part)) for part in parts} for domain in stream}
