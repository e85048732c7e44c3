"""The plugins of a method, called as one."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from memgrow.data import Example
from memgrow.data.batches import Encoded
from memgrow.errors import listed
from memgrow.methods.plugin import Evaluate, KeptExamples, LearntDomain, OptimiserState, Parameters, Plugin, Tell
from memgrow.models import Model
from memgrow.seeding import seeded


class Plugins:
    """All plugins of a method; each hook is that of every one in turn."""

    def __init__(self, parts: Sequence[Plugin]) -> None:
        self.parts = tuple(parts)

    @property
    def needs_every_domain(self) -> bool:
        return any(part.needs_every_domain for part in self.parts)

    def refuses_labels(self, joined: Sequence[str]) -> str | None:
        """Why labels may not join those of an old model, if so."""
        rigid = [type(part).__name__ for part in self.parts if not part.takes_new_labels]
        if not joined or not rigid:
            return None
        return (
            f"{rigid[0]} cannot go on with labels that the model does not have ({listed(joined)}): leave these rows "
            "out, use another method, or start a model that knows the labels from the first domain on (labels=...)"
        )

    def refuses(self, task: str) -> str | None:
        return next(filter(None, (part.refuses(task) for part in self.parts)), None)

    def before_domain(self, old: Model, ask: Callable[[], Tensor]) -> None:
        for part in self.parts:
            part.before_domain(old, ask)

    def before_training(self, model: Model) -> None:
        for part in self.parts:
            part.before_training(model)

    def solve(self, model: Model, data: Encoded, tell: Tell) -> None:
        for part in self.parts:
            part.solve(model, data, tell)

    def weight_loss(self, parameters: Parameters) -> Tensor | None:
        return _sum(part.weight_loss(parameters) for part in self.parts)

    def output_loss(self, logits: Tensor, examples: Tensor) -> Tensor | None:
        return _sum(part.output_loss(logits, examples) for part in self.parts)

    def before_step(self, parameters: Parameters) -> None:
        for part in self.parts:
            part.before_step(parameters)

    def after_step(self, parameters: Parameters) -> None:
        for part in self.parts:
            part.after_step(parameters)

    @property
    def sees_every_step(self) -> bool:
        return any(part.sees_every_step for part in self.parts)

    def follow_weights(self, optimiser: torch.optim.Optimizer, batches: int) -> None:
        for part in self.parts:
            part.follow_weights(optimiser, batches)

    def evaluated_weights(self, optimiser: torch.optim.Optimizer, parameters: Parameters) -> Parameters:
        for part in self.parts:
            parameters = part.evaluated_weights(optimiser, parameters)
        return parameters

    def warm_up_epochs(self, batches: int) -> int:
        return max((part.warm_up_epochs(batches) for part in self.parts), default=0)

    def after_steps(self, state: Callable[[Collection[str] | None], OptimiserState]) -> None:
        for part in self.parts:
            wants = part.wants_after_steps
            # The state is a copy: not for nothing.
            if type(part).after_steps is not Plugin.after_steps and (wants is None or wants):
                part.after_steps(state(wants))

    def after_training(self, old: Model, new: Model, evaluate: Evaluate) -> None:
        for part in self.parts:
            part.choose_weights(old, new, evaluate)

    def after_domain(self, model: Model, data: Encoded, device: torch.device, seed: int) -> dict[str, Any]:
        """Notes for the history on a domain that has been learnt; each plugin draws from a seed of its own."""
        said: dict[str, Any] = {}
        for part in self.parts:
            with seeded(seed, "note", device=device):
                said |= part.after_domain(model, data, device)
        return said

    @staticmethod
    def after_domain_together(plugins: Sequence["Plugins"], domain: LearntDomain) -> list[dict[str, Any]]:
        """The same for several models at once, each with its own plugins."""
        said: list[dict[str, Any]] = [{} for _ in plugins]
        for parts in zip(*(one.parts for one in plugins), strict=True):
            for whole, new in zip(said, type(parts[0]).after_domain_together(parts, domain), strict=True):
                whole |= new
        return said

    @property
    def keeps_examples(self) -> bool:
        return any(part.keeps_examples for part in self.parts)

    def keep_examples(self, domain: str, examples: Sequence[Example], seed: int) -> dict[str, Any]:
        said: dict[str, Any] = {}
        for part in self.parts:
            if part.keeps_examples:  # to others the rows are not shown
                said |= part.keep_examples(domain, examples, seed)
        return said

    def kept_examples(self) -> dict[str, KeptExamples]:
        """What each plugin keeps, by its name; those that keep nothing are not among them."""
        found = {type(part).__name__: part.kept_examples() for part in self.parts if part.keeps_examples}
        return {name: kept for name, kept in found.items() if kept}

    def take_examples(self, kept: Mapping[str, KeptExamples]) -> None:
        for part in self.parts:
            if part.keeps_examples:
                part.take_examples(kept.get(type(part).__name__, {}))

    def rows_kept(self) -> dict[str, int]:
        """The number of rows that are kept of each domain."""
        counts: dict[str, int] = {}
        for domains in self.kept_examples().values():
            for domain, examples in domains.items():
                counts[domain] = counts.get(domain, 0) + len(examples)
        return counts

    def mixed_in(self, count: int) -> list[tuple[Sequence[Example], int]]:
        """Rows of earlier domains for an epoch with so many of a later one, and how often each stands in it."""
        found = [part.mixed_in(count) for part in self.parts if part.keeps_examples]
        return [(rows, times) for rows, times in found if rows]

    def tensors(self) -> dict[str, Tensor]:
        return {
            prefix + name: tensor
            for prefix, part in self._remembering().items()
            for name, tensor in part.tensors().items()
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        for prefix, part in self._remembering().items():
            part.restore({name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)})

    def keep_rows(self, kept: Mapping[str, Tensor]) -> None:
        for part in self.parts:
            part.keep_rows(kept)

    def wrong_memory(self, model: Model, learnt: bool) -> str | None:
        """What is wrong with what was taken back for a model that has `learnt` something, if anything is."""
        for part in self.parts:
            tensors = part.tensors()
            if learnt and part.needs_every_domain and not tensors:
                return "what the method remembers of earlier domains is missing"
            if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
                return "what the method remembers of earlier domains is no finite number"
            if not part.fits(model):
                return "what the method remembers is of another model"
        return None

    def _remembering(self) -> dict[str, Plugin]:
        """The plugins that have something to save, by a prefix to their names; the only one needs none."""
        parts = [part for part in self.parts if type(part).tensors is not Plugin.tensors]
        return {f"{type(part).__name__}." if len(parts) > 1 else "": part for part in parts}

    @classmethod
    def stacked(cls, plugins: Sequence["Plugins"]) -> "Plugins":
        """One for several models at once, each with its own memory of the past."""
        return cls([parts[0].stacked(parts) for parts in zip(*(one.parts for one in plugins), strict=True)])

    def stacking_obstacle(self) -> str | None:
        return next(filter(None, (part.stacking_obstacle() for part in self.parts)), None)

    def recording_obstacle(self) -> str | None:
        return next(filter(None, (part.recording_obstacle() for part in self.parts)), None)

    def inherit(self, other: "Plugins") -> list[Plugin]:
        """Take over what the same kinds of plugins remember elsewhere; returns those that found none."""
        kinds = {type(part): part for part in other.parts}
        for part in self.parts:
            if type(part) in kinds:
                part.restore(kinds[type(part)].tensors())
                part.take_examples(kinds[type(part)].kept_examples())
        return [part for part in self.parts if type(part) not in kinds]


def _sum(terms: Iterable[Tensor | None]) -> Tensor | None:
    known = [term for term in terms if term is not None]
    return torch.stack(known).sum() if known else None
