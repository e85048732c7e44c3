"""What growth does to a trained model, slots against hidden units."""

from dataclasses import replace

import pytest
import torch

from memgrow.data import Domain, Example
from memgrow.errors import DataError, ModelError
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


def test_matched_units_add_as_many_parameters_as_slots(learner, stream):
    effects = measure(learner, stream[0].test[:2], slots=200, draws=2).effects
    assert effects["units, matched"].hidden > 1
    assert effects["units, matched"].parameters == pytest.approx(effects["slots"].parameters, rel=0.1)


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


@torch.no_grad()
def test_where_new_slots_say_nothing_all_that_changes_is_the_voice_of_the_old_ones(learner, words):
    model = learner.trained()
    after, seen = grown(model, {"slots": 6}, seed=1), look(model, words)
    for bank in after.encoder.newest.banks:
        bank.values[-6:] = 0
    moved = compare(seen, look(after, words, seen), kept_entries(model, 0))
    assert moved.content == pytest.approx(moved.silenced, rel=1e-4)
    assert moved.content > 0


def test_the_learner_and_the_callers_chance_stay_as_they_are(learner, stream):
    weights = {name: tensor.clone() for name, tensor in learner.trained().state_dict().items()}
    chance = torch.random.get_rng_state()
    measure(learner, stream[0].test[:4], draws=2)
    assert torch.equal(torch.random.get_rng_state(), chance)
    now = learner.trained().state_dict()
    assert now.keys() == weights.keys()
    assert all(torch.equal(now[name], tensor) for name, tensor in weights.items())


def test_the_seed_decides_what_is_drawn(learner, stream):
    first, again, other = (measure(learner, stream[0].test[:4], draws=2, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.effects != other.effects


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "sizes"),
    [
        ("F+M+V", {"cell": "gru", "pooling": "last"}),
        ("F+M+V", {"cell": "rnn", "bidirectional": False}),
        ("F+M+V", {"layers": 2, "slot_size": 3}),
        ("Progressive", {}),
    ],
    ids=str,
)
def test_every_kind_of_model_can_be_measured(stream, tiny, short, method, sizes):
    learner = Learner.create(method, model=replace(tiny, **sizes), training=replace(short, epochs=1), device="cpu")
    learner.learn(stream[:2])
    for effect in measure(learner, stream[0].test[:6], slots=3, draws=2).effects.values():
        assert effect.step.mean > 0
        assert effect.text.mean > 0


def test_single_texts_can_be_measured_too(tiny, short):
    examples = tuple(Example(f"a {word} thing", label=word) for word in ("good", "bad")) * 6
    learner = Learner.create(model=tiny, training=short, device="cpu")
    learner.adapt(Domain("things", examples, examples, examples))
    assert measure(learner, examples, draws=2).words == 2 * 3 * len(examples)


def test_a_model_without_slots_and_a_domain_without_examples_are_refused(learner, stream, tiny, short):
    plain = Learner.create("F", model=replace(tiny, slots=0), training=replace(short, epochs=1), device="cpu")
    plain.adapt(stream[0])
    with pytest.raises(ModelError, match="no slots"):
        measure(plain, stream[0].test)
    with pytest.raises(DataError, match="harbour has no test examples"):
        measure(learner, (), domain="harbour")
