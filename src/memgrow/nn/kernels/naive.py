"""The recurrence as the equations have it: a plain loop over time, against which every fast backend is tested.

Sequences come packed, as in `torch.nn.utils.rnn.PackedSequence`: the rows of step 0, then those of step 1, and so
on, longest sequence first, so that step t holds `batch_sizes[t]` rows and a finished sequence costs nothing.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

State = tuple[Tensor, ...]
"""(h,) or, for an LSTM, (h, c): each (B, H)."""


class Weights(NamedTuple):
    """One layer and direction of a recurrent network, with torch's shapes and order of gates."""

    ih: Tensor  # (gates * H, I + M), for [x ; c]
    hh: Tensor  # (gates * H, H)
    bias_ih: Tensor | None  # (gates * H)
    bias_hh: Tensor | None


class Memory(NamedTuple):
    """The slots that a step reads."""

    keys: Tensor  # (N, H)
    values: Tensor  # (N, M)
    bias: Tensor | None = None  # (N), added to the logits


NO_MEMORY = (None,) * len(Memory._fields)


class Direction(NamedTuple):
    """One direction of a layer: its first state, its weights, and the slots it reads."""

    state: State  # at the beginning
    weights: Weights
    memory: Memory | None
    reverse: bool


def attend(query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    """Equations 1 and 2: the content that the slots give for each query (B, M), and the weight of each (B, N)."""
    logits = query @ memory.keys.t()  # (B, N)
    if memory.bias is not None:
        logits = logits + memory.bias
    weights = torch.softmax(logits, dim=-1)  # subtracts the maximum, so that no exp overflows
    return weights @ memory.values, weights  # (B, M), (B, N)


def lstm_step(x: Tensor, state: State, w: Weights) -> State:
    h, c = state
    gates = F.linear(x, w.ih, w.bias_ih) + F.linear(h, w.hh, w.bias_hh)  # (B, 4H)
    i, f, g, o = gates.chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_step(x: Tensor, state: State, w: Weights) -> State:
    (h,) = state
    r_x, z_x, n_x = F.linear(x, w.ih, w.bias_ih).chunk(3, dim=-1)  # (B, H) each
    r_h, z_h, n_h = F.linear(h, w.hh, w.bias_hh).chunk(3, dim=-1)
    z = (z_x + z_h).sigmoid()
    n = (n_x + (r_x + r_h).sigmoid() * n_h).tanh()
    return ((1 - z) * n + z * h,)


def tanh_step(x: Tensor, state: State, w: Weights) -> State:
    return ((F.linear(x, w.ih, w.bias_ih) + F.linear(state[0], w.hh, w.bias_hh)).tanh(),)


def relu_step(x: Tensor, state: State, w: Weights) -> State:
    return ((F.linear(x, w.ih, w.bias_ih) + F.linear(state[0], w.hh, w.bias_hh)).relu(),)


class Cell(NamedTuple):
    """A kind of cell: the shape of its weights and states, and one step of it."""

    gates: int  # blocks of H rows in the weights
    states: int  # tensors in the state
    step: Callable[[Tensor, State, Weights], State]


CELLS = {
    "lstm": Cell(gates=4, states=2, step=lstm_step),
    "gru": Cell(gates=3, states=1, step=gru_step),
    "rnn_tanh": Cell(gates=1, states=1, step=tanh_step),
    "rnn_relu": Cell(gates=1, states=1, step=relu_step),
}


def recur(
    cell: str,
    data: Tensor,  # (sum of batch_sizes, I)
    batch_sizes: Sequence[int],
    direction: Direction,
) -> tuple[Tensor, State]:
    """Run one direction: the state after each step (sum of batch_sizes, H), and the last state of each sequence."""
    state, weights, memory, reverse = direction
    step = CELLS[cell].step
    inputs = torch.split(data, list(batch_sizes))
    outputs: list[Tensor] = [data] * len(inputs)
    running = tuple(s[: batch_sizes[-1]] if reverse else s for s in state)
    ended: list[State] = []  # forward: states of the sequences that have come to their end, shortest first
    for t in reversed(range(len(inputs))) if reverse else range(len(inputs)):
        rows, size = len(running[0]), batch_sizes[t]
        if rows > size:  # forward: the shortest sequences end
            ended.append(tuple(s[size:] for s in running))
            running = tuple(s[:size] for s in running)
        elif rows < size:  # backward: shorter sequences begin, at their own last word
            running = tuple(torch.cat((s, first[rows:size])) for s, first in zip(running, state, strict=True))
        x = inputs[t]
        if memory is not None:
            content, _ = attend(running[0], memory)
            x = torch.cat((x, content), dim=-1)  # [x ; c]
        running = step(x, running, weights)
        outputs[t] = running[0]
    last = tuple(torch.cat(parts) for parts in zip(running, *reversed(ended), strict=True))
    return torch.cat(outputs), last
