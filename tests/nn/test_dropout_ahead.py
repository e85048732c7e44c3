"""Dropout with numbers that a thread draws, against torch's own: the same bits, and the same generator afterwards."""

import threading
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.nn.dropout_ahead import PIECE, DropoutAhead, draws_alike

pytestmark = pytest.mark.skipif(not draws_alike(), reason="torch draws by another library on this processor")

RATE = 0.1
HEADS = (2, 3, 5, 8)  # texts, heads, places, size
TAKEN = 2 * 5 * 24 + 2 * 3 * 5 * 5 + 2 * PIECE + 7


def layers(kind: torch.dtype, rate: float = RATE) -> Callable[[], list[Tensor]]:
    """Dropout of states, of attention with a mask, and of more numbers than are drawn at a time."""
    drawn = torch.Generator().manual_seed(2)
    x = torch.randn(2, 5, 24, generator=drawn).to(kind).requires_grad_()
    query = torch.randn(HEADS, generator=drawn).to(kind).requires_grad_()
    long = torch.randn(2 * PIECE + 7, generator=drawn).to(kind)
    mask = torch.zeros(2, 1, 1, 5, dtype=kind)
    mask[1, ..., 3:] = -torch.inf
    mask = mask.expand(2, 1, 5, 5)

    def run() -> list[Tensor]:
        states = F.dropout(x, RATE)
        read = F.scaled_dot_product_attention(query, query, query * 2, attn_mask=mask, dropout_p=rate)
        more = F.dropout(long, RATE)
        gradients = torch.autograd.grad(states.float().sum() + read.float().square().sum(), (x, query))
        untouched = F.dropout(x, RATE, training=False)
        return [states, read, more, *gradients, untouched]

    return run


def same(run: Callable[[], list[Tensor]], count: int) -> int:
    """Whether both give the same bits and leave the same generator; returns what was taken."""
    torch.manual_seed(1)
    expected, state = run(), torch.get_rng_state()
    torch.manual_seed(1)
    with DropoutAhead(RATE, count) as ahead:
        found = run()
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, expected, strict=True))
    assert torch.equal(torch.get_rng_state(), state)
    return ahead.taken


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [0, 1, TAKEN - 1, TAKEN, TAKEN + 1, TAKEN + 200 * PIECE])
def test_masks_are_those_that_torch_draws_however_many_were_expected(kind, count):
    assert same(layers(kind), count) == TAKEN


@pytest.mark.parametrize("count", [0, TAKEN])
def test_torch_draws_where_something_is_of_another_rate(count):
    assert same(layers(torch.float32, rate=0.3), count) == 0


def test_an_error_leaves_the_generator_where_torch_would_have_and_no_thread():
    x = torch.ones(10)
    torch.manual_seed(1)
    F.dropout(x, RATE)
    state = torch.get_rng_state()
    torch.manual_seed(1)

    def fail() -> None:
        with DropoutAhead(RATE, 300 * PIECE):
            F.dropout(x, RATE)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(thread.name == "dropout" for thread in threading.enumerate())
