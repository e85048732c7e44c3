"""In a stack, too, vectors of words that a batch does not have wait, and all learners end where they would have."""

from dataclasses import replace

import pytest
import torch

from memgrow.data import Domain, synthetic_stream
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.methods.trains import everything
from memgrow.models import ModelSettings
from memgrow.training import lazy_adam as deferred
from memgrow.training.loop import TrainingSettings
from memgrow.training.stacked import data as staged
from memgrow.training.stacked.model import Stack
from memgrow.training.stacked.stepper import Stepper
from memgrow.training.stacked.together import adapt_together
from tests.support.waiting import count_waiting

MODEL = ModelSettings(embedding=6, hidden=5, slots=4, perceptron=7)
TRAINING = TrainingSettings(rate=3e-3, epochs=2, batch=4, max_words=5)  # so few that a batch has not all words


@pytest.fixture(scope="module")
def stream():
    return [
        Domain(domain.name, domain.train[:60], domain.validation[:20], domain.test[:20])
        for domain in synthetic_stream(seed=0)[:2]
    ]


@pytest.fixture
def waiting(monkeypatch):
    return count_waiting(monkeypatch)


@pytest.fixture
def steppers(monkeypatch):
    """All steppers that are made."""
    made = []
    begin = Stepper.__init__
    monkeypatch.setattr(Stepper, "__init__", lambda self, *given: (made.append(self), begin(self, *given))[1])
    return made


def taught(stream, together: bool, method: str = "F+M+V") -> list[Learner]:
    options = MethodSettings(fisher_examples=6, strength=50.0)
    group = [
        Learner.create(method, model=MODEL, training=TRAINING, options=options, seed=seed, device="cpu")
        for seed in range(4)
    ]
    for domain in stream:
        if together:
            adapt_together(group, domain)
        else:
            for learner in group:
                learner.adapt(domain)
    return group


def assert_alike(ours: list[Learner], theirs: list[Learner]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert [stage.epochs for stage in one.history.stages] == [stage.epochs for stage in other.history.stages]
        for (name, p), (_, q) in zip(one.model.named_parameters(), other.model.named_parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-3, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "waits"), [("F", True), ("F+M+V+D", True), ("Progressive", True), ("EWC", False), ("F+M+V+L", False)]
)
def test_each_learns_what_it_would_have_learnt_alone_by_plain_adam(
    method, waits, stream, steppers, waiting, monkeypatch
):
    alone = taught(stream, together=False, method=method)
    monkeypatch.setattr(deferred, "LARGE", 1)
    assert_alike(taught(stream, together=True, method=method), alone)
    assert (steppers[0].vectors is not None) is waits
    assert any(waiting) is waits


def test_long_texts_are_taken_in_pieces_to_the_same_effect(stream, monkeypatch):
    monkeypatch.setattr(deferred, "LARGE", 1)
    whole = taught(stream, together=True)
    monkeypatch.setattr(staged, "USUAL", 3)
    assert_alike(taught(stream, together=True), whole)


@pytest.mark.parametrize("clip", [5.0, 1e-7], ids=["clipped hardly ever", "clipped to about Adam's eps"])
def test_behind_each_epoch_all_vectors_are_where_plain_adam_has_them(clip, stream, steppers, waiting, monkeypatch):
    group = taught(stream[:1], together=True)
    trains, settings = everything(None, group[0].trained()), replace(TRAINING, clip=clip)
    both = []
    for large in (1, 10**9):
        monkeypatch.setattr(deferred, "LARGE", large)
        stack = Stack([learner.trained() for learner in group])  # each with its own copy
        both.append(Stepper(stack, steppers[0].data, settings, trains, [learner.plugins for learner in group]))
    assert [stepper.vectors is not None for stepper in both] == [True, False]
    for seed in range(3):
        order = torch.randperm(60, generator=torch.Generator().manual_seed(seed))
        for stepper in both:
            list(stepper.epoch(order.view(-1, 1, 4).expand(-1, 4, -1)))
        for name, ours in both[0].stack.parameters.items():
            torch.testing.assert_close(ours, both[1].stack.parameters[name], rtol=0, atol=5e-3 * settings.rate)
    assert any(waiting)


def test_those_that_stay_when_others_leave_the_stack_go_on_as_they_would_have(stream, steppers, monkeypatch):
    monkeypatch.setattr(deferred, "LARGE", 1)
    group = taught(stream[:1], together=True)
    stack, data = Stack([learner.trained() for learner in group]), steppers[0].data
    trains = everything(None, group[0].trained())
    whole = Stepper(stack, data, TRAINING, trains, [learner.plugins for learner in group])
    numbers = torch.randperm(60, generator=torch.Generator().manual_seed(0)).view(-1, 1, 4).expand(-1, 4, -1)
    list(whole.epoch(numbers))
    fewer = whole.narrowed([1, 3])
    list(whole.epoch(numbers))
    list(fewer.epoch(numbers[:, :2]))
    for name, parameter in fewer.stack.parameters.items():
        torch.testing.assert_close(parameter, whole.stack.parameters[name][[1, 3]], rtol=1e-5, atol=1e-6)
