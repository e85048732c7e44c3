"""The plugins of a method: hooks that are called as a domain arrives, is learnt and has been learnt."""

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor

from memgrow.data import Example
from memgrow.data.batches import Encoded
from memgrow.data.values import take_plain_values
from memgrow.errors import SettingsError
from memgrow.models import Model, Tally

Parameters = Mapping[str, Tensor]
"""A model's parameters by name; for several models of one shape, each tensor has them stacked in front."""

OptimiserState = Mapping[str, Mapping[str, Tensor]]
"""By a parameter's name, what the optimiser holds of it: Adam's moments, and what plugins have put there; after the
last step also the parameter itself, as WEIGHT."""

WEIGHT = "weight"

Evaluate = Callable[[Iterable[Parameters]], list[Tally]]
"""The answers of a trained model to its domain's validation set with each of some weights, by name, in turn. Parameters
that are not named are the model's own; at the end it has all of its own again."""

Tell = Callable[[int, int], None]
"""Told how much has been done, of how much in all."""

KeptExamples = Mapping[str, Sequence[Example]]
"""Rows that are kept of earlier domains, by domain."""

AUTO: Literal["auto"] = "auto"
FISHERS = ("exact", "sampled", "empirical")


@dataclass(frozen=True)
class MethodSettings:
    """Numbers that methods leave open."""

    slots: int | None = None  # new slots for each later domain; None: as many as the model began with
    quiet: float = 0.0  # let new slots in slowly: their logits start this much lower (Q: 5 unless given)
    strength: float = 1000.0  # EWC: weight of the penalty
    fisher: str = "exact"  # EWC: exact, sampled or empirical
    fisher_examples: int = 1000  # EWC: at most this many of a domain's examples enter its Fisher
    keep: float | Literal["auto"] = 0.5  # A: share of the old weights in the average; auto: what validation allows
    distil: float = 1.0  # D: weight of the old model's answers
    temperature: float = 2.0  # D: softens the answers of both models
    old_rate: float = 0.1  # L: old parameters move by this share of a step
    smooth: float | Literal["auto"] = 0.999  # E: share of itself that the moving average of the weights keeps in a
    # step, at most; auto: 0.999, but where validation is clearly better with the last weights, these are kept
    rank: int = 8  # LoRA: of the additions to the encoder's weights
    ridge: float = 1000.0  # ridge: weight of the penalty, in examples
    sparse_slots: int = 64  # sparse: old slots of each memory that may move when a later domain arrives, at most
    rehearse: int = 100  # rehearsal: rows of each domain that are kept with the model
    rehearsal_share: float = 0.25  # rehearsal: share of an epoch that rows of earlier domains are to have, about

    def __post_init__(self) -> None:
        take_plain_values(self)
        if self.fisher not in FISHERS:
            raise SettingsError(f"fisher {self.fisher!r} is not known; there are {', '.join(FISHERS)}")
        if self.slots is not None and self.slots < 1:
            raise SettingsError(f"a later domain gets at least 1 slot, not {self.slots}; method F adds none")
        for name in ("quiet", "strength", "distil", "temperature", "ridge"):
            if not isfinite(getattr(self, name)):
                raise SettingsError(f"{name} must be a finite number, not {getattr(self, name)}")
        if self.quiet < 0 or self.strength < 0 or self.fisher_examples < 1:
            raise SettingsError("quiet and strength must be 0 or more, and fisher_examples at least 1")
        if not self.ridge > 0:
            raise SettingsError(f"ridge must be above 0, not {self.ridge}")
        if self.rank < 1:
            raise SettingsError(f"rank must be at least 1, not {self.rank}")
        if self.sparse_slots < 1:
            raise SettingsError(f"sparse_slots must be at least 1, not {self.sparse_slots}")
        if self.rehearse < 1:
            raise SettingsError(f"rehearse must be at least 1 row, not {self.rehearse}; other methods keep none")
        if not 0 <= self.rehearsal_share <= 0.9:  # beyond that epochs grow without end
            raise SettingsError(f"rehearsal_share is a share from 0 to 0.9, not {self.rehearsal_share}")
        if self.distil < 0 or not self.temperature > 0:
            raise SettingsError("distil must be 0 or more, and temperature above 0")
        for name, or_auto in (("keep", f" or {AUTO}"), ("smooth", f" or {AUTO}"), ("old_rate", "")):
            share = getattr(self, name)
            if or_auto and share == AUTO:
                continue
            if isinstance(share, str) or not 0 <= share <= 1:
                raise SettingsError(f"{name} is a share from 0 to 1{or_auto}, not {share!r}")


RENAMED = {  # hooks of memgrow 0.1.0: one that is still defined under its old name would never be called
    "meet": "before_domain",
    "penalty": "weight_loss",
    "guidance": "output_loss",
    "settle": "after_training",
    "take_note": "after_domain",
    "note": "after_domain",
}


class LearntDomain(Protocol):
    """A domain that several models of one shape have just learnt, each with its own plugins, together."""

    models: Sequence[Model]
    data: Encoded
    device: torch.device

    def seeded(self, number: int) -> AbstractContextManager[None]:
        """Within, chance is that of one of the models, as if it had learnt alone."""

    def fisher(self, examples: Sequence[Sequence[int]], variant: str) -> list[dict[str, Tensor]]:
        """For each model the diagonal of the Fisher over its own examples (equally many for each), by name."""


class Plugin:
    """Does nothing. A subclass overrides the hooks that its method needs.

    What `weight_loss`, `output_loss`, `before_step` and `after_step` are handed may be of one model or of several
    stacked: sums over all entries and over the last dimensions suit both.
    """

    needs_every_domain: ClassVar[bool] = False  # so that it cannot be taken up later
    keeps_examples: ClassVar[bool] = False  # True: rows of each domain as they are; its method is marked everywhere
    takes_new_labels: ClassVar[bool] = True  # False: a domain whose labels the model does not have is refused
    reads: ClassVar[tuple[str, ...]] = ()  # of the settings
    reads_after_domain: ClassVar[tuple[str, ...]] = ()  # of those, what decides on what is remembered of a domain

    def __init__(self, settings: MethodSettings) -> None:
        self.settings = settings

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        for old, new in RENAMED.items():
            if old in vars(cls):
                raise TypeError(f"{cls.__name__}.{old} would never be called: the hook's name is now {new}")

    def refuses(self, task: str) -> str | None:
        """Why this does not go with a task (text, pair or reply), as a sentence; None if it does."""
        return None

    def before_domain(self, old: Model, ask: Callable[[], Tensor]) -> None:
        """Called when a later domain has arrived; `ask` for the old model's logits on its data (examples, old labels).

        Labels that join with the domain are not among them.
        """

    def before_training(self, model: Model) -> None:
        """Called when the model has grown for a later domain; may add modules, which `after_training` takes away."""

    def solve(self, model: Model, data: Encoded, tell: Tell) -> None:
        """Called in the place of training, for a method in closed form: sets weights, and tells how far it is."""

    def weight_loss(self, parameters: Parameters) -> Tensor | None:
        """A term added to the loss of each batch for where the parameters are."""
        return None

    def output_loss(self, logits: Tensor, examples: Tensor) -> Tensor | None:
        """A term added for the answers (..., B, labels) to the training examples of those numbers (..., B)."""
        return None

    def before_step(self, parameters: Parameters) -> None:
        """Called before the optimiser moves these parameters; frozen ones are not among them."""

    def after_step(self, parameters: Parameters) -> None:
        """Called after the optimiser has moved these parameters."""

    @property
    def sees_every_step(self) -> bool:
        """Whether it looks at all parameters in each step, and so also at vectors of words that a batch has not."""
        ours = ("weight_loss", "before_step", "after_step", "follow_weights")
        return any(getattr(type(self), name) is not getattr(Plugin, name) for name in ours)

    def follow_weights(self, optimiser: torch.optim.Optimizer, batches: int) -> None:
        """Called after `after_step` of all plugins; an epoch has that many batches.

        What it puts into the optimiser's state of a parameter is stacked, saved and resumed like Adam's own moments;
        `after_steps` gets it back.
        """

    def evaluated_weights(self, optimiser: torch.optim.Optimizer, parameters: Parameters) -> Parameters:
        """The weights, by name, that are evaluated after an epoch and kept if it is the best."""
        return parameters

    def warm_up_epochs(self, batches: int) -> int:
        """The number of epochs, of that many batches, before early stopping begins to count."""
        return 0

    @property
    def wants_after_steps(self) -> Collection[str] | None:
        """The kinds of tensors of each parameter's state that `after_steps` is handed; None: all that there are."""
        return None

    def after_steps(self, state: OptimiserState) -> None:
        """Called after a model's last step, before its best weights are put in place: for what was gathered.

        `state` is a copy, of what `wants_after_steps` says, and has the last weights too (WEIGHT).
        """

    def after_training(self, old: Model, new: Model) -> None:
        """Called when a later domain has been trained on; may move the new model's weights."""

    def choose_weights(self, old: Model, new: Model, evaluate: Evaluate) -> None:
        """Called in the place of `after_training`, for a plugin that has to `evaluate` weights before it moves them."""
        self.after_training(old, new)

    def after_domain(self, model: Model, data: Encoded, device: torch.device) -> dict[str, Any]:
        """Called at the end of every domain, its data still at hand; returns what the history should say of it."""
        return {}

    @classmethod
    def after_domain_together(cls, plugins: Sequence["Plugin"], domain: LearntDomain) -> list[dict[str, Any]]:
        """The same for several models; a plugin that has a faster way than one after another overrides it."""
        said = []
        for number, (plugin, model) in enumerate(zip(plugins, domain.models, strict=True)):
            with domain.seeded(number):
                said.append(plugin.after_domain(model, domain.data, domain.device))
        return said

    def keep_examples(self, domain: str, examples: Sequence[Example], seed: int) -> dict[str, Any]:
        """Called after `after_domain` with a domain's training examples, for who keeps some; adds to the history."""
        return {}

    def kept_examples(self) -> KeptExamples:
        """The rows to keep, for the checkpoint: what `keep_examples` has chosen of each domain so far."""
        return {}

    def take_examples(self, kept: KeptExamples) -> None:
        """Take back what `kept_examples` gave."""

    def mixed_in(self, count: int) -> tuple[Sequence[Example], int]:
        """Rows of earlier domains that an epoch has beside the so many of a later domain, and how often each."""
        return (), 0

    def tensors(self) -> dict[str, Tensor]:
        """The tensors to remember, for the checkpoint."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `tensors` gave."""

    def fits(self, model: Model) -> bool:
        """Whether what was taken back can be of this model."""
        return True

    def keep_rows(self, kept: Mapping[str, Tensor]) -> None:
        """Called when slots were given up: of these parameters, by name, only some rows are left."""

    def stacked(self, others: Sequence["Plugin"]) -> "Plugin":
        """This one for several models at once: each of `others`, this one among them, remembers of its own.

        A plugin with anything but its settings has to override this; the learners of one that does not are trained one
        after another.
        """
        return copy.copy(self)

    def stacking_obstacle(self) -> str | None:
        """Why this cannot be stacked, if so: it holds something, and nothing says how that is stacked."""
        if type(self).stacked is not Plugin.stacked or not vars(self).keys() - {"settings"}:
            return None
        return f"{type(self).__name__} does not say how it is stacked"

    def recording_obstacle(self) -> str | None:
        """Why steps with this cannot be recorded on a GPU and replayed, if so: Python would not be asked again.

        A plugin that can be stacked is used to that. Another one with hooks in a step and something of its own has to
        say that none of it changes between steps but in the optimiser's state, by overriding this.
        """
        hooks = ("weight_loss", "output_loss", "before_step", "after_step", "follow_weights")
        if all(getattr(type(self), name) is getattr(Plugin, name) for name in hooks):
            return None
        if self.stacking_obstacle() is None:
            return None
        return f"{type(self).__name__} does not say that its steps can be replayed"


def old_part(parameter: Tensor, shape: Sequence[int]) -> Tensor:
    """The entries that a parameter had before it grew by slots, words or labels: those come after the old ones."""
    return parameter[tuple(slice(size) for size in shape)]
