"""The cross-entropy in pieces is the plain one: values and gradients, within its budget of memory."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from memgrow.models.chunked_cross_entropy import chunked_cross_entropy

ROWS, WORDS, SIZE = 23, 41, 5


@pytest.fixture
def given():
    torch.manual_seed(0)
    tensors = (torch.randn(ROWS, SIZE), torch.randn(WORDS, SIZE), torch.randn(WORDS))
    return [tensor.double().requires_grad_() for tensor in tensors], torch.randint(WORDS, (ROWS,))


@pytest.mark.parametrize("budget", [1, WORDS, 3 * WORDS + 1, ROWS * WORDS - 1, 10**9])
def test_values_and_gradients_are_those_of_the_plain_way(given, budget):
    (rows, table, bias), targets = given
    plain = F.cross_entropy(F.linear(rows, table, bias), targets, reduction="none")
    expected = torch.autograd.grad(plain.sum() / 7, (rows, table, bias))
    torch.use_deterministic_algorithms(True)  # torch then fills all fresh memory with NaN
    try:
        total, each = chunked_cross_entropy(rows, table, bias, targets, budget)
        found = torch.autograd.grad(total / 7, (rows, table, bias))
        with torch.no_grad():
            quiet, _ = chunked_cross_entropy(rows, table, bias, targets, budget)
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(each, plain.detach())
    torch.testing.assert_close(total, plain.sum())
    torch.testing.assert_close(quiet, plain.sum().detach())
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


class Largest(TorchDispatchMode):
    """Notes the largest tensor that comes to be."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, list | tuple) else [made]:
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return made


@pytest.mark.parametrize("trains", [True, False])
def test_no_tensor_is_larger_than_the_budget_and_the_weights(given, trains):
    (rows, table, bias), targets = given
    with Largest() as largest, torch.set_grad_enabled(trains):
        total, _ = chunked_cross_entropy(rows, table, bias, targets, budget=4 * WORDS)
        if trains:
            total.backward()
    assert 4 * WORDS <= largest.numbers <= max(4 * WORDS, table.numel())


def test_scores_that_would_overflow_an_exponential_give_finite_numbers(given):
    (rows, table, bias), targets = given
    total, _ = chunked_cross_entropy(rows * 1e4, table, bias, targets, 50)
    gradients = torch.autograd.grad(total, (rows, table, bias))
    assert total.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)
