"""What trains when a domain arrives: everything, only the new slots, or only the newest column."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from memgrow.models import Classifier


@dataclass(frozen=True)
class Trains:
    """Parameters by name, each with the first row that trains; parameters that are not named are frozen."""

    from_row: Mapping[str, int]

    def prepare(self, model: nn.Module) -> list[nn.Parameter]:
        """Mark what trains in the model, and return it for the optimiser."""
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name in self.from_row)
        return [parameter for parameter in model.parameters() if parameter.requires_grad]

    def hold(self, model: nn.Module) -> None:
        """Clear the gradient of rows that are frozen. Adam then leaves them as they are, to the bit."""
        for name, parameter in model.named_parameters():
            if self.from_row.get(name) and parameter.grad is not None:
                parameter.grad[: self.from_row[name]] = 0


def everything(old: Classifier | None, new: Classifier) -> Trains:
    return Trains(dict.fromkeys(dict(new.named_parameters()), 0))


def new_slots(old: Classifier | None, new: Classifier) -> Trains:
    """The slots that the old model did not have, and the head."""
    if old is None:
        return everything(old, new)
    before = {name: len(parameter) for name, parameter in old.named_parameters()}
    slots = {name: before[name] for name, _ in new.named_parameters() if ".banks." in name}
    head = {name: 0 for name, _ in new.named_parameters() if name.startswith("heads.")}
    return Trains({**slots, **head})


def newest_column(old: Classifier | None, new: Classifier) -> Trains:
    """The newest column and its head; on the first domain, all there is."""
    if old is None:
        return everything(old, new)
    number = len(new.heads) - 1
    mine = (f"encoder.columns.{number}.", f"heads.{number}.")
    return Trains({name: 0 for name, _ in new.named_parameters() if name.startswith(mine)})
