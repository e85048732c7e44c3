"""Several memories of the past at once: each is asked in turn."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from memgrow.batches import Encoded
from memgrow.methods.past import Parameters, Past
from memgrow.models import Model


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
