"""The runs of one family on one stream, and what has to be known to read their records without the data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from memgrow.data.domain import file_fingerprint
from memgrow.errors import SettingsError
from memgrow.experiments.encoders.streams import read
from memgrow.experiments.grid import Grid
from memgrow.experiments.plan import Ledger
from memgrow.experiments.reply_records import ReplyEvaluation
from memgrow.experiments.run import Run
from memgrow.experiments.store import Store
from memgrow.experiments.stored_runs import StoredRuns, StudyMaterial, sizes_of
from memgrow.experiments.which_method.candidates import Candidate, Family
from memgrow.experiments.which_method.streams import TrialStream
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.training.settings import TrainingSettings

REPLIES = ReplyEvaluation(samples=0)  # greedy; their losses are what is compared


@dataclass(frozen=True)
class Material(StudyMaterial):
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

    @property
    def only_learnt(self) -> bool:
        return not self.replies

    @property
    def file_name(self) -> str:
        return f"{self.family}-{self.stream}.json"

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Material":
        return cls(**{**value, **{name: tuple(value[name]) for name in ("domains", "seeds", "only")}})


@dataclass(frozen=True)
class Trial(StoredRuns[Material]):
    """Runs of one family on one stream, kept in a folder."""

    model: ModelSettings  # with the encoder as it is found on this machine
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
        known = {"encoder": settings.encoder} if settings.encoder else {}
        material = Material(
            family.name,
            trial.name,
            trial.part,
            trial.domains,
            tuple(trial.seeds),
            sizes_of(stream),
            ledger.data,
            ledger.held_out,
            {**asdict(model), **known},
            settings.training,
            settings.encoder,
            rounded_from if settings.encoder else None,
            trial.only,
        )
        return cls(material, stream, folder, model, words)

    def runs(self, candidates: Sequence[Candidate], seeds: Iterable[int]) -> list[Run]:
        """The runs, with the encoder as it is found on this machine."""
        return [replace(run, model=self.model) for run in self.material.runs(candidates, seeds).values()]

    def grid(self, *given: Any, stack: int = 10, **more: Any) -> Grid:
        """Makes the runs. Neither pretrained encoders nor models that reply are stacked."""
        if self.material.encoder is not None or self.material.replies:
            stack = 1
        replies = REPLIES if self.material.replies else None
        return super().grid(*given, stack=stack, vectors=self.vectors, reply_evaluation=replies, **more)

    def take(self, runs: Sequence[Run], other: Store) -> int:
        """Copy records of these runs that another store has and this one lacks; returns how many."""
        own = Store(self.folder)
        here, there = self.material.ledger(own), self.material.ledger(other)
        stages = dict.fromkeys(stage for run in runs for stage in run.stages())
        found = [record for stage in stages if here.record(stage) is None and (record := there.record(stage))]
        for record in found:
            own.put(record)
        return len(found)
