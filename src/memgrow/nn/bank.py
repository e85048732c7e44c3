"""What grows: parameters, with the optimizer's state and whatever describes them, and the memory bank."""

import copy
import itertools
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from memgrow.errors import SettingsError
from memgrow.nn.kernels import Memory, attend

EXTRA = "_extra_state"  # torch's name


class Growing:
    """What can grow: `plan` adds to a `Growth`, and `grow` carries one plan out."""

    def plan(self, growth: "Growth", *args: Any, **changes: Any) -> None:
        """Plan what the arguments name; `growth.commit()` adds it."""
        raise NotImplementedError

    def grow(
        self,
        slots: int = 0,
        domain: str | None = None,
        *,
        optimizer: torch.optim.Optimizer | None = None,
        generator: torch.Generator | None = None,
        **changes: Any,
    ) -> None:
        """Add slots for a domain, and whatever else `plan` takes, or nothing at all; old parameters keep their bits."""
        if "optimiser" in changes:
            warnings.warn("grow(optimiser=...) is spelled optimizer now", DeprecationWarning, stacklevel=2)
            optimizer = changes.pop("optimiser")
        growth = Growth(optimizer, generator)
        self.plan(growth, slots=slots, domain=domain, **changes)
        growth.commit()


class GrowingModule(Growing, nn.Module):
    """Leaves empty tensors and an extra state of None out of its state dict, and loads state dicts without them.

    So a layer without slots exchanges weights with torch's layer.
    """

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, parameter in self.named_parameters(recurse=False):
            if len(parameter):
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        if self._has_extra_state and (extra := self.get_extra_state()) is not None:
            destination[prefix + EXTRA] = extra

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, metadata: Any, strict: bool, missing: list[str], *rest: Any
    ) -> None:
        own = self.named_parameters(recurse=False)
        absent = {prefix + name: parameter.detach() for name, parameter in own if not len(parameter)}
        super()._load_from_state_dict({**absent, **state_dict}, prefix, metadata, strict, missing, *rest)
        if prefix + EXTRA in missing:
            missing.remove(prefix + EXTRA)

    @property
    def _has_extra_state(self) -> bool:
        return type(self).get_extra_state is not nn.Module.get_extra_state


class WithoutExtraState(nn.Module):
    """A module whose state dict leaves the owners of slots out: a saved model has them in its config."""

    def state_dict(self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        found = super().state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)
        for name in [name for name in found if name.startswith(prefix) and name.endswith(f".{EXTRA}")]:
            del found[name]
        return found


Module = TypeVar("Module", bound=nn.Module)

Layout = Sequence[tuple[int, int]]
"""Along one dimension: runs of (old size, number of new entries after them), from first to last."""

Draw = Callable[[tuple[int, ...]], Tensor]
"""Makes the new entries of a parameter, given their shape."""

# Rprop's and Adagrad's: what begins at a setting of the group, and not at zero.
BEGINS_AT = {"step_size": "lr", "sum": "initial_accumulator_value"}


class Growth:
    """Plans larger parameters and puts them in place at once with `commit`.

    A parameter stays the same object, so that an optimizer, a hook or a tied module that holds it still does. Grow
    between steps, not between forward and backward.
    """

    def __init__(self, optimizer: torch.optim.Optimizer | None = None, generator: torch.Generator | None = None):
        self._optimizer = optimizer
        self._generator = generator
        self._data: dict[Tensor, Tensor] = {}
        self._state: dict[Tensor, dict[str, tuple[Tensor, float]]] = {}  # moments, and what new entries begin with
        self._actions: list[Callable[[], object]] = []

    def enlarge(self, parameter: Tensor, dim: int, layout: Layout, draw: Draw) -> None:
        """Plan new entries along `dim`; old ones keep their bits.

        Moments of new entries start at zero, or where the optimizer starts them. Adam has one step count for all
        entries and no longer corrects new moments late in a training: the first steps of new entries are up to 7 times
        the rate. A new optimizer, or warming the rate up again, avoids it.
        """
        old = self._data.get(parameter, parameter.data)
        if sum(size for size, _ in layout) != old.shape[dim]:
            raise ValueError(f"layout {list(layout)} does not cover dimension {dim} of {tuple(old.shape)}")
        shape = list(old.shape)
        shape[dim] = sum(extra for _, extra in layout)
        if shape[dim] == 0:
            return
        new = old.new_empty(shape) if old.is_meta else draw(tuple(shape)).to(old)
        self._data[parameter] = _interleave(old, new, dim, layout)
        if self._optimizer is not None:
            state = self._state.setdefault(parameter, _moments(self._optimizer, parameter))
            for name, (moment, first) in state.items():
                state[name] = _interleave(moment, moment.new_full(shape, first), dim, layout), first

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
        """Put everything in place. All memory has been allocated before, so that nothing stops half-way."""
        for parameter, data in self._data.items():
            # While an older graph is alive (a loss that is still held), autograd remembers the old shape. It forgets
            # the shape when the dtype changes, so that the new data come by way of another dtype.
            parameter.data = data.new_empty(0, dtype=torch.float16 if data.dtype != torch.float16 else torch.float32)
            parameter.data = data
            parameter.grad = None
        for parameter, state in self._state.items():
            if self._optimizer is not None and state:
                self._optimizer.state[parameter].update({name: moment for name, (moment, _) in state.items()})
        for action in self._actions:
            action()


def _moments(optimizer: torch.optim.Optimizer, parameter: Tensor) -> dict[str, tuple[Tensor, float]]:
    """The state that grows with a parameter (Adam's moments; not its step count), by name."""
    groups = [group for group in optimizer.param_groups if any(p is parameter for p in group["params"])]
    if parameter.requires_grad and not groups:
        raise SettingsError(
            f"the optimizer does not hold a parameter of shape {tuple(parameter.shape)} that grows: pass the optimizer "
            "that trains it, or set requires_grad to False"
        )
    if isinstance(optimizer, torch.optim.LBFGS) and optimizer.state:
        raise SettingsError("the state of LBFGS cannot grow: make a new optimizer after the growth")
    found = {}
    for name, tensor in optimizer.state.get(parameter, {}).items():
        if isinstance(tensor, Tensor) and tensor.ndim:  # a step count has no dimensions
            if tensor.shape != parameter.shape:
                raise SettingsError(
                    f"{type(optimizer).__name__}: it is not known how {name} of shape {tuple(tensor.shape)} grows: "
                    "make a new optimizer after the growth"
                )
            found[name] = tensor, float(groups[0].get(BEGINS_AT.get(name, ""), 0.0))
    return found


def _interleave(old: Tensor, new: Tensor, dim: int, layout: Layout) -> Tensor:
    """Old and new entries along `dim`, in runs of the sizes of the layout."""
    if not old.shape[dim] and new.is_contiguous():  # all of it is new
        return new
    pieces = []
    old_at = new_at = 0
    for size, extra in layout:
        pieces += [old.narrow(dim, old_at, size), new.narrow(dim, new_at, extra)]
        old_at, new_at = old_at + size, new_at + extra
    return torch.cat(pieces, dim)


def without_data(model: Module) -> Module:
    """A copy whose parameters have a shape and no numbers ("meta" tensors), to try something on."""
    return copy.deepcopy(model, {id(p): nn.Parameter(p.to("meta"), p.requires_grad) for p in model.parameters()})


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


@dataclass(frozen=True)
class Segment:
    """Slots `start` to `stop` (exclusive), added for `domain`; logits of `biased` ones have a learnable bias."""

    domain: str
    start: int
    stop: int
    biased: bool = False

    def __len__(self) -> int:
        return self.stop - self.start


class MemoryBank(GrowingModule):
    """Keys (N, key_size) and values (N, value_size) that grow.

    Entries of new slots are drawn from U(-1/sqrt(key_size), 1/sqrt(key_size)), like the weights of the layer that
    reads the bank. A bank grows to load a state dict that has more slots after its own.
    """

    keys: nn.Parameter
    values: nn.Parameter
    bias: nn.Parameter  # (biased slots)

    def __init__(
        self,
        key_size: int,
        value_size: int,
        slots: int = 0,
        domain: str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.empty(0, key_size, device=device, dtype=dtype))
        self.values = nn.Parameter(torch.empty(0, value_size, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(0, device=device, dtype=dtype))
        self.segments: tuple[Segment, ...] = ()
        if slots:
            self.grow(slots, domain)

    def __len__(self) -> int:
        return self.keys.shape[0]

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains that own slots, in the order in which they arrived."""
        return tuple(dict.fromkeys(segment.domain for segment in self.segments))

    @property
    def memory(self) -> Memory | None:
        """Keys, values and biases as the recurrence reads them; None while there are no slots."""
        return Memory(self.keys, self.values, self.logit_bias()) if len(self) else None

    def logit_bias(self) -> Tensor | None:
        """The bias of every slot (N), zero where a slot has none; None when no slot has one."""
        if not len(self.bias):
            return None
        pieces, at = [], 0
        for segment in self.segments:
            pieces.append(self.bias[at : at + len(segment)] if segment.biased else self.bias.new_zeros(len(segment)))
            at += len(segment) if segment.biased else 0
        return torch.cat(pieces)

    def attend(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """For queries (..., key_size): the content (..., value_size), and the weight of each slot (..., N)."""
        return attend(query, Memory(self.keys, self.values, self.logit_bias()))

    def share(self, weights: Tensor) -> dict[str, Tensor]:
        """How the attention `weights` (..., N) divide among the domains: (...) each."""
        shares = dict.fromkeys(self.domains, weights.new_zeros(weights.shape[:-1]))
        for segment in self.segments:
            shares[segment.domain] = shares[segment.domain] + weights[..., segment.start : segment.stop].sum(-1)
        return shares

    def plan(
        self,
        growth: Growth,
        *,
        slots: int = 0,
        keys: int = 0,
        domain: str | None = None,
        initial_logit_bias: float = 0.0,
        draw_keys: Draw | None = None,
        draw_values: Draw | None = None,
    ) -> None:
        """Plan new slots for a domain (named by its number if it has no name) and wider keys.

        With an `initial_logit_bias` below zero the logits of new slots carry a learnable bias that starts there.
        """
        if slots < 0 or keys < 0 or not initial_logit_bias <= 0:
            raise SettingsError(
                f"slots must be 0 or more and initial_logit_bias at most 0: {slots}, {initial_logit_bias}"
            )
        count, width = self.keys.shape
        draw = growth.uniform(1 / math.sqrt(width + keys))
        growth.enlarge(self.keys, 1, [(width, keys)], draw)
        growth.enlarge(self.keys, 0, [(count, slots)], draw_keys or draw)
        growth.enlarge(self.values, 0, [(count, slots)], draw_values or draw)
        if not slots:
            return
        if initial_logit_bias:
            growth.enlarge(self.bias, 0, [(len(self.bias), slots)], lambda shape: torch.full(shape, initial_logit_bias))
        unused = (number for number in map(str, itertools.count(len(self.domains) + 1)) if number not in self.domains)
        segment = Segment(domain or next(unused), count, count + slots, bool(initial_logit_bias))
        growth.then(lambda: setattr(self, "segments", (*self.segments, segment)))

    def restore(self, segments: Sequence[tuple[str, int, bool]], draw: Draw = torch.zeros) -> None:
        """Add the slots of further segments (domain, slots, biased), whose numbers are to be filled in."""
        if any(type(slots) is not int or slots < 1 for _, slots, _ in segments):
            raise SettingsError("a bank has a segment without a number of slots")
        growth, count = Growth(), sum(slots for _, slots, _ in segments)
        biased = sum(slots for _, slots, is_biased in segments if is_biased)
        for parameter, rows in ((self.keys, count), (self.values, count), (self.bias, biased)):
            growth.enlarge(parameter, 0, [(len(parameter), rows)], draw)
        parts, stop = [], len(self)
        for domain, slots, is_biased in segments:
            parts.append(Segment(domain, stop, stop + slots, is_biased))
            stop += slots
        self.segments = (*self.segments, *parts)
        growth.commit()

    def get_extra_state(self) -> Tensor | None:
        """The owners of slots, for a state dict; None while there are no slots."""
        owners = [[segment.domain, len(segment), segment.biased] for segment in self.segments]
        packed = json.dumps({"segments": owners}).encode("ascii")
        return torch.tensor(list(packed), dtype=torch.uint8) if owners else None

    def set_extra_state(self, state: Any) -> None:
        """Take over the names of owners, where slots are as many."""
        stored = _unpack_segments(state)
        if [one[1:] for one in stored] == self._sizes:
            named = zip(self.segments, stored, strict=True)
            self.segments = tuple(replace(segment, domain=domain) for segment, (domain, _, _) in named)

    @property
    def _sizes(self) -> list[tuple[int, bool]]:
        return [(len(segment), segment.biased) for segment in self.segments]

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        stored = segments_in(state_dict, prefix)
        if [one[1:] for one in stored[: len(self.segments)]] == self._sizes:
            self.restore(stored[len(self.segments) :])
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return f"{len(self)} slots, keys of {self.keys.shape[1]}, values of {self.values.shape[1]}"


def segments_in(state_dict: Mapping[str, Any], prefix: str) -> list[tuple[str, int, bool]]:
    """The segments (domain, slots, biased) of the bank `prefix` in a state dict; none if it names none."""
    state, keys = state_dict.get(prefix + EXTRA), state_dict.get(prefix + "keys")
    if state is None or keys is None:
        return []
    stored = _unpack_segments(state)
    if sum(slots for _, slots, _ in stored) != len(keys):
        raise SettingsError(f"this state dict is damaged: its segments do not add up to {len(keys)} slots")
    return stored


def _unpack_segments(state: Any) -> list[tuple[str, int, bool]]:
    """What `get_extra_state` packed, also where the bytes have been cast to another dtype since."""
    try:
        stored = json.loads(bytes(state.to("cpu", torch.uint8).tolist()))["segments"]
        segments = [(domain, slots, biased) for domain, slots, biased in stored]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        segments = []
    kinds = {tuple(map(type, segment)) for segment in segments}
    if kinds != {(str, int, bool)} or any(slots < 1 for _, slots, _ in segments):
        raise SettingsError(f"the entry {EXTRA} of this state dict is damaged: it names no owners of slots")
    return segments
