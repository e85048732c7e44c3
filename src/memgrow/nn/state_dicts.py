"""State dicts of layers that grow: nothing of what is empty, and who owns which slots of what is not.

Who owns what is JSON in a tensor of bytes under torch's name for extra state. It is a tensor as safetensors keeps
tensors alone, and as programs that move or cast all of a state dict's entries expect nothing else.
"""

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from memgrow.errors import SettingsError
from memgrow.nn.growth import without_data

EXTRA = "_extra_state"  # as torch calls it


class NoTraceWhileEmpty(nn.Module):
    """Tensors without entries are left out of a state dict: a layer without slots exchanges weights with torch's.

    So is an extra state that has nothing to say (None), and a state dict may lack it: earlier versions wrote none.
    """

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        own = (*self.named_parameters(recurse=False), *self.named_buffers(recurse=False))
        for name, tensor in own:
            if len(tensor):
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if _has_extra_state(self) and (extra := self.get_extra_state()) is not None:
            destination[prefix + EXTRA] = extra

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, metadata: Any, strict: bool, missing: list[str], *rest: Any
    ) -> None:
        own = (*self.named_parameters(recurse=False), *self.named_buffers(recurse=False))
        absent = {prefix + name: tensor.detach() for name, tensor in own if not len(tensor)}
        super()._load_from_state_dict({**absent, **state_dict}, prefix, metadata, strict, missing, *rest)
        if prefix + EXTRA in missing:
            missing.remove(prefix + EXTRA)


class WholeOrUnchanged(nn.Module):
    """A layer that grows to fit a state dict. One that is refused leaves it as it was, as torch's loading does not."""

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        self._try(state_dict, strict)
        return super().load_state_dict(state_dict, strict, assign)

    def refuse_misfits(self, state_dict: Mapping[str, Any], prefix: str) -> None:
        """An error if sizes do not fit, before anything grows; what is missing or too many, the whole model tells."""
        own = {name.removeprefix(prefix): value for name, value in state_dict.items() if name.startswith(prefix)}
        try:
            self._try(own, strict=False)
        except RuntimeError as error:
            raise RuntimeError(f"{prefix.removesuffix('.')}: {error}") from error

    def _try(self, state_dict: Mapping[str, Any], strict: bool) -> None:
        """Load it into a copy of the layer; of both, the shapes alone."""
        if any(parameter.is_meta for parameter in self.parameters()):
            return  # this is such a copy, or another that has nothing to lose
        shapes = {
            name: value.to("meta") if isinstance(value, Tensor) and not name.endswith(EXTRA) else value
            for name, value in state_dict.items()
        }
        without_data(self).load_state_dict(shapes, strict)


class NumbersAlone(nn.Module):
    """A module whose owner tells by himself who owns which slots: its state dict has no extra state."""

    def state_dict(self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        found = super().state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)
        for name in [name for name in found if name.startswith(prefix) and name.endswith(f".{EXTRA}")]:
            del found[name]
        return found


def packed_json(value: object) -> Tensor:
    """A value as the bytes of its JSON."""
    return torch.tensor(list(json.dumps(value).encode("ascii")), dtype=torch.uint8)


def unpacked_json(tensor: object) -> Any:
    """The value that `packed_json` packed, also where the bytes have become other numbers since."""
    try:
        return json.loads(bytes(tensor.to("cpu", torch.uint8).tolist())) if isinstance(tensor, Tensor) else tensor
    except (ValueError, TypeError, RecursionError) as error:
        raise SettingsError(f"the entry {EXTRA} of this state dict does not say who owns which slots") from error


def segments_in(state_dict: Mapping[str, Any], prefix: str) -> list[tuple[str, int, bool]]:
    """The segments (domain, slots, quiet) of the bank `prefix` that a state dict tells of; none if it does not."""
    state, keys = state_dict.get(prefix + EXTRA), state_dict.get(prefix + "keys")
    if state is None or keys is None:
        return []
    told = told_segments(state)
    if sum(slots for _, slots, _ in told) != len(keys):
        raise SettingsError(f"this state dict tells of other segments than its {len(keys)} slots: it is damaged")
    return told


def told_segments(state: Any) -> list[tuple[str, int, bool]]:
    """The segments that an extra state tells of."""
    told = unpacked_json(state)
    try:
        segments = [(domain, slots, quiet) for domain, slots, quiet in told["segments"]]
    except (TypeError, ValueError, KeyError):
        segments = []
    kinds = {tuple(map(type, segment)) for segment in segments}
    if kinds != {(str, int, bool)} or any(slots < 1 for _, slots, _ in segments):
        raise SettingsError("this state dict does not say who owns which slots: it is damaged")
    return segments


def _has_extra_state(module: nn.Module) -> bool:
    return type(module).get_extra_state is not nn.Module.get_extra_state
