"""Growth of parameters, the optimiser's state and whatever describes them: in one call, together or not at all."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from memgrow.nn.optimiser_state import Moment, interleave, moments_of

Module = TypeVar("Module", bound=nn.Module)

Layout = Sequence[tuple[int, int]]
"""Along one dimension: runs of (old size, number of new entries after them), from first to last."""

Draw = Callable[[tuple[int, ...]], Tensor]
"""Makes the new entries of a parameter, given their shape."""


class Growth:
    """Plans larger parameters and puts them in place at once with `commit`.

    A parameter stays the same object, so that an optimiser, a hook or a tied module that holds it goes on doing
    so: a grown part which nobody trains cannot come about. Grow between steps, not between forward and backward.
    """

    def __init__(self, optimiser: torch.optim.Optimizer | None = None, generator: torch.Generator | None = None):
        self._optimiser = optimiser
        self._generator = generator
        self._data: dict[Tensor, Tensor] = {}
        self._state: dict[Tensor, dict[str, Moment]] = {}
        self._actions: list[Callable[[], object]] = []

    def enlarge(self, parameter: Tensor, dim: int, layout: Layout, draw: Draw) -> None:
        """Plan new entries along `dim`; old ones keep their bits, the optimiser's state for new ones is as at first."""
        old = self._data.get(parameter, parameter.data)
        if sum(size for size, _ in layout) != old.shape[dim]:
            raise ValueError(f"layout {list(layout)} does not cover dimension {dim} of {tuple(old.shape)}")
        shape = list(old.shape)
        shape[dim] = sum(extra for _, extra in layout)
        if shape[dim] == 0:
            return
        new = old.new_empty(shape) if old.is_meta else draw(tuple(shape)).to(old)
        self._data[parameter] = interleave(old, new, dim, layout)
        state = self._state.setdefault(parameter, self._moments(parameter))
        for name, moment in state.items():
            state[name] = moment.enlarged(dim, layout)

    def select(self, parameter: Tensor, rows: Tensor) -> None:
        """Plan that only these rows are left; they keep their bits, and the optimiser's state for them."""
        rows = rows.to(parameter.device)
        self._data[parameter] = self._data.get(parameter, parameter.data)[rows]
        state = self._state.setdefault(parameter, self._moments(parameter))
        for name, moment in state.items():
            state[name] = moment.selected(rows)

    def uniform(self, bound: float) -> Draw:
        """A draw from U(-bound, bound), on the CPU, so that a seed means the same on every device."""

        def draw(shape: tuple[int, ...]) -> Tensor:
            return torch.empty(shape).uniform_(-bound, bound, generator=self._generator)

        return draw

    def mean_of(self, parameter: Tensor) -> Draw:
        """New rows that are all the mean of those the parameter has, or will have by what is planned so far."""

        def draw(shape: tuple[int, ...]) -> Tensor:
            return self._data.get(parameter, parameter.data).mean(0, keepdim=True).expand(shape)

        return draw

    def then(self, action: Callable[[], object]) -> None:
        """Run `action` with the commit: for sizes and other descriptions of what has grown."""
        self._actions.append(action)

    def commit(self) -> None:
        """Put everything in place. All memory has been taken before, so that nothing stops half-way."""
        for parameter, data in self._data.items():
            # While an older graph is alive (a loss that somebody still holds), autograd remembers the old shape. It
            # forgets the shape when the dtype changes, so that the new data come by way of another dtype.
            parameter.data = data.new_empty(0, dtype=torch.float16 if data.dtype != torch.float16 else torch.float32)
            parameter.data = data
            parameter.grad = None
        for parameter, state in self._state.items():
            if self._optimiser is not None and state:
                self._optimiser.state[parameter].update({name: moment.tensor for name, moment in state.items()})
        for action in self._actions:
            action()

    def _moments(self, parameter: Tensor) -> dict[str, Moment]:
        return {} if self._optimiser is None else moments_of(self._optimiser, parameter)


def without_data(model: Module) -> Module:
    """A copy whose parameters have a shape and no numbers ("meta" tensors), to try something on."""
    # What a hook holds, or has put there, is not ours: it may be huge, or have no copy.
    instead: dict[int, object] = {id(one): one for module in model.modules() for one in _foreign(module)}
    instead |= {id(p): nn.Parameter(p.to("meta"), p.requires_grad) for p in model.parameters()}
    return copy.deepcopy(model, memo=instead)


def _foreign(module: nn.Module) -> Iterator[object]:
    for name, held in vars(module).items():
        if "_hooks" in name and "load" not in name:
            yield held
        elif name not in ("_parameters", "_buffers", "_modules"):
            yield from _tensors_in(held)


def _tensors_in(held: object) -> Iterator[Tensor]:
    if isinstance(held, Tensor):
        yield held
    elif isinstance(held, list | tuple | dict):
        for one in held.values() if isinstance(held, dict) else held:
            yield from _tensors_in(one)


def count_parameters(model: nn.Module) -> int:
    """How many numbers the model holds, trainable or not."""
    return sum(parameter.numel() for parameter in model.parameters())


def matching_hidden(model: nn.Module, slots: int) -> int:
    """The number of new hidden units whose growth adds as many parameters as `slots` new slots, as nearly as can be."""
    target = _size_after(model, slots=slots)
    low, high = 0, 1
    while _size_after(model, hidden=high) < target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _size_after(model, hidden=middle) < target else (low, middle)
    return min((low, high), key=lambda hidden: abs(_size_after(model, hidden=hidden) - target))


def _size_after(model: nn.Module, **growth: int) -> int:
    """The number of parameters of a copy that has grown, so that no formula is needed."""
    shadow = without_data(model)
    if any(growth.values()):
        cast(Any, shadow).grow(**growth)
    return count_parameters(shadow)
