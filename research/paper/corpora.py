"""The corpora as each table wants them, and what is remembered of them so that records can be read without them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from memgrow import Domain, Stream
from memgrow.errors import SettingsError
from research.common.corpora import holds, limited, open_cornell, open_multinli, open_ubuntu
from research.common.dialogues import synthetic_dialogue
from research.common.files import atomic_write, say
from research.data import folder_of
from research.paper.protocol import DIALOGUES, GENRES, Data

SOURCE, TARGET = DIALOGUES
HELD_OUT = {SOURCE: 10_000, TARGET: 3_000}  # the paper's validation pairs, and as many for test
TRAIN = 9_000  # the paper's training pairs of the target
MEMORY = "data.json"


class Corpus(Protocol):
    """Anything that tables can be made on."""

    def stream(self, data: Data) -> Stream:
        """All domains, each with at most as many pairs as asked for."""


@dataclass
class MultiNLI:
    """MultiNLI in a folder, and a file of further pairs whose genre was guessed."""

    folder: Path
    extra: Path | None = None
    _whole: dict[bool, Stream] = field(default_factory=dict)
    _cut: dict[Data, Stream] = field(default_factory=dict)

    def stream(self, data: Data) -> Stream:
        if data not in self._cut:
            limits = {"train": data.limit, "validation": data.held_out, "test": data.held_out}
            self._cut[data] = Stream(limited(domain, **limits) for domain in self._open(data.extra))
        return self._cut[data]

    def _open(self, extra: bool) -> Stream:
        if extra not in self._whole:
            loaded = open_multinli(self.folder, GENRES, extra=self.extra if extra else None)
            for notice in loaded.notices:
                say(notice)
            self._whole[extra] = loaded.stream
        return self._whole[extra]


@dataclass
class Dialogues:
    """Both domains of dialogue, in one folder or where they were fetched to."""

    folder: Path | None = None
    _cut: dict[Data, Stream] = field(default_factory=dict)

    def stream(self, data: Data) -> Stream:
        if data not in self._cut:
            domains: list[Domain] = [*self._source(data), *self._target(data)]
            self._cut[data] = Stream(limited(domain, train=data.limit) for domain in domains)
        return self._cut[data]

    def _source(self, data: Data) -> Stream:
        held_out = data.held_out or HELD_OUT[SOURCE]
        return open_cornell(self._in(SOURCE), held_out, held_out).stream

    def _target(self, data: Data) -> Stream:
        held_out = data.held_out or HELD_OUT[TARGET]
        return open_ubuntu(self._in(TARGET), (min(data.limit or TRAIN, TRAIN), held_out, held_out)).stream

    def _in(self, name: str) -> Path:
        folder = self.folder or folder_of(name)
        if not holds(folder, name):
            raise SettingsError(
                f"{folder} holds no {name}: run `python -m research.data get {name}`, or name the folder of "
                f"{' and '.join(DIALOGUES)} with --data"
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


@dataclass(frozen=True)
class Known:
    """What records must be known by: fingerprints of the data and of what is held out, and the sizes of its parts."""

    data: Mapping[str, str]
    held_out: Mapping[str, str]
    sizes: Mapping[str, Mapping[str, int]]


@dataclass
class Memory:
    """A file among the records: with it, tables are made from the records alone.

    `files` are the names of the files that were given beside the corpus (vectors, extra, w2v), `echo` the scores of
    dialogue messages as replies to themselves.
    """

    path: Path
    memgrow: str = ""
    files: dict[str, str] = field(default_factory=dict)
    known: dict[Data, Known] = field(default_factory=dict)
    echo: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, folder: Path) -> "Memory":
        path = folder / MEMORY
        if not path.is_file():
            return cls(path)
        value = json.loads(path.read_bytes())
        known = {Data(**one["of"]): Known(one["data"], one["held_out"], one["sizes"]) for one in value["known"]}
        return cls(path, value["memgrow"], value["files"], known, value.get("echo"))

    def write(self) -> None:
        known = [{"of": asdict(data), **asdict(one)} for data, one in self.known.items()]
        value = {"memgrow": self.memgrow, "files": self.files, "known": known}
        atomic_write(self.path, json.dumps({**value, **({"echo": self.echo} if self.echo else {})}, indent=1) + "\n")
