"""A layer walked step by step; and a grown layer each of whose steps starts from the old states.

The latter is the theorem's setting on a real layer: h_{i-1} is what it was before growth, so that h_i shows what one
step alone changes. Texts come in equal lengths, (T, B, I).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from memgrow.nn import MemoryRecurrent
from memgrow.nn.kernels import CELLS, Direction, State, attend


@dataclass(frozen=True)
class Trace:
    """One layer in one direction. Steps are in the order of the words, (T, B, ...)."""

    before: State  # what each step started from
    after: Tensor  # the hidden state that it ended with
    weights: Tensor  # of the slots in its attention
    content: Tensor  # what they said


Layers = list[list[Trace]]
"""By layer and direction."""


def trace(cell: str, steps: Tensor, direction: Direction, held: State | None = None) -> Trace:
    """Walk through `steps` with a memory. With `held`, the first units of a step's state are put to these before it."""
    assert direction.memory is not None, "a trace is for layers with slots"
    running, made = direction.state, {}
    order = range(len(steps))
    for t in reversed(order) if direction.reverse else order:
        if held is not None:
            pairs = zip(held, running, strict=True)
            running = tuple(torch.cat((old[t], now[:, old.shape[-1] :]), dim=-1) for old, now in pairs)
        content, weights = attend(running[0], direction.memory)
        after = CELLS[cell].step(torch.cat((steps[t], content), dim=-1), running, direction.weights)
        made[t] = (after[0], weights, content, *running)
        running = after
    after_, weights, content, *before = (torch.stack(parts) for parts in zip(*(made[t] for t in order), strict=True))
    return Trace(tuple(before), after_, weights, content)


def walk(column: MemoryRecurrent, steps: Tensor, original: Layers | None = None) -> Layers:
    """All layers of a column. With `original`, the column has grown, and each step starts from the original's states.

    New hidden units go on from step to step; what they were there before is nowhere else to be had.
    """
    layers: Layers = []
    for layer in range(column.num_layers):
        zero = steps.new_zeros(steps.shape[1], column.hidden_size)
        first = (zero,) * CELLS[column.cell].states
        olds = [None] * column.num_directions if original is None else original[layer]
        traces = [
            trace(
                column.cell,
                steps,
                Direction(first, column._weights(layer, number), column.bank(layer, number).memory, number == 1),
                None if old is None else old.before,
            )
            for number, old in enumerate(olds)
        ]
        layers.append(traces)
        steps = torch.cat(_outputs(traces, olds), dim=-1)
    return layers


def _outputs(traces: Sequence[Trace], olds: Sequence[Trace | None]) -> list[Tensor]:
    """What the next layer reads: the original's units as they were, and the new ones."""
    return [
        new.after if old is None else torch.cat((old.after, new.after[..., old.after.shape[-1] :]), dim=-1)
        for new, old in zip(traces, olds, strict=True)
    ]
