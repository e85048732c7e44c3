"""From examples to batches: who is together, and what a batch's tensors hold."""

import random

import pytest
import torch

from memgrow.data.batches import Encoded, by_tokens, collate, shuffled

CPU = torch.device("cpu")


def dialogues(count: int, answered: bool = True) -> Encoded:
    rng = random.Random(0)
    texts = [
        tuple([rng.randrange(2, 99)] * max(1, round(rng.lognormvariate(2, 1))) for _ in "mr") for _ in range(count)
    ]
    return Encoded(texts, [-1] * count, answered)


def steps(data: Encoded, batches: list[list[int]]) -> int:
    """The number of steps that reader and writer take, one after the other."""
    return sum(max(len(data.texts[index][side]) for index in batch) for batch in batches for side in (0, 1))


def test_replies_and_messages_alike_are_of_similar_length_so_that_batches_have_fewer_steps():
    data, pairs = dialogues(4000), dialogues(4000, answered=False)
    batches = shuffled(data, 16, seed=3, turn=0)
    assert sorted(index for batch in batches for index in batch) == list(range(4000))
    assert steps(data, batches) < 0.9 * steps(data, shuffled(pairs, 16, seed=3, turn=0))


@pytest.mark.parametrize("answered", [True, False])
def test_a_batch_holds_every_text_and_nothing_behind_it(answered):
    data = dialogues(50, answered)
    indices = random.Random(1).sample(range(50), 20)
    batch = collate(data, indices, CPU)
    rows = [data.texts[index][side] for side in (0, 1) for index in indices]
    assert batch.lengths.tolist() == list(map(len, rows))
    for words, row in zip(batch.words.tolist(), rows, strict=True):
        assert words == row + [0] * (len(words) - len(row))
    assert batch.words.shape[1] == max(map(len, rows))
    assert batch.words.dtype == batch.lengths.dtype == torch.long
    assert batch.examples.tolist() == indices


@pytest.mark.parametrize("most", [1, 40, 1000])
def test_batches_by_tokens_have_every_example_once_and_no_more_tokens_than_allowed(most):
    data = Encoded([([2] * (1 + (n * 37) % 23), [3] * (1 + n % 5)) for n in range(100)], [0] * 100)
    batches = list(by_tokens(data, most))
    assert sorted(index for batch in batches for index in batch) == list(range(100))
    for batch in batches:
        assert len(batch) == 1 or 2 * len(batch) * max(map(data.length, batch)) <= most
    longest = [data.length(batch[0]) for batch in batches]
    assert longest == sorted(longest, reverse=True)
    assert list(by_tokens(Encoded([], []), most)) == []
