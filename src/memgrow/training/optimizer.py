"""Adam over parameters by name: learning rates, warm-up, and a state that is saved and resumed by name."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from memgrow.training.settings import TrainingSettings

MOMENTS = ("exp_avg", "exp_avg_sq")


def make_optimizer(
    parameters: Mapping[str, nn.Parameter], settings: TrainingSettings, new: Collection[str]
) -> torch.optim.Adam:
    """Adam; parameters named in `new` train at `settings.new_rate` if it is set."""
    groups: dict[float, dict[str, Any]] = {}
    for name, parameter in parameters.items():
        rate = settings.new_rate if settings.new_rate is not None and name in new else settings.rate
        groups.setdefault(rate, {"params": [], "lr": rate, "full_rate": rate})["params"].append(parameter)
    return torch.optim.Adam(groups.values() or [{"params": []}], fused=True)


def scale_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set every learning rate to `factor` times its full value."""
    for group in optimizer.param_groups:
        group["lr"] = group["full_rate"] * factor


def optimizer_state(optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """The optimizer's state, with what methods have put into it, as "kind/parameter"."""
    return {
        f"{kind}/{name}": tensor
        for name, parameter in parameters.items()
        for kind, tensor in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer_state(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter], state: Mapping[str, Tensor]
) -> None:
    """Restore what `optimizer_state` returned."""
    for key, tensor in state.items():
        kind, name = key.split("/", 1)
        if name not in parameters:
            continue
        if kind in MOMENTS and tensor.shape != parameters[name].shape:
            raise ValueError(f"{key} has another shape than {name}")
        optimizer.state[parameters[name]][kind] = tensor.to(parameters[name].device)
