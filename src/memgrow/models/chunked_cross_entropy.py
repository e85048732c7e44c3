"""The cross-entropy of a large vocabulary in chunks of rows: no tensor of all rows and all words is built.

The loss is a sum, so that each row's gradient is known as soon as its scores are: it is computed in the forward pass,
in the memory of the scores, and nothing is computed twice.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from memgrow.nn.kernels.autograd import Gradients, first_order

BUDGET = 2**24  # numbers in a chunk of the scores: 64 MiB
LARGER = {"cuda": 2**26}  # where a chunk costs more to start than its memory matters: 256 MiB


def chunked_cross_entropy(
    rows: Tensor, table: Tensor, bias: Tensor, targets: Tensor, budget: int | None = None
) -> tuple[Tensor, Tensor]:
    """The sum of -log softmax(rows @ table' + bias)[targets], and its terms (rows), which carry no gradient."""
    budget = budget or LARGER.get(rows.device.type, BUDGET)
    chunks = min(len(rows), -(-len(rows) * len(table) // budget))
    with torch.autocast(rows.device.type, enabled=False):
        given = (rows.to(table.dtype), table, bias)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given):
            total, each = ChunkedCrossEntropy.apply(*given, targets, chunks)  # type: ignore[no-untyped-call]
            return total, each
        each, _ = _by_chunks(*given, targets, chunks, (False, False, False))
        return each.sum(), each


class ChunkedCrossEntropy(torch.autograd.Function):
    """The sum, whose gradients wait for what it is multiplied by, and its terms."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, table: Tensor, bias: Tensor, targets: Tensor, chunks: int) -> Any:
        each, gradients = _by_chunks(rows, table, bias, targets, chunks, ctx.needs_input_grad[:3])
        ctx.save_for_backward(*gradients, rows, table, bias)
        ctx.mark_non_differentiable(each)
        return each.sum(), each

    @staticmethod
    @first_order("the loss by chunks of rows", "take torch.nn.functional.cross_entropy of the scores")
    def backward(ctx: Any, saved: Sequence[Tensor | None], d_total: Tensor, d_each: Tensor) -> Gradients:
        return (*(None if gradient is None else gradient * d_total for gradient in saved[:3]), None, None)


def _by_chunks(
    rows: Tensor, table: Tensor, bias: Tensor, targets: Tensor, chunks: int, wanted: tuple[bool, bool, bool]
) -> tuple[Tensor, list[Tensor | None]]:
    """The terms, and the gradients of their sum by rows, table and bias where they are wanted."""
    each = rows.new_empty(len(rows))
    fresh = (torch.empty_like, torch.empty_like, torch.zeros_like)
    d_rows, d_table, d_bias = (
        make(tensor) if asked else None for make, tensor, asked in zip(fresh, (rows, table, bias), wanted, strict=True)
    )
    at = 0
    for part, target in zip(rows.chunk(chunks), targets.chunk(chunks), strict=True):
        here = slice(at, at := at + len(part))
        scores = torch.addmm(bias, part, table.t())  # (chunk, words), and in its place all that follows from it
        own, peak = scores.gather(1, target.unsqueeze(1)), scores.amax(1, keepdim=True)
        total = scores.sub_(peak).exp_().sum(1, keepdim=True)
        each[here] = (total.log() + peak - own).squeeze(1)
        if not any(wanted):
            continue
        gradient = scores.div_(total)
        gradient.scatter_add_(1, target.unsqueeze(1), gradient.new_full((len(part), 1), -1.0))
        if d_rows is not None:
            torch.mm(gradient, table, out=d_rows[here])
        if d_table is not None:
            d_table.addmm_(gradient.t(), part, beta=1 if here.start else 0)  # the first chunk fills the fresh memory
        if d_bias is not None:
            d_bias.add_(gradient.sum(0))
    return each, [d_rows, d_table, d_bias]
