"""The history of a learner: its stages, and the accuracy matrix with forgetting and transfer."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from math import inf
from statistics import fmean
from typing import Any


@dataclass(frozen=True)
class Grew:
    slots: int = 0
    hidden: int = 0
    words: int = 0
    columns: int = 0
    labels: int = 0  # that joined those of an older model


@dataclass(frozen=True)
class Curve:
    """What a training went through, epoch by epoch."""

    loss: tuple[float | None, ...] = ()  # mean on the training examples; None where models trained together share it
    validation: tuple[float, ...] = ()  # score on the validation examples

    def then(self, loss: float | None, validation: float) -> "Curve":
        """With a further epoch."""
        return Curve((*self.loss, None if loss is None else round(loss, 6)), (*self.validation, validation))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Curve":
        """What `asdict` made JSON of; nothing is what an earlier memgrow kept."""
        return cls(tuple(value.get("loss", ())), tuple(value.get("validation", ())))


@dataclass(frozen=True)
class Row:
    """One stage: the domains learned in it, and the score of each domain tested after it."""

    learned: tuple[str, ...]
    scores: Mapping[str, float]


@dataclass(frozen=True)
class AccuracyMatrix:
    """Rows are stages, columns are domains. A domain without test data has no score."""

    rows: tuple[Row, ...] = ()

    def with_row(self, learned: Iterable[str], scores: Mapping[str, float]) -> "AccuracyMatrix":
        return AccuracyMatrix((*self.rows, Row(tuple(learned), dict(scores))))

    @property
    def domains(self) -> tuple[str, ...]:
        """The learned domains in their order, then those that were only tested."""
        return tuple(dict.fromkeys([*self.learned_at(), *(name for row in self.rows for name in row.scores)]))

    def score(self, stage: int, domain: str) -> float | None:
        return self.rows[stage].scores.get(domain)

    def scores_since(self, stage: int, domain: str) -> list[float]:
        return [row.scores[domain] for row in self.rows[stage:] if domain in row.scores]

    def learned_at(self) -> dict[str, int]:
        """The stage in which each domain was first learned."""
        stages: dict[str, int] = {}
        for stage, row in enumerate(self.rows):
            for name in row.learned:
                stages.setdefault(name, stage)
        return stages

    def average(self) -> float | None:
        """Mean score at the end over all learned domains."""
        return _mean(self.score(-1, name) for name in self.learned_at())

    def backward_transfer(self) -> float | None:
        """Mean change of earlier domains since they were learned; negative where they suffered."""
        return _mean(_difference(self.score(-1, name), self.score(stage, name)) for name, stage in self._earlier())

    def forgetting(self) -> float | None:
        """Mean loss of earlier domains against the best score since they were learned."""
        best = AccuracyMatrix(self.rows[:-1]).scores_since
        earlier = [(name, max(best(stage, name), default=None)) for name, stage in self._earlier()]
        return _mean(_difference(score, self.score(-1, name)) for name, score in earlier)

    def forward_transfer(self, baseline: Mapping[str, float]) -> float | None:
        """Mean score on later domains just before they were learned, above the `baseline` of each."""
        later = ((name, stage) for name, stage in self.learned_at().items() if stage > 0)
        return _mean(_difference(self.score(stage - 1, name), baseline.get(name)) for name, stage in later)

    def to_json(self) -> list[dict[str, Any]]:
        return [{"learned": list(row.learned), "scores": dict(row.scores)} for row in self.rows]

    @classmethod
    def from_json(cls, rows: Iterable[Mapping[str, Any]]) -> "AccuracyMatrix":
        return cls(tuple(Row(tuple(row["learned"]), dict(row["scores"])) for row in rows))

    def _earlier(self) -> list[tuple[str, int]]:
        return [(name, stage) for name, stage in self.learned_at().items() if stage < len(self.rows) - 1]


@dataclass(frozen=True)
class Stage:
    """The training on one domain, or on several by a method that sees them jointly."""

    learned: tuple[str, ...]
    method: str
    grew: Grew
    parameters: int  # of the whole model, after growth
    examples: int  # training examples
    epochs: int
    best_epoch: int
    validation: float  # score of the best epoch
    seconds: float
    fingerprint: str  # of the data
    note: Mapping[str, Any] = field(default_factory=dict)  # what the method reports
    trained: int | None = field(default=None, compare=False)  # trainable parameters; not saved
    date: str | None = field(default=None, compare=False)  # end of training, UTC; absent in 0.1.0
    curve: Curve = field(default_factory=Curve, compare=False)  # loss and validation by epoch; absent in 0.1.0

    def to_json(self) -> dict[str, Any]:
        """What the model folder keeps; absent parts are left out, as in older files."""
        values = asdict(self)
        left_out = {"trained", *(["date"] if self.date is None else []), *([] if self.curve.validation else ["curve"])}
        values["grew"] = {name: count for name, count in values["grew"].items() if count or name != "labels"}
        return {name: value for name, value in values.items() if name not in left_out}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Stage":
        parts = {"learned": tuple(value["learned"]), "grew": Grew(**value["grew"])}
        return cls(**{**value, **parts, "curve": Curve.from_json(value.get("curve", {}))})


@dataclass
class History:
    """Grows by one stage, and one row of the matrix, with each domain."""

    stages: list[Stage] = field(default_factory=list)
    matrix: AccuracyMatrix = field(default_factory=AccuracyMatrix)
    baseline: dict[str, float] = field(default_factory=dict)  # majority-class accuracy of each test set
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by domain; absent in 0.1.0
    test_examples: dict[str, int] = field(default_factory=dict)  # of each test set; absent in older files

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains learned so far, in their order."""
        return tuple(dict.fromkeys(name for stage in self.stages for name in stage.learned))

    def add(self, stage: Stage, scores: Mapping[str, float]) -> None:
        """Append a stage and the test scores after it."""
        self.stages.append(stage)
        self.matrix = self.matrix.with_row(stage.learned, scores)

    def find(self, fingerprint: str) -> Stage | None:
        """The stage that was trained on this data, if there is one."""
        return next((stage for stage in self.stages if stage.fingerprint == fingerprint), None)

    def summary(self) -> dict[str, float | None]:
        """Average accuracy, forgetting, backward and forward transfer; None where nothing was tested."""
        return {
            "average": self.matrix.average(),
            "forgetting": self.matrix.forgetting(),
            "backward_transfer": self.matrix.backward_transfer(),
            "forward_transfer": self.matrix.forward_transfer(self.baseline),
        }

    def to_json(self) -> dict[str, Any]:
        stages = [stage.to_json() for stage in self.stages]
        tests = {"baseline": self.baseline, **({"test_examples": self.test_examples} if self.test_examples else {})}
        return {"stages": stages, "matrix": self.matrix.to_json(), **tests, **self.summary()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], labels: Mapping[str, Iterable[str]] | None = None) -> "History":
        """Read a saved history; the model's own file holds the `labels`."""
        stages = [Stage.from_json(stage) for stage in value["stages"]]
        known = {name: tuple(own) for name, own in (labels or {}).items()}
        baseline, tests = dict(value["baseline"]), dict(value.get("test_examples", {}))
        return cls(stages, AccuracyMatrix.from_json(value["matrix"]), baseline, known, tests)


def perplexity_of(score: float) -> float:
    """The perplexity of a reply model's score, which is 1 / perplexity; infinite for a score of 0."""
    return 1 / score if score > 0 else inf


def _difference(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
