"""The runs of the study on one stream with one encoder, and what has to be known to read their records elsewhere."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

from memgrow.data import Stream
from memgrow.defaults import FINE_TUNING
from memgrow.errors import DataError, SettingsError
from memgrow.experiments.encoders.rows import Row
from memgrow.experiments.encoders.streams import STREAMS, StudyStream, read, stream_called
from memgrow.experiments.grid import Grid, Outcome, Watcher
from memgrow.experiments.plan import Job, Ledger, jobs_for
from memgrow.experiments.run import Run
from memgrow.experiments.store import Store
from memgrow.methods import find_method
from memgrow.models import PretrainedSettings
from memgrow.storage import atomic_write, pack_json
from memgrow.training.loop import TrainingSettings


@dataclass(frozen=True)
class Material:
    """What all runs on one stream with one encoder share. With it their records can be read without data or weights."""

    stream: str
    encoder: str  # its name
    weights: str  # SHA-256 of the weights that were used
    rounded_from: str | None  # SHA-256 of weights of which these are the float16 values
    orders: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, Mapping[str, int]]
    data: Mapping[str, str]  # fingerprints by domain
    held_out: Mapping[str, str]
    training: TrainingSettings = FINE_TUNING
    model: Mapping[str, Any] = field(default_factory=dict)  # settings of the model that all rows share

    @property
    def settings(self) -> PretrainedSettings:
        return PretrainedSettings(encoder=self.encoder, weights=self.weights, **self.model)

    def runs(self, rows: Iterable[Row], orders: Iterable[str], seeds: Iterable[int]) -> dict[tuple[str, str, int], Run]:
        """The runs by row, order and seed. One that sees all data at once is the same in every order."""
        first = next(iter(self.orders.values()))
        return {
            (row.name, order, seed): row.run(
                first if find_method(row.method).together else self.orders[order], seed, self.settings, self.training
            )
            for row in rows
            for order in orders
            for seed in seeds
        }

    def ledger(self, store: Store) -> Ledger:
        """For reading records: the stream has names alone."""
        return Ledger(Stream(()), store, self.data, self.held_out, only_learnt=True)

    def save(self, folder: Path) -> None:
        """Write it among the records; another one of the same name is refused."""
        path = folder / f"{self.stream}-{self.encoder}.json"
        if path.exists() and _read(path) != self:
            raise SettingsError(
                f"{path} is of runs on other data, with other weights or other settings: give another folder"
            )
        atomic_write(path, pack_json(asdict(self)))


def materials(folder: Path) -> list[Material]:
    """All that runs in this folder were made of, by stream and encoder."""
    return [_read(path) for path in sorted(folder.glob("*.json"))]


def _read(path: Path) -> Material:
    try:
        value = json.loads(path.read_bytes())
        orders = {order: tuple(names) for order, names in value["orders"].items()}
        return Material(**{**value, "orders": orders, "training": TrainingSettings(**value["training"])})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged, or of another version: put a whole copy in its place") from error


@dataclass(frozen=True)
class Study:
    """Runs on one stream with one encoder, kept in a folder."""

    material: Material
    stream: Stream
    encoder: str  # its name or folder, as `find_encoder` reads it
    folder: Path

    @classmethod
    def open(
        cls,
        name: str,
        data: Path,
        encoder: str,
        folder: Path,
        *,
        called: str | None = None,
        rounded_from: str | None = None,
        training: TrainingSettings = FINE_TUNING,
        model: Mapping[str, Any] | None = None,
        known: Mapping[str, StudyStream] = STREAMS,
    ) -> "Study":
        """The study of a stream whose files are in the folder `data`, with an encoder by name or folder."""
        source = stream_called(name, known)
        stream = read(source.domains, data)
        settings, _ = PretrainedSettings(encoder=encoder).resolved()
        ledger = Ledger.of(stream, Store(folder), only_learnt=True)
        parts = ("train", "validation", "test")
        sizes = {domain.name: {part: len(getattr(domain, part)) for part in parts} for domain in stream}
        material = Material(
            name,
            called or Path(encoder).name,
            settings.weights or "",
            rounded_from,
            source.orders(),
            sizes,
            ledger.data,
            ledger.held_out,
            training,
            model or {},
        )
        return cls(material, stream, encoder, folder)

    def runs(self, rows: Sequence[Row], orders: Sequence[str], seeds: Iterable[int]) -> list[Run]:
        """The distinct runs, with the encoder as it is found on this machine."""
        for order in orders:
            if order not in self.material.orders:
                raise SettingsError(f"there is no order {order!r}; there are {', '.join(self.material.orders)}")
        here = replace(self.material, encoder=self.encoder)
        return list(dict.fromkeys(here.runs(rows, orders, seeds).values()))

    def grid(
        self, device: str = "auto", workers: int | None = None, until: float | None = None, watch: Watcher | None = None
    ) -> Grid:
        """Makes the runs. One seed to a job: pretrained encoders are not stacked."""
        store = Store(self.folder)
        options: dict[str, Any] = {"workers": workers, "stack": 1, "progress": watch}
        return Grid(self.stream, store, device=device, only_learnt=True, until=until, **options)

    def run(self, runs: Sequence[Run], grid: Grid) -> Outcome:
        self.material.save(self.folder)
        return grid.run(runs)

    def jobs(self, runs: Sequence[Run], anew: bool = False) -> list[Job]:
        """The jobs that these runs still need, or would need if nothing had been made."""
        store = Store(self.folder / "nothing" if anew else self.folder)
        return jobs_for(runs, Ledger.of(self.stream, store, only_learnt=True), stack=1)

    def steps(self, job: Job) -> int:
        """The steps of training that a job takes at most."""
        run = job.run
        if run.takes_notes():
            return 0
        names = run.learns if find_method(run.method).together else run.learns[-1:]
        examples = sum(len(self.stream[name].train) for name in names)
        return ceil(examples / run.training.batch) * run.training.epochs
