"""Drawn replies follow the model's probabilities, the seed, and nothing else."""

import pytest
import torch

from memgrow.models import ModelSettings, build
from memgrow.models.decoding import decode

WORDS = 7


@pytest.fixture
def model():
    torch.manual_seed(2)
    model = build("reply", ModelSettings(cell="gru", embedding=6, hidden=5, slots=4), WORDS)
    with torch.no_grad():
        model.heads[-1].output.weight.mul_(4)
    return model


def drawn(model, words, seed=0, temperature=1.0, max_words=8):
    generator, lengths = torch.Generator().manual_seed(seed), torch.full((len(words),), words.shape[1])
    return decode(model, words, lengths, temperature=temperature, max_words=max_words, generator=generator)


def messages(count):
    return torch.randint(2, WORDS, (count, 4), generator=torch.Generator().manual_seed(9))


def test_one_seed_one_result_and_another_seed_another(model):
    words = messages(20)
    assert drawn(model, words) == drawn(model, words)
    assert drawn(model, words) != drawn(model, words, seed=1)


def test_the_numbers_come_from_the_generator_alone(model):
    torch.manual_seed(0)
    state = torch.get_rng_state()
    drawn(model, messages(3))
    assert torch.equal(torch.get_rng_state(), state)


def test_neighbours_never_matter(model):
    words, other = messages(30), messages(60)[30:]
    other[::3] = words[::3]
    first, second = drawn(model, words), drawn(model, other)
    assert [r.words for r in first[::3]] == [r.words for r in second[::3]]
    assert [r.score for r in first[::3]] == pytest.approx([r.score for r in second[::3]], rel=1e-5)
    assert drawn(model, words[:1])[0].words == first[0].words, "the first of a batch is drawn as it is alone"


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_words_come_as_often_as_the_model_says(model, temperature):
    one = torch.tensor([[3, 5, 2]])
    count = 6000
    replies = drawn(model, one.expand(count, -1), temperature=temperature, max_words=1)
    firsts = torch.tensor([reply.words[0] if reply.words else 0 for reply in replies])
    found = torch.bincount(firsts, minlength=WORDS) / count
    with torch.no_grad():
        message, lengths = one.expand(WORDS, -1), torch.full((WORDS,), 3)
        said = torch.arange(WORDS).unsqueeze(1)
        log = -model(message, lengths, said, torch.ones(WORDS, dtype=torch.long)).tokens[:, 0]
        log[0] = -model(message, lengths, said, torch.zeros(WORDS, dtype=torch.long)).tokens[0, 0]
    log[1] = float("-inf")
    expected = torch.softmax(log / temperature, 0)
    assert (found - expected).abs().max() < 4 * (0.25 / count) ** 0.5
    assert expected[2:].max() < 0.95, "or there would be nothing to see"


def test_what_has_no_probability_is_not_drawn_by_the_smallest_number_either(model, monkeypatch):
    with torch.no_grad():
        model.heads[-1].output.bias[0] = -1e9
    monkeypatch.setattr(torch, "rand", lambda *shape, generator: torch.zeros(shape))
    assert drawn(model, messages(3), max_words=2)[0].words == (2, 2)


def test_a_low_temperature_is_greedy(model):
    words = messages(20)
    greedy = decode(model, words, torch.full((20,), 4), max_words=8)
    assert [r.words for r in drawn(model, words, temperature=1e-5)] == [r.words for r in greedy]
