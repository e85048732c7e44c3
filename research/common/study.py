"""Runs of a study on one stream, and what must be known to read their records without the data."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any, Self

from memgrow import Stream
from memgrow.errors import DataError, SettingsError
from research.common.files import atomic_write, pack_json
from research.common.grid import Grid, Outcome
from research.common.methods import method_called
from research.common.runs import Run
from research.common.settings import TrainingSettings
from research.common.store import Ledger, Store


@dataclass(frozen=True, kw_only=True)
class Material:
    """What all runs of a study on one stream share. It is kept among their records."""

    data: Mapping[str, str]  # fingerprints by domain
    held_out: Mapping[str, str]
    training: TrainingSettings

    @property
    def file_name(self) -> str:
        raise NotImplementedError

    @property
    def only_learned(self) -> bool:
        """Whether a model is evaluated on the domains that it has learned alone."""
        return True

    def ledger(self, store: Store) -> Ledger:
        return Ledger(store, self.data, self.held_out, self.only_learned)

    def save(self, folder: Path) -> None:
        """Write it among the records; another one of the same name is refused."""
        path = folder / self.file_name
        if path.exists() and self.read(path) != self:
            raise SettingsError(f"{path} is of runs on other data or with other settings: give another folder")
        atomic_write(path, pack_json(asdict(self)))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(**value)

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            value = json.loads(path.read_bytes())
            return cls.from_json({**value, "training": TrainingSettings(**value["training"])})
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged, or of another version: put a whole copy in its place") from error

    @classmethod
    def all_in(cls, folder: Path) -> list[Self]:
        return [cls.read(path) for path in sorted(folder.glob("*.json"))]


def run_study(material: Material, stream: Stream, folder: Path, runs: Sequence[Run], **how: Any) -> Outcome:
    """Make what is missing of these runs, and keep it in the folder; `how` are options of `Grid`."""
    material.save(folder)
    return Grid(stream, material.ledger(Store(folder)), **how).run(runs)


def steps_of(runs: Iterable[Run], stream: Stream, ledger: Ledger | None = None) -> tuple[int, int]:
    """The stages of runs and the steps of training that they take at most; with a ledger, without those made."""
    stages = dict.fromkeys(stage for run in runs for stage in run.stages())
    missing = [stage for stage in stages if ledger is None or ledger.record(stage) is None]
    steps = 0
    for stage in missing:
        method = method_called(stage.method)
        names = stage.learns if method.together else stage.learns[-1:]
        batches = ceil(sum(len(stream[name].train) for name in names) / stage.training.batch)
        epochs = 5 if stage.training.epochs == "auto" else stage.training.epochs
        steps += 0 if method.name == "ridge" else batches * epochs
    return len(missing), steps
