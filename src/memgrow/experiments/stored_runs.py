"""Runs of a study that are kept in a folder, and what has to be known to read their records without the data."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from memgrow.data import Stream
from memgrow.errors import DataError, SettingsError
from memgrow.experiments.grid import Grid, Outcome, Watcher
from memgrow.experiments.plan import Job, Ledger, jobs_for
from memgrow.experiments.run import Run
from memgrow.experiments.store import Store
from memgrow.methods import find_method
from memgrow.storage import atomic_write, pack_json
from memgrow.training.settings import TrainingSettings

PARTS = ("train", "validation", "test")


class StudyMaterial(ABC):
    """What all runs of a study share: a frozen dataclass with these fields among others."""

    data: Mapping[str, str]  # fingerprints by domain
    held_out: Mapping[str, str]
    training: TrainingSettings

    @property
    @abstractmethod
    def file_name(self) -> str:
        """The name of its file among the records."""

    @classmethod
    @abstractmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """What `asdict` made JSON of; `training` is settings again."""

    @property
    def only_learnt(self) -> bool:
        """Whether a model is evaluated on the domains that it has learnt alone."""
        return True

    def ledger(self, store: Store) -> Ledger:
        """For reading records: the stream has names alone."""
        return Ledger(Stream(()), store, self.data, self.held_out, only_learnt=self.only_learnt)

    def save(self, folder: Path) -> None:
        """Write it among the records; another one of the same name is refused."""
        path = folder / self.file_name
        if path.exists() and self.read(path) != self:
            raise SettingsError(
                f"{path} is of runs on other data, with other weights or other settings: give another folder"
            )
        atomic_write(path, pack_json(asdict(self)))  # type: ignore[call-overload]

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            value = json.loads(path.read_bytes())
            return cls.from_json({**value, "training": TrainingSettings(**value["training"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} is damaged, or of another version: put a whole copy in its place") from error

    @classmethod
    def all_in(cls, folder: Path) -> list[Self]:
        """All that runs in this folder were made of."""
        return [cls.read(path) for path in sorted(folder.glob("*.json"))]


M = TypeVar("M", bound=StudyMaterial)


@dataclass(frozen=True)
class StoredRuns(Generic[M]):
    """Runs on one stream, kept in a folder."""

    material: M
    stream: Stream
    folder: Path

    def grid(
        self,
        device: str = "auto",
        workers: int | None = None,
        until: float | None = None,
        watch: Watcher | None = None,
        **more: Any,
    ) -> Grid:
        """Makes the runs; what is not named here are options of `Grid`."""
        options = {"device": device, "workers": workers, "until": until, "progress": watch, **more}
        return Grid(self.stream, Store(self.folder), only_learnt=self.material.only_learnt, **options)

    def run(self, runs: Sequence[Run], grid: Grid) -> Outcome:
        self.material.save(self.folder)
        return grid.run(runs)

    def jobs(self, runs: Sequence[Run], anew: bool = False) -> list[Job]:
        """The jobs that these runs still need, or would need if nothing had been made; one seed to a job."""
        store = Store(self.folder / "nothing" if anew else self.folder)
        return jobs_for(runs, replace(self.material.ledger(store), stream=self.stream), stack=1)

    def steps(self, job: Job) -> int:
        """The steps of training that a job takes at most."""
        run, method = job.run, find_method(job.run.method)
        if run.takes_notes() or method.closed_form:
            return 0
        names = run.learns if method.together else run.learns[-1:]
        examples = sum(len(self.stream[name].train) for name in names)
        batches = ceil(examples / run.training.batch)
        return batches * run.training.epochs_for(batches, first=method.afresh or len(run.learns) == 1)


def sizes_of(stream: Stream) -> dict[str, dict[str, int]]:
    """The numbers of examples in each part of each domain."""
    return {domain.name: {part: len(getattr(domain, part)) for part in PARTS} for domain in stream}
