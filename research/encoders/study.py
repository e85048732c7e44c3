"""The runs of the study on one stream with one encoder, and what must be known to read their records elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import memgrow
from memgrow import Stream
from memgrow.errors import SettingsError
from research.common.corpora import fingerprints_of, sizes_of
from research.common.methods import method_called
from research.common.runs import Run
from research.common.settings import FINE_TUNING, PretrainedSettings, TrainingSettings
from research.common.study import Material
from research.encoders.rows import Row
from research.encoders.streams import read, stream_called


@dataclass(frozen=True, kw_only=True)
class StudyMaterial(Material):
    """What all runs on one stream with one encoder share."""

    stream: str
    encoder: str  # its name
    weights: str  # SHA-256 of the weights that were used
    rounded_from: str | None  # SHA-256 of weights of which these are the float16 values
    orders: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, Mapping[str, int]]
    data: Mapping[str, str]
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
                first if method_called(row.method).joint else self.orders[order], seed, self.settings, self.training
            )
            for row in rows
            for order in orders
            for seed in seeds
        }

    @property
    def file_name(self) -> str:
        return f"{self.stream}-{self.encoder}.json"

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "StudyMaterial":
        return cls(**{**value, "orders": {order: tuple(names) for order, names in value["orders"].items()}})


@dataclass(frozen=True)
class Study:
    """A stream with one encoder, which is given by name or folder."""

    material: StudyMaterial
    stream: Stream
    encoder: str

    @classmethod
    def open(
        cls,
        name: str,
        data: Path,
        encoder: str,
        *,
        called: str | None = None,
        rounded_from: str | None = None,
        training: TrainingSettings = FINE_TUNING,
        model: Mapping[str, Any] | None = None,
    ) -> "Study":
        """The study of a stream whose files are in the folder `data`."""
        source = stream_called(name)
        stream = read(source.domains, data)
        fingerprints, held_out = fingerprints_of(stream)
        material = StudyMaterial(
            stream=name,
            encoder=called or Path(encoder).name,
            weights=weights_of(encoder),
            rounded_from=rounded_from,
            orders=source.orders(),
            sizes=sizes_of(stream),
            data=fingerprints,
            held_out=held_out,
            training=training,
            model=model or {},
        )
        return cls(material, stream, encoder)

    def runs(self, rows: Sequence[Row], orders: Sequence[str], seeds: Iterable[int]) -> list[Run]:
        """The distinct runs, with the encoder as it is found on this machine."""
        for order in orders:
            if order not in self.material.orders:
                raise SettingsError(f"there is no order {order!r}; there are {', '.join(self.material.orders)}")
        here = replace(self.material, encoder=self.encoder)
        return list(dict.fromkeys(here.runs(rows, orders, seeds).values()))


def weights_of(encoder: str) -> str:
    """The SHA-256 of an encoder's weights."""
    settings, _ = memgrow.PretrainedSettings(encoder=encoder).resolve()
    return settings.weights or ""
