"""Slots of its own for each row of a batch, as the steps of stepped.py read them.

Texts of many domains are in one batch then, and a step is still one product for each thing that a step computes: a
batched one, of a matrix of slots for each row.
"""

from bisect import bisect_left
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from memgrow.nn.kernels.naive import Memory


def read(memory: Memory, h: Tensor, attention: Tensor, content: Tensor) -> None:
    """Fill in the `attention` (R, N) of states `h` (R, H) to the slots of their rows, and the `content` (R, M)."""
    logits = torch.bmm(h.unsqueeze(1), memory.keys.transpose(1, 2))  # (R, 1, N)
    if memory.bias is not None:
        logits += memory.bias.unsqueeze(1)
    weights = torch.softmax(logits, -1, out=attention.unsqueeze(1))
    content.copy_(torch.bmm(weights, memory.values).squeeze(1))


class Stretches:
    """Slots that are read where they lie: those of a stretch by all rows that read it, in a product for each."""

    def __init__(self, memory: Memory) -> None:
        assert memory.stretches is not None
        rows: dict[tuple[int, ...], list[int]] = {}
        for number, ends in enumerate(memory.stretches.tolist()):
            rows.setdefault(tuple(ends), []).append(number)
        self._groups = [(memory.stretch(*ends), numbers, torch.tensor(numbers)) for ends, numbers in rows.items()]
        self._differ = len({len(slots.keys) for slots, _, _ in self._groups}) > 1

    def read(self, h: Tensor, attention: Tensor, content: Tensor) -> None:
        """As `read`, for the first rows of the batch."""
        if self._differ:
            attention.fill_(-torch.inf)
        read = [(slots, numbers, bisect_left(numbers, len(h)), rows) for slots, numbers, rows in self._groups]
        for slots, numbers, count, rows in read:
            size = len(slots.keys)
            if count == 1:  # nothing is gathered
                own = torch.mv(slots.keys, h[numbers[0]], out=attention[numbers[0], :size])
                if slots.bias is not None:
                    own += slots.bias
            elif count:
                some, keys = h.index_select(0, rows[:count]), slots.keys.t()
                logits = torch.mm(some, keys) if slots.bias is None else torch.addmm(slots.bias, some, keys)
                attention[:, :size].index_copy_(0, rows[:count], logits)
        torch.softmax(attention, -1, out=attention)
        for slots, numbers, count, rows in read:
            size = len(slots.keys)
            if count == 1:
                torch.mv(slots.values.t(), attention[numbers[0], :size], out=content[numbers[0]])
            elif count:
                weights = attention[:, :size].index_select(0, rows[:count])
                content.index_copy_(0, rows[:count], torch.mm(weights, slots.values))


def read_back(memory: Memory, d_content: Tensor, attention: Tensor, d_logits: Tensor, dh: Tensor) -> None:
    """Fill in the gradient of the logits (R, N), and add to dh (R, H) what comes back to the states through them."""
    d_attention = _product(d_content, memory.values.transpose(1, 2))
    d_logits.copy_(torch._softmax_backward_data(d_attention, attention, -1, attention.dtype))
    dh.add_(_product(d_logits, memory.keys))


def gradients(
    memory: Memory, batch_sizes: Sequence[int], h: Tensor, d_content: Tensor, attention: Tensor, d_logits: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Those of keys (B, N, H), values (B, N, M) and biases (B, N): of all steps of a row together."""
    sizes = torch.tensor(batch_sizes)

    def padded(rows: Tensor) -> Tensor:
        return pad_packed_sequence(PackedSequence(rows, sizes), batch_first=True)[0]  # (B, T, ...)

    logits = padded(d_logits)
    d_keys = torch.bmm(logits.transpose(1, 2), padded(h))
    d_values = torch.bmm(padded(attention).transpose(1, 2), padded(d_content))
    return d_keys, d_values, None if memory.bias is None else logits.sum(1)


def _product(rows: Tensor, matrices: Tensor) -> Tensor:
    """Each row (R, A) times its matrix (R, A, B): (R, B). In the other order a CPU takes five times as long."""
    return torch.bmm(rows.unsqueeze(1), matrices).squeeze(1)
