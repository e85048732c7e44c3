"""The runs of one family on one stream, and what has to be known to read their records without the data."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from memgrow.data import Stream
from memgrow.data.domain import file_fingerprint
from memgrow.errors import DataError, SettingsError
from memgrow.experiments.encoders.streams import read
from memgrow.experiments.grid import Grid, Outcome, Watcher
from memgrow.experiments.plan import Job, Ledger, jobs_for
from memgrow.experiments.reply_records import ReplyEvaluation
from memgrow.experiments.run import Run
from memgrow.experiments.store import Store
from memgrow.experiments.which_method.candidates import Candidate, Family
from memgrow.experiments.which_method.streams import TrialStream
from memgrow.methods import find_method
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.storage import atomic_write, pack_json
from memgrow.training.loop import TrainingSettings

REPLIES = ReplyEvaluation(samples=0)  # greedy; their losses are what is compared


@dataclass(frozen=True)
class Material:
    """What all runs of a family on a stream share. With it their records can be read without data or weights."""

    family: str
    stream: str
    part: str
    domains: tuple[str, ...]
    seeds: tuple[int, ...]
    sizes: Mapping[str, Mapping[str, int]]
    data: Mapping[str, str]  # fingerprints by domain
    held_out: Mapping[str, str]
    model: Mapping[str, Any]
    training: TrainingSettings
    encoder: str | None = None  # its name; the SHA-256 of its weights is among the model's settings
    rounded_from: str | None = None  # SHA-256 of weights of which these are the float16 values
    only: tuple[str, ...] = ()

    @property
    def settings(self) -> ModelSettings:
        return PretrainedSettings(**self.model) if self.encoder else ModelSettings(**self.model)

    @property
    def replies(self) -> bool:
        return bool(set(self.held_out) - set(self.domains))  # how replies are made is among what they agree on

    def runs(self, candidates: Iterable[Candidate], seeds: Iterable[int]) -> dict[tuple[str, int], Run]:
        some = list(seeds)
        shared = (self.settings, self.training)
        return {(one.name, seed): one.run(self.domains, seed, *shared) for one in candidates for seed in some}

    def ledger(self, store: Store) -> Ledger:
        """For reading records: the stream has names alone."""
        return Ledger(Stream(()), store, self.data, self.held_out, only_learnt=not self.replies)

    def save(self, folder: Path) -> None:
        """Write it among the records; another one of the same name is refused."""
        path = folder / f"{self.family}-{self.stream}.json"
        if path.exists() and _read(path) != self:
            raise SettingsError(
                f"{path} is of runs on other data, with other weights or other settings: give another folder"
            )
        atomic_write(path, pack_json(asdict(self)))


def materials(folder: Path) -> list[Material]:
    """All that runs in this folder were made of."""
    return [_read(path) for path in sorted(folder.glob("*.json"))]


def _read(path: Path) -> Material:
    try:
        value = json.loads(path.read_bytes())
        listed = {name: tuple(value[name]) for name in ("domains", "seeds", "only")}
        return Material(**{**value, **listed, "training": TrainingSettings(**value["training"])})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged, or of another version: put a whole copy in its place") from error


@dataclass(frozen=True)
class Trial:
    """Runs of one family on one stream, kept in a folder."""

    material: Material
    stream: Stream
    model: ModelSettings  # with the encoder as it is found on this machine
    folder: Path
    vectors: Path | None = None

    @classmethod
    def open(
        cls,
        family: Family,
        trial: TrialStream,
        data: Path,
        folder: Path,
        *,
        encoders: Mapping[str, str] | None = None,
        vectors: Path | None = None,
        rounded_from: str | None = None,
    ) -> "Trial":
        """Read the stream from files that were prepared in the folder `data`.

        `encoders` says where encoders lie that are not found by their names, and `vectors` is a file of word vectors.
        """
        settings = trial.settings[family.name]
        if settings.vectors and vectors is None:
            raise SettingsError(f"words of {trial.name} start with vectors: name their file with --vectors")
        words = vectors if settings.vectors else None
        stream = read(trial.domains, data / trial.source)
        model = settings.model or ModelSettings()
        if settings.encoder is not None:
            place = (encoders or {}).get(settings.encoder, settings.encoder)
            model, _ = PretrainedSettings(encoder=place).resolved()
        evaluation = REPLIES.fingerprints() if family.is_dialogue else {}
        ledger = Ledger.of(stream, Store(folder), file_fingerprint(words) if words else "", evaluation)
        parts = ("train", "validation", "test")
        known = {"encoder": settings.encoder} if settings.encoder else {}
        material = Material(
            family.name,
            trial.name,
            trial.part,
            trial.domains,
            tuple(trial.seeds),
            {domain.name: {part: len(getattr(domain, part)) for part in parts} for domain in stream},
            ledger.data,
            ledger.held_out,
            {**asdict(model), **known},
            settings.training,
            settings.encoder,
            rounded_from if settings.encoder else None,
            trial.only,
        )
        return cls(material, stream, model, folder, words)

    def runs(self, candidates: Sequence[Candidate], seeds: Iterable[int]) -> list[Run]:
        """The runs, with the encoder as it is found on this machine."""
        return [replace(run, model=self.model) for run in self.material.runs(candidates, seeds).values()]

    def grid(
        self,
        device: str = "auto",
        workers: int | None = None,
        stack: int = 10,
        until: float | None = None,
        watch: Watcher | None = None,
    ) -> Grid:
        """Makes the runs. Neither pretrained encoders nor models that reply are stacked."""
        alone = self.material.encoder is not None or self.material.replies
        return Grid(
            self.stream,
            Store(self.folder),
            vectors=self.vectors,
            device=device,
            workers=workers,
            stack=1 if alone else stack,
            progress=watch,
            reply_evaluation=REPLIES if self.material.replies else None,
            only_learnt=not self.material.replies,
            until=until,
        )

    def run(self, runs: Sequence[Run], grid: Grid) -> Outcome:
        self.material.save(self.folder)
        return grid.run(runs)

    def take(self, runs: Sequence[Run], other: Store) -> int:
        """Copy records of these runs that another store has and this one lacks; returns how many."""
        own = Store(self.folder)
        here, there = self.material.ledger(own), self.material.ledger(other)
        stages = dict.fromkeys(stage for run in runs for stage in run.stages())
        found = [record for stage in stages if here.record(stage) is None and (record := there.record(stage))]
        for record in found:
            own.put(record)
        return len(found)

    def jobs(self, runs: Sequence[Run], stack: int = 1) -> list[Job]:
        """The jobs that these runs still need."""
        return jobs_for(runs, replace(self.material.ledger(Store(self.folder)), stream=self.stream), stack)

    def steps(self, job: Job) -> int:
        """The steps of training that a job takes at most."""
        run = job.run
        if run.takes_notes() or find_method(run.method).closed_form:
            return 0
        return ceil(len(self.stream[run.learns[-1]].train) / run.training.batch) * run.training.epochs
