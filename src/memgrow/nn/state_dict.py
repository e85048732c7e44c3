"""State dicts of layers that grow: empty tensors are left out, and the owners of slots are part of them.

The owners are JSON in a tensor of bytes under torch's name for extra state: safetensors stores only tensors, and
programs that move or cast all entries of a state dict expect tensors.
"""

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from memgrow.errors import SettingsError

EXTRA = "_extra_state"  # torch's name


class GrowingModule(nn.Module):
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


def json_to_tensor(value: object) -> Tensor:
    """A value as the bytes of its JSON."""
    return torch.tensor(list(json.dumps(value).encode("ascii")), dtype=torch.uint8)


def tensor_to_json(tensor: Any) -> Any:
    """The value that `json_to_tensor` packed, also where the bytes have been cast to another dtype since."""
    try:
        return json.loads(bytes(tensor.to("cpu", torch.uint8).tolist()))
    except (AttributeError, ValueError, TypeError, RecursionError) as error:
        raise SettingsError(f"the entry {EXTRA} of this state dict is damaged: it names no owners of slots") from error
