"""The runs of one family on one stream, and what must be known to read their records without the data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from memgrow import Stream
from memgrow.errors import SettingsError
from research.common.corpora import fingerprints_of, sizes_of
from research.common.replies import ReplyEvaluation
from research.common.runs import Run
from research.common.settings import ModelSettings, PretrainedSettings, TrainingSettings
from research.common.store import Store
from research.common.study import Material
from research.encoders.streams import read
from research.encoders.study import weights_of
from research.which_method.candidates import Candidate, Family
from research.which_method.streams import TrialStream

REPLIES = ReplyEvaluation(samples=0)  # greedy; their losses are what is compared


@dataclass(frozen=True, kw_only=True)
class TrialMaterial(Material):
    """What all runs of a family on a stream share."""

    family: str
    stream: str
    part: str
    domains: tuple[str, ...]
    seeds: tuple[int, ...]
    sizes: Mapping[str, Mapping[str, int]]
    data: Mapping[str, str]
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
        return bool(set(self.held_out) - set(self.domains))  # how replies are made is among what records agree on

    def runs(self, candidates: Iterable[Candidate], seeds: Iterable[int]) -> dict[tuple[str, int], Run]:
        some = list(seeds)
        shared = (self.settings, self.training)
        return {(one.name, seed): one.run(self.domains, seed, *shared) for one in candidates for seed in some}

    @property
    def only_learned(self) -> bool:
        return not self.replies

    @property
    def file_name(self) -> str:
        return f"{self.family}-{self.stream}.json"

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "TrialMaterial":
        return cls(**{**value, **{name: tuple(value[name]) for name in ("domains", "seeds", "only")}})


@dataclass(frozen=True)
class Trial:
    """A family on one stream."""

    material: TrialMaterial
    stream: Stream
    model: ModelSettings  # with the encoder as it is found on this machine
    vectors: Path | None = None

    @classmethod
    def open(
        cls,
        family: Family,
        trial: TrialStream,
        data: Path,
        *,
        encoders: Mapping[str, str] | None = None,
        vectors: Path | None = None,
        rounded_from: str | None = None,
    ) -> "Trial":
        """Read the stream from files that were prepared in the folder `data`.

        `encoders` says where encoders are that are not found by their names, and `vectors` is a file of word vectors.
        """
        settings = trial.settings[family.name]
        if settings.vectors and vectors is None:
            raise SettingsError(f"words of {trial.name} start with vectors: name their file with --vectors")
        words = vectors if settings.vectors else None
        stream = read(trial.domains, data / trial.source)
        model, name = settings.model or ModelSettings(), settings.encoder
        if name is not None:
            place = (encoders or {}).get(name, name)
            model = PretrainedSettings(encoder=place, weights=weights_of(place))
        fingerprints, held_out = fingerprints_of(stream, words)
        material = TrialMaterial(
            family=family.name,
            stream=trial.name,
            part=trial.part,
            domains=trial.domains,
            seeds=tuple(trial.seeds),
            sizes=sizes_of(stream),
            data=fingerprints,
            held_out={**held_out, **(REPLIES.fingerprints() if family.is_dialogue else {})},
            model={**asdict(model), **({"encoder": name} if name else {})},
            training=settings.training,
            encoder=name,
            rounded_from=rounded_from if name else None,
            only=trial.only,
        )
        return cls(material, stream, model, words)

    def runs(self, candidates: Sequence[Candidate], seeds: Iterable[int]) -> list[Run]:
        """The runs, with the encoder as it is found on this machine."""
        return [replace(run, model=self.model) for run in self.material.runs(candidates, seeds).values()]

    def take(self, runs: Sequence[Run], folder: Path, other: Store) -> int:
        """Copy records of these runs that another store has and this one lacks; returns how many."""
        own = Store(folder)
        here, there = self.material.ledger(own), self.material.ledger(other)
        stages = dict.fromkeys(stage for run in runs for stage in run.stages())
        found = [record for stage in stages if here.record(stage) is None and (record := there.record(stage))]
        for record in found:
            own.put(record)
        return len(found)
