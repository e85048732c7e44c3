"""The training loop: batches, rates, early stopping, divergence."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memgrow.data import synthetic_stream
from memgrow.data.batches import Encoded, by_length, shuffled
from memgrow.errors import SettingsError
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from memgrow.training import loop
from memgrow.training.settings import FINE_TUNING, TrainingSettings
from tests.support.breaking import Plug


def lengths(*sizes: int) -> Encoded:
    return Encoded([([2] * size, [3] * 2) for size in sizes], [0] * len(sizes))


def make(tiny, **training) -> Learner:
    return Learner.create("finetune", model=tiny, training=TrainingSettings(**training), device="cpu")


def test_an_epoch_has_every_example_once_in_batches_of_similar_length():
    data = lengths(*(1 + (n * 37) % 50 for n in range(1000)))
    batches = shuffled(data, 10, seed=1, turn=0)
    assert sorted(index for batch in batches for index in batch) == list(range(1000))
    spread = [max(map(data.length, batch)) - min(map(data.length, batch)) for batch in batches]
    assert sum(spread) / len(spread) < 3
    firsts = [data.length(batch[0]) for batch in batches]
    assert firsts != sorted(firsts), "batches must not come from short to long"


def test_seed_and_epoch_decide_the_order():
    data = lengths(*range(1, 101))
    assert list(shuffled(data, 8, seed=1, turn=0)) == list(shuffled(data, 8, seed=1, turn=0))
    assert list(shuffled(data, 8, seed=1, turn=0)) != list(shuffled(data, 8, seed=2, turn=0))
    assert list(shuffled(data, 8, seed=1, turn=0)) != list(shuffled(data, 8, seed=1, turn=1))
    assert list(by_length(lengths(5, 1, 9, 3), 3)) == [[1, 3, 0], [2]]


def test_training_stops_when_validation_stops_rising_and_keeps_the_best_epoch(stream, tiny):
    learner = make(tiny, rate=0.01, epochs=50, patience=3)
    stage = learner.adapt(stream[0])
    assert stage.epochs == stage.best_epoch + 3 < 50
    assert learner.evaluate(stream[0], split="validation")[stream[0].name] == pytest.approx(stage.validation)
    assert len(stage.curve.loss) == len(stage.curve.validation) == stage.epochs


def test_perfect_validation_ends_training_with_the_bits_that_waiting_would_keep(stream, tiny, monkeypatch):
    easy = replace(stream[0], validation=stream[0].train[:1])
    ended, waited = (make(tiny, rate=0.01, epochs=12, patience=12) for _ in range(2))
    stage = ended.adapt(easy)
    assert stage.validation == 1.0
    assert stage.epochs == stage.best_epoch < 12
    monkeypatch.setattr(loop, "PERFECT", 2.0)
    assert waited.adapt(easy).epochs == 12
    weights = ended.trained().state_dict()
    assert all(torch.equal(weights[name], one) for name, one in waited.trained().state_dict().items())


def test_training_learns(stream):
    sizes = ModelSettings(embedding=16, hidden=16, slots=8, perceptron=32)
    learner = make(sizes, rate=0.01, epochs=40, patience=40)
    domain = replace(stream[0], validation=stream[0].train)
    learner.adapt(domain)
    assert learner.evaluate(domain, split="train")[domain.name] > 0.9


def test_gradients_are_clipped(stream, tiny, monkeypatch):
    norms = []
    step = torch.optim.Adam.step

    def watched(self, *given, **more):
        gradients = [p.grad.flatten() for group in self.param_groups for p in group["params"] if p.grad is not None]
        norms.append(torch.cat(gradients).norm().item())
        return step(self, *given, **more)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    make(tiny, epochs=1, clip=1e-3).adapt(stream[0])
    assert max(norms) <= 1.001e-3


def test_divergence_is_one_sentence_and_leaves_the_model_alone(stream, tiny, tmp_path):
    learner = make(tiny, rate=0.01, epochs=1)
    learner.adapt(stream[0], folder=tmp_path / "model")
    before = {name: tensor.clone() for name, tensor in learner.trained().state_dict().items()}
    learner.training = TrainingSettings(rate=1e38, epochs=40, patience=40, clip=1e30)
    with pytest.raises(SettingsError, match="lower the rate"):
        learner.adapt(stream[1], folder=tmp_path / "model")
    assert all(torch.equal(before[name], one) for name, one in learner.trained().state_dict().items())
    assert Learner.load(tmp_path / "model", "cpu").history.domains == (stream[0].name,)


def test_progress_reports_every_epoch(stream, tiny):
    plug = Plug()
    stage = make(tiny, epochs=2, patience=5).adapt(stream[0], progress=plug)
    ends = [step for step in plug.steps if step.batch == step.batches]
    assert [step.epoch for step in ends] == [1, 2]
    assert [step.validated for step in ends] == list(stage.curve.validation)


@pytest.mark.parametrize(("examples", "epochs"), [(1, 500), (60, 9), (140, 4), (249, 3), (250, 2), (10_000, 2)])
def test_auto_patience_depends_on_the_number_of_validation_examples(examples, epochs):
    assert TrainingSettings(patience="auto").patience_for(examples) == epochs
    assert TrainingSettings(patience=3).patience_for(examples) == 3


@given(batches=st.integers(1, 300), validation=st.integers(1, 1000), patience=st.integers(1, 600) | st.just("auto"))
def test_auto_epochs_of_a_first_domain_are_ten_within_500_steps_and_150_steps_at_least(batches, validation, patience):
    settings = replace(FINE_TUNING, epochs="auto", patience=patience)
    later, first = (settings.resolve(batches, validation, first) for first in (False, True))
    assert later == replace(settings, epochs=5)
    assert first.epochs >= 5
    steps = first.epochs * batches
    assert steps >= 150
    assert first.epochs <= 10 or steps < 150 + batches
    assert first.epochs == 5 or steps <= 500
    if first.epochs > 5:
        assert first.warm_up_steps(batches) == first.warm_up == min(settings.warm_up, steps // 10)


@pytest.mark.parametrize("select", ["best", "last"])
def test_the_weights_of_the_best_epoch_or_of_the_last_one_are_taken(select):
    domain = synthetic_stream(domains=1, train=60, validation=20, test=20)[0]
    training = TrainingSettings(rate=0.05, epochs=6, patience=1, select=select)
    learner = Learner.create("F", model=ModelSettings(embedding=6, hidden=4, slots=2, perceptron=4), training=training)
    stage = learner.adapt(domain)
    if select == "last":
        assert stage.epochs == stage.best_epoch == 6
        assert stage.validation == stage.curve.validation[-1]
    else:
        assert stage.validation == max(stage.curve.validation)
        assert stage.epochs <= stage.best_epoch + 1
    assert learner.evaluate(domain, "validation")[domain.name] == stage.validation


@given(epochs=st.integers(1, 20), batches=st.integers(1, 100), schedule=st.sampled_from(["constant", "linear"]))
def test_rates_rise_over_the_warm_up_and_fall_to_zero_if_linear(epochs, batches, schedule):
    settings, steps = replace(FINE_TUNING, epochs=epochs, schedule=schedule), epochs * batches
    rates = [settings.rate_factor(step, batches) for step in range(steps)]
    assert max(rates) >= (1 if schedule == "constant" else 2 / 3)
    assert settings.warm_up_steps(batches) <= max(steps // 3, 0)
    if schedule == "linear" and steps > 3:
        assert rates[-1] <= 1 / steps + 1e-9
