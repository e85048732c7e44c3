"""What an optimiser remembers of a parameter, and how it grows with it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from memgrow.errors import SettingsError

MEAN_OVER = {"row_var": -1, "col_var": -2}  # of Adafactor's: the dimension that a tensor has one entry for
# Of Rprop's and Adagrad's: what begins at a setting of the group, and not at zero.
BEGINS_AT = {"step_size": "lr", "sum": "initial_accumulator_value"}


class Moment(NamedTuple):
    """A tensor of the optimiser's that is laid out like the parameter, but for a dimension that it is a mean over."""

    tensor: Tensor
    mean_over: int | None  # counted from the first
    first: float  # what new entries begin with

    def enlarged(self, dim: int, layout: Sequence[tuple[int, int]]) -> "Moment":
        """With new entries along `dim`, laid out like the parameter's."""
        if dim == self.mean_over:
            return self
        shape = list(self.tensor.shape)
        shape[dim] = sum(extra for _, extra in layout)
        return self._replace(tensor=interleave(self.tensor, self.tensor.new_full(shape, self.first), dim, layout))

    def selected(self, rows: Tensor) -> "Moment":
        """With these rows of the parameter alone."""
        return self if self.mean_over == 0 else self._replace(tensor=self.tensor[rows])


def moments_of(optimiser: torch.optim.Optimizer, parameter: Tensor) -> dict[str, Moment]:
    """What grows with a parameter (Adam's moments; not its step count), by name; refuses what nobody knows to grow."""
    groups = [group for group in optimiser.param_groups if any(p is parameter for p in group["params"])]
    if parameter.requires_grad and not groups:
        raise SettingsError(
            f"a trainable parameter of shape {tuple(parameter.shape)} is to grow, but the optimiser handed in "
            "does not hold it: hand in the optimiser that trains it, or set requires_grad to False"
        )
    if isinstance(optimiser, torch.optim.LBFGS) and optimiser.state:
        raise SettingsError("LBFGS remembers all parameters as one, which cannot grow: make a new one after the growth")
    found = {}
    for name, tensor in optimiser.state.get(parameter, {}).items():
        if isinstance(tensor, Tensor) and tensor.ndim:  # a number, as a count of steps, has no dimensions
            found[name] = _moment(name, tensor, parameter, groups[0], type(optimiser).__name__)
    return found


def interleave(old: Tensor, new: Tensor, dim: int, layout: Sequence[tuple[int, int]]) -> Tensor:
    """Old and new entries along `dim`, in runs of the sizes of the layout."""
    if not old.shape[dim] and new.is_contiguous():  # all of it is new: a copy would take as long as to fill it
        return new
    pieces = []
    old_at = new_at = 0
    for size, extra in layout:
        pieces += [old.narrow(dim, old_at, size), new.narrow(dim, new_at, extra)]
        old_at, new_at = old_at + size, new_at + extra
    return torch.cat(pieces, dim)


def _moment(name: str, tensor: Tensor, parameter: Tensor, group: dict[str, Any], optimiser: str) -> Moment:
    expected, over = list(parameter.shape), None
    if name in MEAN_OVER and parameter.ndim > 1:
        over = parameter.ndim + MEAN_OVER[name]
        expected[over] = 1
    if list(tensor.shape) != expected:
        raise SettingsError(
            f"{optimiser} remembers {name} of shape {tuple(tensor.shape)} for a parameter of shape "
            f"{tuple(parameter.shape)}, and how that grows is not known: make a new optimiser after the growth"
        )
    return Moment(tensor, over, float(group.get(BEGINS_AT.get(name, ""), 0.0)))
