"""The parameters that train when a domain arrives: everything, only what is new, only the newest column, or none."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from memgrow.models import Classifier, Model
from memgrow.nn import ResidualMemory

ALL = (0, 0)


@dataclass(frozen=True)
class Trains:
    """Parameters by name, each with (dimension, first index that trains); those that are not named are frozen."""

    since: Mapping[str, tuple[int, int]]
    new: frozenset[str] = frozenset()  # those that move at the new rate

    def prepare(self, model: nn.Module) -> list[nn.Parameter]:
        """Mark what trains in the model, and return it for the optimiser."""
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name in self.since)
        return [parameter for parameter in model.parameters() if parameter.requires_grad]

    def count(self, model: nn.Module) -> int:
        """The number of entries that train; keys that are fixed have no gradient, though they are named."""
        memories = [module for module in model.modules() if isinstance(module, ResidualMemory)]
        fixed = {id(one) for memory in memories for one in memory.untrained_parameters()}
        named = [(name, one) for name, one in model.named_parameters() if name in self.since and id(one) not in fixed]
        sizes = {name: parameter.shape for name, parameter in named}
        return sum(
            shape.numel() // shape[dim] * (shape[dim] - first)
            for name, shape in sizes.items()
            for dim, first in (self.since[name],)
            if shape.numel()
        )

    def mask_gradients(self, model: nn.Module) -> None:
        """Clear the gradient of entries that are frozen. Adam then leaves them as they are, to the bit."""
        for name, parameter in model.named_parameters():
            dim, first = self.since.get(name, (0, 0))
            if first and parameter.grad is not None:
                parameter.grad.narrow(dim, 0, first).zero_()

    def changing(self, model: nn.Module) -> dict[str, Tensor]:
        """The tensors that training may change: all but frozen parameters."""
        frozen = {name for name, _ in model.named_parameters()} - set(self.since)
        return {name: tensor for name, tensor in model.state_dict().items() if name not in frozen}


def new_names(old: Model | None, new: Model) -> frozenset[str]:
    """The parameters that move at the new rate: those that no pretraining has seen, and those that have grown.

    A head that has been trained before is among them: beside frozen weights a slower one learnt less.
    """
    pretrained = set(map(id, new.encoder.pretrained_parameters()))
    before = {} if old is None else {name: parameter.shape for name, parameter in old.named_parameters()}
    return frozenset(
        name
        for name, parameter in new.named_parameters()
        if id(parameter) not in pretrained or before.get(name, parameter.shape) != parameter.shape
    )


def trainable(model: Model) -> dict[str, nn.Parameter]:
    """The parameters that may train at all, by name."""
    never = set(map(id, model.encoder.untrained_parameters()))
    return {name: parameter for name, parameter in model.named_parameters() if id(parameter) not in never}


def everything(old: Model | None, new: Model) -> Trains:
    return Trains(dict.fromkeys(trainable(new), ALL))


def what_is_new(old: Model | None, new: Model) -> Trains:
    """What the old model did not have trains (slots; the first bring weights that read them), and the head.

    All of a head that gives labels trains, also where it has grown: old labels have to make room for new ones.
    """
    if old is None:
        return everything(old, new)
    before = {name: parameter.shape for name, parameter in old.named_parameters()}
    head = set(map(id, new.head_parameters()))
    since, whole = {}, head if isinstance(new, Classifier) else set()
    for name, parameter in trainable(new).items():
        grown = [dim for dim, size in enumerate(parameter.shape) if name in before and size != before[name][dim]]
        if grown and id(parameter) not in whole:
            since[name] = (grown[0], before[name][grown[0]])
        elif name not in before or id(parameter) in head:
            since[name] = ALL
    return Trains(since)


def nothing(old: Model | None, new: Model) -> Trains:
    return Trains({})


def newest_column(old: Model | None, new: Model) -> Trains:
    """The newest column and its head; on the first domain, all there is."""
    if old is None:
        return everything(old, new)
    newest = set(map(id, new.newest_parameters()))
    return Trains({name: ALL for name, parameter in new.named_parameters() if id(parameter) in newest})
