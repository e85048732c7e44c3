"""Low-rank additions to the linear layers of a Transformer (LoRA; Hu et al. 2022)."""

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SCALE = 2.0  # alpha / rank


class LowRank(nn.Module):
    """SCALE * up (down x). `up` starts at zero, so that nothing is added before training."""

    def __init__(self, layer: nn.Module, rank: int) -> None:
        super().__init__()
        weight = cast(Tensor, layer.weight)
        outputs, inputs = weight.shape if isinstance(layer, nn.Linear) else weight.T.shape  # of GPT-2's Conv1D
        drawn = torch.empty(rank, inputs).uniform_(-1, 1) / math.sqrt(inputs)
        self.down = nn.Parameter(drawn.to(weight))
        self.up = nn.Parameter(weight.new_zeros(outputs, rank))

    def forward(self, states: Tensor) -> Tensor:
        # Autocast may hand on other dtypes.
        return F.linear(SCALE * F.linear(states, self.down.to(states)), self.up.to(states))

    def factors(self) -> tuple[Tensor, Tensor]:
        """The factors, up @ down, of the matrix that is added to the layer's weight (out, in)."""
        return SCALE * self.up, self.down


class AdditionHook:
    """A forward hook that adds the output of a low-rank module. Unlike a closure it can be copied."""

    def __init__(self, addition: LowRank) -> None:
        self.addition = addition

    def __call__(self, layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        return output + cast(Tensor, self.addition(inputs[0]))
