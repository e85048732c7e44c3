"""The loop does what its settings say."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from memgrow.methods.trains import everything
from memgrow.training.plain_stepper import PlainStepper

from memgrow.data import Example
from memgrow.data.batches import Encoded, by_length, collate, encode, shuffled, tokenize_examples
from memgrow.learner import Learner
from memgrow.methods import Plugins
from memgrow.text import Vocabulary
from memgrow.training import loop
from memgrow.training.defaults import FINE_TUNING, RECURRENT, SMALL
from memgrow.training.settings import TrainingSettings


def lengths(*sizes: int) -> Encoded:
    return Encoded([([2] * size, [3] * 2) for size in sizes], [0] * len(sizes))


def test_an_epoch_has_every_example_once_in_batches_of_similar_length():
    data = lengths(*(1 + (n * 37) % 50 for n in range(1000)))
    batches = shuffled(data, 10, seed=1, turn=0)
    assert sorted(index for batch in batches for index in batch) == list(range(1000))
    spread = [max(map(data.length, batch)) - min(map(data.length, batch)) for batch in batches]
    assert sum(spread) / len(spread) < 3
    firsts = [data.length(batch[0]) for batch in batches]
    assert firsts != sorted(firsts), "batches must not come from short to long"


def test_the_seed_decides_the_order():
    data = lengths(*range(1, 101))
    assert shuffled(data, 8, seed=1, turn=0) == shuffled(data, 8, seed=1, turn=0)
    assert shuffled(data, 8, seed=1, turn=0) != shuffled(data, 8, seed=2, turn=0)
    assert shuffled(data, 8, seed=1, turn=0) != shuffled(data, 8, seed=1, turn=1)


def test_prediction_batches_cover_all_from_short_to_long():
    data = lengths(5, 1, 9, 3)
    assert list(by_length(data, 3)) == [[1, 3, 0], [2]]


def test_a_batch_holds_first_texts_then_second_ones():
    vocabulary = Vocabulary(["a", "b", "c"])
    examples = [Example("a b", "c", "yes"), Example("b", "c a b", "no")]
    batch = collate(encode(tokenize_examples(examples, 10), vocabulary, ("no", "yes")), [0, 1], torch.device("cpu"))
    assert batch.words.tolist() == [[2, 3, 0], [3, 0, 0], [4, 0, 0], [4, 2, 3]]
    assert batch.lengths.tolist() == [2, 1, 1, 3]
    assert batch.labels.tolist() == [1, 0]


def test_gradients_are_really_clipped(stream, tiny, short):
    learner = Learner.create(model=tiny, training=short, device="cpu")
    learner.adapt(stream[0])
    model = learner.trained()
    data = encode(tokenize_examples(stream[0].train, 50), learner.vocabulary, learner.labels)
    batch = collate(data, range(16), torch.device("cpu"))
    norms = {}
    for clip in (1e-3, 1e9):
        settings = TrainingSettings(rate=1e-12, clip=clip)
        trains = everything(None, model)
        PlainStepper(model, data, data, settings=settings, trains=trains, plugins=Plugins([])).step(batch)
        norms[clip] = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm().item()
    assert norms[1e-3] == pytest.approx(1e-3, rel=0.01)
    assert norms[1e9] > 1e-2


def test_training_stops_when_validation_no_longer_rises_and_keeps_the_best_epoch(stream, tiny):
    learner = Learner.create(model=tiny, training=TrainingSettings(rate=0.01, epochs=50, patience=3), device="cpu")
    stage = learner.adapt(stream[0])
    assert stage.epochs < 50
    assert stage.epochs == stage.best_epoch + 3
    assert learner.evaluate(stream[0], split="validation")[stream[0].name] == pytest.approx(stage.validation)


def test_training_ends_when_validation_is_perfect_with_the_bits_that_waiting_would_have_kept(stream, tiny, monkeypatch):
    settings = TrainingSettings(rate=0.01, epochs=12, patience=12)
    easy = [replace(domain, validation=domain.train[:1]) for domain in stream[:2]]
    ended, waited = (Learner.create(model=tiny, training=settings, device="cpu") for _ in range(2))
    stages = [ended.adapt(domain) for domain in easy]
    assert all(stage.validation == 1.0 and stage.epochs == stage.best_epoch < 12 for stage in stages)
    monkeypatch.setattr(loop, "PERFECT", 2.0)
    assert [waited.adapt(domain).epochs for domain in easy] == [12, 12]
    weights = ended.trained().state_dict()
    assert all(torch.equal(weights[name], one) for name, one in waited.trained().state_dict().items())


def test_training_learns(stream):
    from memgrow.models import ModelSettings

    settings = ModelSettings(embedding=16, hidden=16, slots=8, perceptron=32)
    learner = Learner.create(model=settings, training=TrainingSettings(rate=0.01, epochs=40, patience=40), device="cpu")
    domain = replace(stream[0], validation=stream[0].train)  # so that the epoch that learnt most is kept
    learner.adapt(domain)
    assert learner.evaluate(domain, split="train")[domain.name] > 0.9


@pytest.mark.parametrize(("examples", "epochs"), [(1, 500), (60, 9), (140, 4), (249, 3), (250, 2), (10_000, 2)])
def test_patience_minds_how_few_validation_examples_there_are(examples, epochs):
    assert TrainingSettings(patience="auto").waiting(examples) == epochs
    assert TrainingSettings(patience=3).waiting(examples) == 3


def test_training_waits_as_long_as_its_validation_part_asks_for(stream, tiny):
    settings = TrainingSettings(rate=1e-12, epochs=50, batch=100, patience="auto")  # nothing gets better, ever
    domain = replace(stream[0], train=stream[0].train[:9], validation=(stream[0].validation * 3)[:70])
    assert Learner.create("F", model=tiny, training=settings, device="cpu").adapt(domain).epochs == 1 + 8


def test_what_users_get_is_patient():
    assert TrainingSettings().patience == 2
    assert RECURRENT.patience == SMALL.training.patience == "auto"


@given(warm_up=st.integers(0, 500), epochs=st.integers(1, 100), batches=st.integers(1, 300))
def test_the_warm_up_is_at_most_a_third_of_all_steps(warm_up, epochs, batches):
    settings = TrainingSettings(warm_up=warm_up, epochs=epochs)
    steps = epochs * batches
    assert settings.warm_up_steps(batches) == (warm_up if steps >= 3 * warm_up else steps // 3)


@given(batches=st.integers(1, 300), validation=st.integers(1, 1000), patience=st.integers(1, 600) | st.just("auto"))
def test_epochs_auto_are_five_and_150_steps_at_least_of_a_model_that_begins(batches, validation, patience):
    settings = replace(FINE_TUNING, epochs="auto", patience=patience)
    later, first = (settings.settled(batches, validation, first) for first in (False, True))
    assert later == replace(settings, epochs=5)
    if batches >= 30:
        assert first == later
        return
    steps = first.epochs * batches
    assert 150 <= steps < 150 + batches
    assert first.warm_up_steps(batches) == first.warm_up == steps // 10
    assert first.patience == max(settings.waiting(validation), -(-500 // validation), 2)
    assert replace(first, epochs="auto", warm_up=settings.warm_up, patience=patience) == settings
    assert settings.epochs_for(batches, first=True) == first.epochs


@given(epochs=st.integers(1, 100), batches=st.integers(1, 300), first=st.booleans())
def test_a_number_of_epochs_is_what_it_is(epochs, batches, first):
    settings = replace(FINE_TUNING, epochs=epochs)
    assert settings.settled(batches, 10, first) == settings


@given(epochs=st.integers(1, 20), batches=st.integers(1, 100), schedule=st.sampled_from(["constant", "linear"]))
def test_few_rows_are_trained_on_at_rates_that_have_risen(epochs, batches, schedule):
    settings, steps = replace(FINE_TUNING, epochs=epochs, schedule=schedule), epochs * batches
    rates = [settings.rate_factor(step, batches) for step in range(steps)]
    assert max(rates) >= (1 if schedule == "constant" else 2 / 3)
    if steps >= 160:  # as many as the shortest training on record has: its bits stay
        falling = [1.0 if schedule == "constant" else 1 - step / steps for step in range(steps)]
        assert rates == [min(1.0, (step + 1) / 51) * falling[step] for step in range(steps)]
