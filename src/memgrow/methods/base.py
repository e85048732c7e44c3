"""The contract of a method: what it does when a domain arrives, while it is trained on, and when it has been learned.

`Method` is plain fine-tuning. A subclass in a file of its own overrides the hooks it needs, and names its options in a
dataclass. `CombinedMethod` runs several at once, as in `ewc+slots+vocab`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from memgrow.data import Domain, Example
from memgrow.data.batches import Batch, Encoded
from memgrow.data.disk import take_plain_values
from memgrow.errors import SettingsError
from memgrow.models import Classifier, Model, Tally
from memgrow.nn.device import seeded

Weights = Mapping[str, Tensor]
"""Parameters of a model by name."""

WHOLE = (0, 0)
LARGEST_SETTING = 1e300  # number in settings


@dataclass(frozen=True)
class Trainable:
    """Parameters that train, by name, each with (dimension, first index that trains). All others are frozen."""

    rows_from: Mapping[str, tuple[int, int]]

    def prepare(self, model: nn.Module) -> dict[str, nn.Parameter]:
        """Set `requires_grad` accordingly, and return the parameters for the optimizer."""
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name in self.rows_from)
        return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}

    def mask_gradients(self, model: nn.Module) -> None:
        """Clear the gradients of frozen rows. Adam then leaves them unchanged, bit by bit."""
        for name, parameter in model.named_parameters():
            dim, first = self.rows_from.get(name, WHOLE)
            if first and parameter.grad is not None:
                parameter.grad.narrow(dim, 0, first).zero_()

    def state(self, model: nn.Module) -> dict[str, Tensor]:
        """The entries of the state dict that training may change: all but frozen parameters."""
        frozen = {name for name, _ in model.named_parameters()} - set(self.rows_from)
        return {name: tensor for name, tensor in model.state_dict().items() if name not in frozen}

    def count(self, model: nn.Module) -> int:
        """Number of trainable weights."""
        trained = [(one, *self.rows_from[name]) for name, one in model.named_parameters() if name in self.rows_from]
        return sum(one.numel() // one.shape[dim] * (one.shape[dim] - first) for one, dim, first in trained if len(one))


@dataclass(frozen=True)
class FinishedDomain:
    """A domain that has just been trained on, while its data is still at hand."""

    old: Model | None  # the model before the domain; None on the first one
    model: Model  # with the best epoch's weights
    data: Encoded  # what it was trained on
    validation: Encoded
    domains: Sequence[Domain]
    last_weights: Weights  # after the last step
    evaluate: Callable[[Iterable[Weights]], list[Tally]]  # validation with each set of weights in the model's place
    seed: int
    # Factors of low-rank matrices that were added to weights, by the weights' names.
    added: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        return self.model.device


@dataclass(frozen=True)
class NoOptions:
    """The options of a method that has none."""


class Method:
    """Fine-tuning. Subclasses override hooks; the order below is the order in which they are called."""

    about: ClassVar[str] = "fine-tune: everything trains on the new domain"
    Options: ClassVar[type] = NoOptions
    tasks: ClassVar[tuple[str, ...]] = ("text", "pair", "reply")
    needs_encoder: ClassVar[bool] = False  # works on a pretrained encoder only
    needs_every_domain: ClassVar[bool] = False  # cannot be switched to after the first domain
    closed_form: ClassVar[bool] = False  # `fit` sets the weights; there is no training
    needs_whole_batches: ClassVar[bool] = False  # `loss` is no mean over rows, or gradients are read: one process only
    finish_order: ClassVar[int] = 1  # of `finish_domain`: 0 chooses weights, 1 moves them, 2 reads the final ones

    def __init__(self, options: Any) -> None:
        self.options = options
        self.rows: dict[str, tuple[Example, ...]] = {}  # kept of earlier domains, as text; almost always empty

    def extra_rows(self, count: int) -> Sequence[Example]:
        """Rows of earlier domains to train on beside the new domain's `count` rows."""
        return ()

    def start_domain(self, old: Model | None, model: Model, data: Encoded) -> Trainable | None:
        """A domain has arrived and `model` has grown for it. Returns which parameters train on it; None: all of them.

        May add modules, which `finish_domain` removes. Their buffers are saved, resumed and taken back to the best
        epoch with the model's weights.
        """
        return None

    def fit(self, model: Model, data: Encoded, progress: Callable[[int, int], None]) -> None:
        """Set the weights in closed form, in place of training; calls `progress(done, total)`."""

    def warmup_epochs(self, batches: int) -> int:
        """Number of epochs, of so many batches, before early stopping starts to count."""
        return 0

    def loss(self, model: Model, batch: Batch, logits: Tensor | None) -> Tensor | None:
        """A term to add to the loss of a batch; `logits` is None for replies."""
        return None

    def after_step(self, model: Model, optimizer: torch.optim.Optimizer, batches: int) -> None:
        """The optimizer has made a step; an epoch has `batches` of them.

        Tensors that are put into `optimizer.state[parameter]` are saved and resumed with the training.
        """

    def evaluation_weights(self, model: Model, optimizer: torch.optim.Optimizer) -> Weights:
        """The weights to validate, and to keep if this epoch is the best, where they differ from the model's."""
        return {}

    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        """Training has ended: average weights, take statistics. Returns what the history records."""
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        """What the method remembers between domains."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""


class CombinedMethod(Method):
    """Several methods as one: each hook calls that of every part."""

    def __init__(self, parts: Sequence[Method]) -> None:
        self.parts = tuple(parts)

    @property
    def rows(self) -> dict[str, tuple[Example, ...]]:  # type: ignore[override]
        """The rows that parts keep of earlier domains, by domain."""
        return {domain: rows for part in self.parts for domain, rows in part.rows.items()}

    def load_rows(self, rows: Mapping[str, Sequence[Example]]) -> None:
        """Hand back what `rows` held."""
        for part in self.parts:
            if keeps_rows(type(part)):
                part.rows = {domain: tuple(examples) for domain, examples in rows.items()}

    def extra_rows(self, count: int) -> Sequence[Example]:
        return [row for part in self.parts for row in part.extra_rows(count)]

    def start_domain(self, old: Model | None, model: Model, data: Encoded) -> Trainable:
        """What the first part that restricts training allows to train; else everything."""
        found = [part.start_domain(old, model, data) for part in self.parts]
        return next((one for one in found if one is not None), everything(model))

    def fit(self, model: Model, data: Encoded, progress: Callable[[int, int], None]) -> None:
        for part in self.parts:
            part.fit(model, data, progress)

    def warmup_epochs(self, batches: int) -> int:
        return max((part.warmup_epochs(batches) for part in self.parts), default=0)

    def loss(self, model: Model, batch: Batch, logits: Tensor | None) -> Tensor | None:
        terms = [part.loss(model, batch, logits) for part in self.parts]
        found = [term for term in terms if term is not None]
        return torch.stack(found).sum() if found else None

    def after_step(self, model: Model, optimizer: torch.optim.Optimizer, batches: int) -> None:
        for part in self.parts:
            part.after_step(model, optimizer, batches)

    def evaluation_weights(self, model: Model, optimizer: torch.optim.Optimizer) -> Weights:
        weights: dict[str, Tensor] = {}
        for part in self.parts:
            weights |= part.evaluation_weights(model, optimizer)
        return weights

    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        """Every part draws from a generator of the same seed, so that methods do not depend on each other."""
        notes: dict[str, Any] = {}
        for part in sorted(self.parts, key=lambda one: one.finish_order):
            with seeded(domain.seed, "note", device=domain.device):
                notes |= part.finish_domain(domain)
        return notes

    def state_dict(self) -> dict[str, Tensor]:
        """The tensors of all parts; if more than one has any, their names start with the part's class."""
        return {
            prefix + name: one for prefix, part in self._stateful().items() for name, one in part.state_dict().items()
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        for prefix, part in self._stateful().items():
            part.load_state_dict({n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)})

    def check_state(self, learned: bool) -> None:
        """Refuse a restored state that is missing or not finite."""
        for part in self.parts:
            state = part.state_dict()
            if learned and part.needs_every_domain and not state:
                raise ValueError("the method's state of earlier domains is missing")
            if not all(bool(tensor.isfinite().all()) for tensor in state.values()):
                raise ValueError("the method's state holds numbers that are not finite")

    def inherit(self, other: "CombinedMethod") -> list[Method]:
        """Take over the state of parts of the same class; returns the parts that found none."""
        known = {type(part): part for part in other.parts}
        for part in self.parts:
            if type(part) in known:
                part.load_state_dict(known[type(part)].state_dict())
                part.rows = dict(known[type(part)].rows)
        return [part for part in self.parts if type(part) not in known]

    def _stateful(self) -> dict[str, Method]:
        parts = [part for part in self.parts if type(part).state_dict is not Method.state_dict]
        return {f"{type(part).__name__}." if len(parts) > 1 else "": part for part in parts}


def keeps_rows(kind: type[Method]) -> bool:
    """Whether a method keeps rows of earlier domains as text: it is the one thing that `extra_rows` is for."""
    return kind.extra_rows is not Method.extra_rows


# Which parameters train


def everything(model: Model) -> Trainable:
    """All parameters; beside weights that stay, all additions."""
    return Trainable(dict.fromkeys(trained_weights(model), WHOLE))


def trained_weights(model: Model) -> Weights:
    """The weights that domains train, by name."""
    names = model.addition_names() or [name for name, _ in model.named_parameters()]
    return {name: model.get_parameter(name).detach() for name in names}


def new_parameters(old: Model | None, model: Model) -> Trainable | None:
    """Parameters and rows that the old model did not have, and the head; on the first domain, everything.

    A head with labels trains as a whole, even where it has grown: old labels must make room for new ones.
    """
    if old is None:
        return None
    before = {name: parameter.shape for name, parameter in old.named_parameters()}
    head = set(map(id, model.head_parameters()))
    since: dict[str, tuple[int, int]] = {}
    for name, parameter in model.named_parameters():
        grown = [dim for dim, size in enumerate(parameter.shape) if name in before and size != before[name][dim]]
        if grown and not (isinstance(model, Classifier) and id(parameter) in head):
            since[name] = (grown[0], before[name][grown[0]])
        elif name not in before or id(parameter) in head:
            since[name] = WHOLE
    return Trainable(since)


def newly_trained(old: Model | None, model: Model) -> frozenset[str]:
    """Parameters that train at `new_rate`: those without pretraining, and those that have grown."""
    pretrained = set(map(id, model.encoder.pretrained_parameters()))
    before = {} if old is None else {name: parameter.shape for name, parameter in old.named_parameters()}
    return frozenset(
        name
        for name, parameter in model.named_parameters()
        if id(parameter) not in pretrained or before.get(name, parameter.shape) != parameter.shape
    )


def old_part(parameter: Tensor, shape: Sequence[int]) -> Tensor:
    """The entries that a parameter had before it grew by slots, words or labels, which come after the old ones.

    Hidden units grow between the old ones, so that a method that uses this cannot be combined with `hidden`.
    """
    return parameter[tuple(slice(size) for size in shape)]


# Options


def option(
    default: Any,
    *,
    least: float = -inf,
    above: float = -inf,
    most: float = LARGEST_SETTING,
    words: tuple[str, ...] = (),
) -> Any:
    """A field of a dataclass of settings: a number within bounds, or one of some words."""
    numbers = [f"at least {least:g}"] * (least > -inf) + [f"above {above:g}"] * (above > -inf)
    numbers += [f"at most {most:,}"] * (most < LARGEST_SETTING)
    bounds = (least, above, most) if numbers or not words else None
    about = " or ".join([*([" and ".join(numbers)] if numbers else []), *words])
    return field(default=default, metadata={"bounds": bounds, "words": words, "about": about})


def check_options(options: Any) -> None:
    """Refuse settings out of their bounds, in a frozen dataclass under construction."""
    take_plain_values(options)
    for one in fields(options):
        value = getattr(options, one.name)
        if value is None or not one.metadata or value in one.metadata["words"]:
            continue
        least, above, most = one.metadata["bounds"] or (inf, inf, -inf)
        if isinstance(value, str) or not (least <= value <= most and value > above):
            raise SettingsError(f"{one.name} must be {one.metadata['about']}, not {value!r}")
