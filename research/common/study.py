"""Runs of a study on one stream, and what must be known to read their records without the data."""

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from memgrow import Stream
from memgrow.errors import DataError, MemgrowError, SettingsError
from research.common.files import atomic_write, pack_json
from research.common.grid import Grid, Outcome
from research.common.runs import Record, Run
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


def add_run_options(parser: argparse.ArgumentParser, runs: Path) -> None:
    """The options of `run` that all studies have."""
    parser.add_argument("--data", type=Path, required=True, help="folder that `data` wrote")
    parser.add_argument("--rounded-from", help="SHA-256 of the weights of which the encoder's are the float16 values")
    parser.add_argument("--runs", type=Path, default=runs, help="folder of finished stages")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, default=1, help="processes, one a seed at a time")
    parser.add_argument("--minutes", type=float, help="no run is begun after so many; what is finished is kept")
    parser.add_argument("--bundle", action="store_true", help="put all records into one file in the end")


def run_options(given: argparse.Namespace, describe: Callable[[Record], str]) -> dict[str, Any]:
    """The same as options of `Grid`."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the workers have the cores already
    until = time.monotonic() + 60 * given.minutes if given.minutes is not None else None
    return {"device": given.device, "workers": given.workers, "until": until, "describe": describe}


def add_figures_options(parser: argparse.ArgumentParser, runs: Path, out: Path) -> None:
    parser.add_argument("--runs", type=Path, default=runs)
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="and draw a picture of them")


def call(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> None:
    """Do what the command line asks for; a mistake is one sentence."""
    given = parser.parse_args(arguments)
    try:
        given.do(given)
    except MemgrowError as error:
        raise SystemExit(f"error: {error}") from None
