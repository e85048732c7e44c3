"""`torch.nn.Dropout` with cheaper chance on a CPU: sixteen bits decide on a number, so that one draw serves four.

There torch draws for each number by itself, on some processors in one thread while all others wait: a fifth of a
training step of MiniLM on two cores of an EPYC. The probability is rounded to a 65,536th, and what is kept is scaled to
fit. Elsewhere torch's own dropout is taken.
"""

import torch
from torch import Tensor, nn

STEPS = 1 << 16  # of the probability
LOWEST = -(1 << 15)  # of sixteen bits with a sign


class Dropout(nn.Dropout):
    """Drop entries by chance while training, as `torch.nn.Dropout` does, by other random numbers on a CPU."""

    def forward(self, states: Tensor) -> Tensor:
        if not self.training or states.device.type != "cpu" or self.p in (0, 1) or self.inplace:
            return super().forward(states)
        dropped = min(round(self.p * STEPS), STEPS - 1)
        keep = random_halves(states.shape) >= LOWEST + dropped
        return states * keep.to(states.dtype).mul_(STEPS / (STEPS - dropped))


def random_halves(shape: torch.Size) -> Tensor:
    """Numbers of sixteen bits, all equally likely, drawn four at a time from torch's generator."""
    count = shape.numel()
    draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(1 << 63), None)
    return draws.view(torch.int16)[:count].view(shape)


def take_cheaper_dropout(module: nn.Module) -> None:
    """Put it in the place of every `torch.nn.Dropout` within a module."""
    for parent in module.modules():
        for name, child in parent.named_children():
            if type(child) is nn.Dropout:
                setattr(parent, name, Dropout(child.p, child.inplace).train(child.training))
