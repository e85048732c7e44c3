"""The ways to read a memory in a Transformer: from the logits of a domain's slots to the weight of each."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Weigh = Callable[[Tensor, int], Tensor]
"""From the logits (..., n) of a domain's slots, and the number of slots to read, to the weight of each (..., n)."""


def best_slots(logits: Tensor, best: int) -> Tensor:
    """A softmax over the `best` largest logits and a logit of 0 for nothing; slots that tie with the last are read too.

    Dense, with a threshold from `topk`: no indices, so that shapes are fixed and the backward pass has no atomics.
    """
    slots = logits.shape[-1]
    if best < slots:
        last = logits.detach().topk(best, dim=-1).values[..., -1:]
        logits = torch.where(logits < last, -math.inf, logits)
    return F.pad(logits, (0, 1)).softmax(dim=-1)[..., :slots]


def activations(logits: Tensor, best: int) -> Tensor:
    """The hidden units of an adapter; all are read."""
    return logits.relu() + 0.0  # 0.0 where a rectifier hands on -0.0: see ResidualMemory.forward


def share_of_attention(weights: Tensor) -> Tensor:
    return weights


def share_of_activation(weights: Tensor) -> Tensor:
    """Beside a unit that is always at 1 and stands for nothing."""
    return weights / (1 + weights.sum(-1, keepdim=True))


@dataclass(frozen=True)
class Reading:
    """A way to read: the one that is meant, or a control that it is held against."""

    weigh: Weigh
    queried: bool = True  # keys are compared with a query; else with the states themselves
    fixed_keys: bool = False  # keys stay as they were drawn
    share: Callable[[Tensor], Tensor] = share_of_attention  # the weights (..., n) as parts of at most 1 in all


READINGS = {
    "slots": Reading(best_slots),
    "fixed-keys": Reading(best_slots, fixed_keys=True),
    "adapter": Reading(activations, queried=False, share=share_of_activation),
}
