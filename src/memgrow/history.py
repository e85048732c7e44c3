"""The history of a learner: its stages, and the accuracy matrix."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from memgrow.methods import Grew
from memgrow.metrics import AccuracyMatrix
from memgrow.training.resume import Curve


@dataclass(frozen=True)
class Stage:
    """The learning of one domain (of several for a method that sees them together)."""

    learned: tuple[str, ...]
    method: str
    grew: Grew
    parameters: int  # of the whole model, after growth
    examples: int  # trained on
    epochs: int
    best_epoch: int
    validation: float  # accuracy of the best epoch
    seconds: float
    fingerprint: str  # of the data: tells whether a domain has been learnt already
    note: Mapping[str, Any] = field(default_factory=dict)  # what the method has to say
    trained: int | None = field(default=None, compare=False)  # parameters that could change; no folder keeps it
    date: str | None = field(default=None, compare=False)  # when it ended, in UTC; stages of 0.1.0 have none
    curve: Curve = field(default_factory=Curve, compare=False)  # loss and validation by epoch; none of those either

    def to_json(self) -> dict[str, Any]:
        """What a folder keeps; nothing of labels where none joined, so that an old history stays as it was."""
        left_out = {"trained", *(["date"] if self.date is None else []), *([] if self.curve.validation else ["curve"])}
        values = {name: value for name, value in asdict(self).items() if name not in left_out}
        return {**values, "grew": {name: count for name, count in values["grew"].items() if count or name != "labels"}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Stage":
        parts = {"learned": tuple(value["learned"]), "grew": Grew(**value["grew"])}
        return cls(**{**value, **parts, "curve": Curve.from_json(value.get("curve", {}))})


@dataclass
class History:
    """Grows by one stage, and one row of the matrix, with each domain."""

    stages: list[Stage] = field(default_factory=list)
    matrix: AccuracyMatrix = field(default_factory=AccuracyMatrix)
    baseline: dict[str, float] = field(default_factory=dict)  # share of the most frequent label in each test set
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of learnt domains; 0.1.0 did not note them

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains learnt so far, in their order."""
        return tuple(dict.fromkeys(name for stage in self.stages for name in stage.learned))

    def add(self, stage: Stage, scores: Mapping[str, float]) -> None:
        """A stage, and the accuracy on each domain that was tested after it."""
        self.stages.append(stage)
        self.matrix = self.matrix.with_row(stage.learned, scores)

    def find(self, fingerprint: str) -> Stage | None:
        """The stage that learnt this very data, if there is one."""
        return next((stage for stage in self.stages if stage.fingerprint == fingerprint), None)

    def summary(self) -> dict[str, float | None]:
        """Average accuracy, forgetting, backward and forward transfer, as far as tests were made."""
        return {
            "average": self.matrix.average(),
            "forgetting": self.matrix.forgetting(),
            "backward_transfer": self.matrix.backward_transfer(),
            "forward_transfer": self.matrix.forward_transfer(self.baseline),
        }

    def to_json(self) -> dict[str, Any]:
        stages = [stage.to_json() for stage in self.stages]
        return {"stages": stages, "matrix": self.matrix.to_json(), "baseline": self.baseline, **self.summary()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], labels: Mapping[str, Iterable[str]] | None = None) -> "History":
        """`labels` stand with those of the model, and not in the history."""
        stages = [Stage.from_json(stage) for stage in value["stages"]]
        known = {name: tuple(own) for name, own in (labels or {}).items()}
        return cls(stages, AccuracyMatrix.from_json(value["matrix"]), dict(value["baseline"]), known)
