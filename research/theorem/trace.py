"""The distance by which growth moves what a model makes of a text: the states at each word, and the text's vector."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from memgrow.errors import ModelError
from memgrow.models import Model, RecurrentEncoder
from memgrow.nn import MemoryRecurrent
from memgrow.nn.kernels import CELLS, Direction, State, attend
from research.theorem.closed_form import assumption_holds


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
    """Run a cell over `steps`. With `held`, the first units of a step's state are put to these before it."""
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


def trace_layers(column: MemoryRecurrent, steps: Tensor, original: Layers | None = None) -> Layers:
    """All layers of a column. With `original`, the column has grown, and each step starts from the original's states.

    New hidden units go on from step to step; what they were there before is nowhere else to be had.
    """
    layers: Layers = []
    for layer in range(column.num_layers):
        zero = steps.new_zeros(steps.shape[1], column.hidden_size)
        first = (zero,) * CELLS[column.cell].states
        olds = [None] * column.num_directions if original is None else original[layer]
        directions = column.directions(layer, [first] * column.num_directions)
        traces = [
            trace(column.cell, steps, direction, None if old is None else old.before)
            for direction, old in zip(directions, olds, strict=True)
        ]
        layers.append(traces)
        steps = torch.cat(_outputs(traces, olds), dim=-1)
    return layers


def _outputs(traces: Sequence[Trace], olds: Sequence[Trace | None]) -> list[Tensor]:
    """The input of the next layer: the original's units as they were, and the new ones."""
    return [
        new.after if old is None else torch.cat((old.after, new.after[..., old.after.shape[-1] :]), dim=-1)
        for new, old in zip(traces, olds, strict=True)
    ]


@dataclass(frozen=True)
class Seen:
    """A model's states of its newest column and text vectors, for texts of one length."""

    layers: Layers  # one step at a time, see `trace_layers`
    states: tuple[Tensor, ...]  # as in use, of the last layer in each direction: (T, B, H)
    vectors: Tensor  # (B, S)


def newest_column(model: Model) -> MemoryRecurrent:
    """The layer whose states are followed: the theorem is about recurrent networks."""
    if not isinstance(model.encoder, RecurrentEncoder):
        raise ModelError(f"the theorem is about recurrent networks, and {model.settings.cell!r} is none")
    return model.encoder.newest


@torch.no_grad()
def look(model: Model, words: Tensor, original: Seen | None = None) -> Seen:
    """Read texts of one length (B, T); as the grown form of a model that has seen `original`, or for itself."""
    column = newest_column(model)
    with _overheard(column) as heard:
        vectors = model.encoder(words, torch.full((len(words),), words.shape[1]))
    inputs, outputs = (_by_step(packed) for packed in heard)
    layers = trace_layers(column, inputs, None if original is None else original.layers)
    return Seen(layers, outputs.chunk(column.num_directions, dim=-1), vectors)


@dataclass(frozen=True)
class Moved:
    """Sums over `words` (once for each direction) and over `texts`, of entries that were there before growth."""

    words: int = 0
    step: float = 0.0  # |h' - h|^2 by one step from the old states
    run: float = 0.0  # |h' - h|^2 as it adds up along the text
    state: float = 0.0  # |h|^2
    texts: int = 0
    text: float = 0.0  # |v' - v|^2 of text vectors
    vector: float = 0.0  # |v|^2
    content: float = 0.0  # |c' - c|^2 of what the memory says, in one step
    silenced: float = 0.0  # |p c|^2: the part of it that is the old slots' loss of voice
    read: float = 0.0  # slots that were in effect read before growth: 1 over the sum of squared weights
    newcomers: float = 0.0  # |h~|^2 of the new units that a step reads
    holds: float = 0.0  # where the theorem's assumption on attention does
    share: float = 0.0  # of attention, for the new slots
    shift: float = 0.0  # sum of squared changes of the slots' weights

    def __add__(self, other: "Moved") -> "Moved":
        return Moved(**{name: value + getattr(other, name) for name, value in vars(self).items()})


def compare(before: Seen, after: Seen, kept: Sequence[int]) -> Moved:
    """The distances by which texts have moved; `kept` says where a text's vector has its old entries."""
    total = Moved(
        texts=len(before.vectors),
        text=_squares(after.vectors[:, kept] - before.vectors),
        vector=_squares(before.vectors),
    )
    directions = zip(before.layers[-1], after.layers[-1], before.states, after.states, strict=True)
    for old, new, old_state, new_state in directions:
        size = old_state.shape[-1]
        total += _attention(old, new) + Moved(
            words=old_state.shape[0] * old_state.shape[1],
            step=_squares(new.after[..., :size] - old.after),
            run=_squares(new_state[..., :size] - old_state),
            state=_squares(old_state),
            newcomers=_squares(new.before[0][..., size:]),
        )
    return total


def kept_entries(model: Model, hidden: int) -> list[int]:
    """The places of the old entries in a text's vector when the model will have grown by `hidden` units."""
    kept: list[int] = []
    at = 0
    for size, extra in model.encoder.layout(hidden):
        kept += range(at, at + size)
        at += size + extra
    return kept


def _attention(old: Trace, new: Trace) -> Moved:
    slots = old.weights.shape[-1]
    share = new.weights[..., slots:].double().sum(-1)
    lost, gained = new.weights[..., :slots] - old.weights, new.weights[..., slots:]
    return Moved(
        read=float((1 / old.weights.double().square().sum(-1)).sum()),
        content=_squares(new.content - old.content),
        silenced=_squares(share.unsqueeze(-1) * old.content),
        holds=float(assumption_holds(share).sum()),
        share=float(share.sum()),
        shift=_squares(lost) + _squares(gained),
    )


def _squares(values: Tensor) -> float:
    return float(values.double().square().sum())


def _by_step(packed: PackedSequence) -> Tensor:
    """Packed texts of one length as (T, B, I), in their own order."""
    steps = packed.data.view(len(packed.batch_sizes), -1, packed.data.shape[-1])
    return steps if packed.unsorted_indices is None else steps[:, packed.unsorted_indices]


@contextmanager
def _overheard(column: MemoryRecurrent) -> Iterator[list[PackedSequence]]:
    """The inputs and outputs of a column, recorded while the model is used."""
    heard: list[PackedSequence] = []
    handle = column.register_forward_hook(lambda _, given, answer: heard.extend((given[0], answer[0])))
    try:
        yield heard
    finally:
        handle.remove()
