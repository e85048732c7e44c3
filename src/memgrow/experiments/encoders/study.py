"""The runs of the study on one stream with one encoder, and what has to be known to read their records elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memgrow.errors import SettingsError
from memgrow.experiments.encoders.rows import Row
from memgrow.experiments.encoders.streams import STREAMS, StudyStream, read, stream_called
from memgrow.experiments.grid import Grid
from memgrow.experiments.plan import Ledger
from memgrow.experiments.run import Run
from memgrow.experiments.store import Store
from memgrow.experiments.stored_runs import StoredRuns, StudyMaterial, sizes_of
from memgrow.methods import find_method
from memgrow.models import PretrainedSettings
from memgrow.training.defaults import FINE_TUNING
from memgrow.training.settings import TrainingSettings


@dataclass(frozen=True)
class Material(StudyMaterial):
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

    @property
    def file_name(self) -> str:
        return f"{self.stream}-{self.encoder}.json"

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Material":
        return cls(**{**value, "orders": {order: tuple(names) for order, names in value["orders"].items()}})


@dataclass(frozen=True)
class Study(StoredRuns[Material]):
    """Runs on one stream with one encoder, kept in a folder."""

    encoder: str  # its name or folder, as `find_encoder` reads it

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
        material = Material(
            name,
            called or Path(encoder).name,
            settings.weights or "",
            rounded_from,
            source.orders(),
            sizes_of(stream),
            ledger.data,
            ledger.held_out,
            training,
            model or {},
        )
        return cls(material, stream, folder, encoder)

    def runs(self, rows: Sequence[Row], orders: Sequence[str], seeds: Iterable[int]) -> list[Run]:
        """The distinct runs, with the encoder as it is found on this machine."""
        for order in orders:
            if order not in self.material.orders:
                raise SettingsError(f"there is no order {order!r}; there are {', '.join(self.material.orders)}")
        here = replace(self.material, encoder=self.encoder)
        return list(dict.fromkeys(here.runs(rows, orders, seeds).values()))

    def grid(self, *given: Any, **more: Any) -> Grid:
        """Makes the runs. One seed to a job: pretrained encoders are not stacked."""
        return super().grid(*given, stack=1, **more)
