"""Training that leaves the finite numbers ends at once, with a sentence, and leaves everything as it was."""

import pytest
import torch
from memgrow.lockstep import adapt_together
from memgrow.training.plain_stepper import PlainStepper

from memgrow.errors import SettingsError
from memgrow.learner import Learner
from memgrow.progress import NoProgress
from memgrow.training.settings import TrainingSettings


def make(tiny, rate: float, method: str = "F", seed: int = 0) -> Learner:
    training = TrainingSettings(rate=rate, batch=16, epochs=2)
    return Learner.create(method, model=tiny, training=training, seed=seed, device="cpu")


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")}


@pytest.mark.parametrize("save_every", [0, 600])
def test_a_rate_that_explodes_is_told_with_domain_and_epoch_and_changes_nothing(stream, tiny, tmp_path, save_every):
    learner = make(tiny, 0.01)
    learner.adapt(stream[0], folder=tmp_path / "model")
    saved, weights = files(tmp_path), {n: t.clone() for n, t in learner.trained().state_dict().items()}
    learner.training = TrainingSettings(rate=1e38, batch=16, epochs=2)
    with pytest.raises(
        SettingsError,
        match=f"learning {stream[1].name} failed in epoch 1, by step [123] of 3,.*choose a rate below 1e\\+38",
    ):
        learner.adapt(stream[1], folder=tmp_path / "model", save_every=save_every)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in learner.trained().state_dict().items())
    assert files(tmp_path) == saved
    learner.training = TrainingSettings(rate=0.01, batch=16, epochs=2)
    learner.adapt(stream[1], folder=tmp_path / "model")
    assert Learner.load(tmp_path / "model").history.domains == stream.names[:2]


def test_a_loss_that_is_no_number_is_seen_as_soon_as_it_is_reported(stream, tiny, monkeypatch):
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)
    seen = []

    class Watch(NoProgress):
        def step(self, step):
            seen.append(step)

    learn = PlainStepper.learn

    def spoilt(self, indices):
        learn(self, indices)
        self.running += torch.tensor([float("nan"), 0.0]) if len(seen) == 1 else 0.0

    monkeypatch.setattr(PlainStepper, "learn", spoilt)
    with pytest.raises(SettingsError, match="in epoch 1"):
        make(tiny, 0.01).adapt(stream[0], progress=Watch())
    assert len(seen) == 1


def test_a_weight_that_is_no_number_after_the_last_step_of_an_epoch_is_not_kept(stream, tiny, monkeypatch):
    monkeypatch.setattr(PlainStepper, "score", lambda self: pytest.fail("it was scored"))
    epoch = PlainStepper.epoch

    def spoilt(self, *given):
        yield from epoch(self, *given)
        next(iter(self.optimiser.parameters.values())).data.view(-1)[0] = float("inf")

    monkeypatch.setattr(PlainStepper, "epoch", spoilt)
    with pytest.raises(SettingsError, match="no longer a finite number"):
        make(tiny, 0.01, "progressive").adapt(stream[0])


def test_models_that_learn_together_are_told_of_one_that_fails(stream, tiny):
    learners = [make(tiny, 1e38, seed=seed) for seed in range(2)]
    with pytest.raises(SettingsError, match="for one of 2 models that learn together"):
        adapt_together(learners, stream[0])
    assert all(learner.model is None for learner in learners)
