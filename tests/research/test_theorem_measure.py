"""What growth does to a trained model, slots against hidden units."""

import pytest
import torch

from memgrow.learner import Learner
from research.theorem.measure import GROWTHS, grown, measure
from research.theorem.trace import compare, kept_entries, look


@pytest.fixture(scope="module")
def learner(stream, tiny, short):
    learner = Learner.create("F+M+V", model=tiny, training=short, device="cpu")
    learner.adapt(stream[0])
    return learner


@pytest.fixture(scope="module")
def measured(learner, stream):
    return measure(learner, stream[0].test, domain=stream[0].name, draws=3)


def test_every_way_of_growing_is_measured(measured, stream):
    assert set(measured.effects) == set(GROWTHS)
    assert measured.domain == stream[0].name
    assert measured.examples == len(stream[0].test)
    for effect in measured.effects.values():
        assert 0 < effect.step.mean < measured.state
        assert effect.step.samples == 3
        assert effect.step.error > 0
        assert 0 <= effect.changed.mean <= 1


def test_the_ways_of_growing_are_what_they_are_called(measured, tiny):
    slots, quiet, matched, wide = measured.effects.values()
    assert slots.slots == quiet.slots == tiny.slots
    assert matched.hidden == 1  # no unit at all would be nearer to so few slots, and nothing to compare with
    assert wide.hidden == tiny.hidden
    assert matched.holds is wide.holds is None


def test_as_many_slots_as_there_were_share_the_attention_evenly_before_anything_is_learnt(measured):
    slots, quiet = measured.effects["slots"], measured.effects["quiet slots"]
    assert slots.share is not None
    assert quiet.share is not None
    assert quiet.holds is not None
    assert slots.share.mean == pytest.approx(0.5, abs=0.1)
    assert quiet.share.mean < 0.02
    assert quiet.holds.mean == 1
    assert quiet.step.mean < 0.01 * slots.step.mean


@pytest.fixture(scope="module")
def words(learner):
    sentence = learner.vocabulary.encode(["the", "soup", "was", "hot"])
    return torch.tensor([sentence, sentence[::-1]])


def test_a_model_that_has_not_grown_has_not_moved(learner, words):
    model = learner.trained()
    seen = look(model, words)
    moved = compare(seen, look(model, words, seen), kept_entries(model, 0))
    assert (moved.texts, moved.words) == (2, 2 * 2 * 4)  # texts, directions, words
    assert moved.step + moved.run + moved.text + moved.content + moved.shift < 1e-9


@pytest.mark.parametrize("growth", [{"slots": 6}, {"hidden": 3}], ids=str)
@torch.no_grad()
def test_what_moves_is_what_the_model_puts_out_less_the_new_units(learner, words, growth):
    model = learner.trained()
    after = grown(model, growth, seed=1)
    seen = look(model, words)
    hidden = growth.get("hidden", 0)
    moved = compare(seen, look(after, words, seen), kept_entries(model, hidden))
    size, inputs = model.encoder.newest.hidden_size, model.encoder.embedding(words).transpose(0, 1)
    old, new = (one.encoder.newest(inputs)[0].unflatten(-1, (2, -1))[..., :size] for one in (model, after))
    assert moved.run == pytest.approx(float((new - old).square().sum()), rel=1e-4)
    assert moved.state == pytest.approx(float(old.square().sum()), rel=1e-4)
    assert moved.text == pytest.approx(float((new - old).mean(0).square().sum()), rel=1e-4)
    assert (moved.newcomers > 0) == bool(hidden)
