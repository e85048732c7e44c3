"""Several memories of the past at once: each is asked in turn."""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from memgrow.data.batches import Encoded
from memgrow.errors import SettingsError
from memgrow.models import Model

Parameters = Mapping[str, Tensor]
"""A model's parameters by name; for several models of one shape, each tensor has them stacked in front."""


@dataclass(frozen=True)
class MethodSettings:
    """Numbers that methods leave open."""

    slots: int | None = None  # new slots for each later domain; None: as many as the model began with
    quiet: float = 0.0  # let new slots in slowly: their logits start this much lower (Q: 5 unless given)
    strength: float = 1000.0  # EWC: weight of the penalty
    fisher: str = "exact"  # EWC: exact, sampled or empirical
    fisher_examples: int = 1000  # EWC: at most so many of a domain's examples enter its Fisher
    keep: float = 0.5  # A: share of the old weights in the average
    distil: float = 1.0  # D: weight of the old model's answers
    temperature: float = 2.0  # D: softens the answers of both models
    old_rate: float = 0.1  # L: old parameters move by this share of a step
    smooth: float = 0.999  # E: share of itself that the running mean of the weights keeps in a step, at most

    def __post_init__(self) -> None:
        if self.fisher not in FISHERS:
            raise SettingsError(f"fisher {self.fisher!r} is not known; there are {', '.join(FISHERS)}")
        if self.slots is not None and self.slots < 1:
            raise SettingsError(f"a later domain gets at least 1 slot, not {self.slots}; method F adds none")
        if self.quiet < 0 or self.strength < 0 or self.fisher_examples < 1:
            raise SettingsError("quiet and strength must be 0 or more, and fisher_examples at least 1")
        if self.distil < 0 or not self.temperature > 0:
            raise SettingsError("distil must be 0 or more, and temperature above 0")
        for name in ("keep", "old_rate", "smooth"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingsError(f"{name} is a share from 0 to 1, not {getattr(self, name)}")


FISHERS = ("exact", "sampled", "empirical")


class Past:
    """Remembers nothing. Others ask the old model, add to the loss, or take note, when a domain is learnt.

    What it is handed may be one model or several stacked: sums over all entries and over the last dimensions suit both.
    """

    needs_every_domain: ClassVar[bool] = False  # so that it cannot be taken up later
    reads: ClassVar[tuple[str, ...]] = ()  # of the settings

    def __init__(self, settings: MethodSettings) -> None:
        self.settings = settings

    def meet(self, old: Model, ask: Callable[[], Tensor]) -> None:
        """Called when a later domain has arrived; `ask` for the old model's logits (examples, labels) on its data."""

    def penalty(self, parameters: Parameters) -> Tensor | None:
        """What is added to the loss of each batch for where the parameters are."""
        return None

    def guidance(self, logits: Tensor, examples: Tensor) -> Tensor | None:
        """What is added for the answers (..., B, labels) to the training examples of those numbers (..., B)."""
        return None

    def before_step(self, parameters: Parameters) -> None:
        """Called before the optimiser moves the parameters."""

    def after_step(self, parameters: Parameters) -> None:
        """Called behind that."""

    @property
    def sees_every_step(self) -> bool:
        """Whether it looks at all parameters in each step, and so also at vectors of words that a batch has not."""
        ours = ("penalty", "before_step", "after_step")
        return self.smooth > 0 or any(getattr(type(self), name) is not getattr(Past, name) for name in ours)

    @property
    def smooth(self) -> float:
        """How much of itself the running mean keeps that is judged in the weights' place; 0: there is none."""
        return 0.0

    def settle(self, old: Model, new: Model) -> None:
        """Called when a later domain has been learnt; may move the new model's weights."""

    def take_note(self, model: Model, data: Encoded, device: torch.device) -> None:
        """Called at the end of every domain, its data still at hand."""

    def note(self, examples: int) -> dict[str, Any]:
        """What the record of a domain with so many examples should say."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """What is remembered, for the checkpoint."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `tensors` gave."""

    def stacked(self, others: Sequence["Past"]) -> "Past":
        """This one for several models at once: each of `others`, this one among them, remembers of its own."""
        return copy.copy(self)


def old_part(parameter: Tensor, shape: Sequence[int]) -> Tensor:
    """The entries that a parameter had before it grew by slots or words: those come behind the old ones."""
    return parameter[tuple(slice(size) for size in shape)]


class Several:
    """The parts of a method's memory, asked as one."""

    def __init__(self, parts: Sequence[Past]) -> None:
        self.parts = tuple(parts)

    @property
    def needs_every_domain(self) -> bool:
        return any(part.needs_every_domain for part in self.parts)

    @classmethod
    def stacked(cls, several: Sequence["Several"]) -> "Several":
        """One for several models at once, each with its own memory of the past."""
        kinds = list(zip(*(one.parts for one in several), strict=True))
        return cls([parts[0].stacked(parts) for parts in kinds])

    def meet(self, old: Model, ask: Callable[[], Tensor]) -> None:
        for part in self.parts:
            part.meet(old, ask)

    def penalty(self, parameters: Parameters) -> Tensor | None:
        return _sum(part.penalty(parameters) for part in self.parts)

    def guidance(self, logits: Tensor, examples: Tensor) -> Tensor | None:
        return _sum(part.guidance(logits, examples) for part in self.parts)

    def before_step(self, parameters: Parameters) -> None:
        for part in self.parts:
            part.before_step(parameters)

    def after_step(self, parameters: Parameters) -> None:
        for part in self.parts:
            part.after_step(parameters)

    @property
    def sees_every_step(self) -> bool:
        return any(part.sees_every_step for part in self.parts)

    @property
    def smooth(self) -> float:
        return max((part.smooth for part in self.parts), default=0.0)

    def settle(self, old: Model, new: Model) -> None:
        for part in self.parts:
            part.settle(old, new)

    def take_note(self, model: Model, data: Encoded, device: torch.device) -> dict[str, Any]:
        """Let each part take note, and return what the record should say."""
        for part in self.parts:
            part.take_note(model, data, device)
        return self.notes(len(data))

    def notes(self, examples: int) -> dict[str, Any]:
        """What the record of a domain with so many examples should say."""
        return {name: value for part in self.parts for name, value in part.note(examples).items()}

    def tensors(self) -> dict[str, Tensor]:
        return {name: tensor for part in self.parts for name, tensor in part.tensors().items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        for part in self.parts:
            part.restore(tensors)

    def inherit(self, other: "Several") -> list[Past]:
        """Take over what the same kinds of parts remember elsewhere; returns the parts that found none."""
        kinds = {type(part): part for part in other.parts}
        for part in self.parts:
            if type(part) in kinds:
                part.restore(kinds[type(part)].tensors())
        return [part for part in self.parts if type(part) not in kinds]


def _sum(terms: Iterable[Tensor | None]) -> Tensor | None:
    known = [term for term in terms if term is not None]
    return torch.stack(known).sum() if known else None
