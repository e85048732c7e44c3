"""The recurrence with few, large operations: for the CPU, and for any device that has no faster way.

What the plain loop does in every step and need not is done once for all steps: the products of the inputs before the
loop, the gradients of all weights after it. Inside the loop stand three products and a handful of pointwise
operations, all into memory that was taken beforehand. The backward pass is written by hand: with derivatives of the
gates computed for all steps at once, a step of it is three products and four pointwise operations.

For one step, with h and c (the content) side by side as hc = [h ; c]:

    forward    a = softmax(h K' + b)    c = a V    gates = x_all[t] + hc W'
    backward   d_hc = d_gates W         d_logits = softmax'(d_c V')    d_h = d_hc[h] + d_logits K
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from memgrow.nn.kernels.naive import Memory, State, Weights
