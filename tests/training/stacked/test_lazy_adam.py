"""In a stack, too, vectors of words that a batch does not have wait, and all learners end where they would have."""

from dataclasses import replace

import pytest
import torch

from memgrow.data import Domain, synthetic_stream
from memgrow.learner import Learner
from memgrow.lockstep import adapt_together
from memgrow.methods import MethodSettings
from memgrow.methods.trains import everything
from memgrow.models import ModelSettings
from memgrow.training import optimiser
from memgrow.training.settings import TrainingSettings
from memgrow.training.stacked import data as stack_data
from memgrow.training.stacked.model import Stack
from memgrow.training.stacked.stepper import StackStepper
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
    begin = StackStepper.__init__
    monkeypatch.setattr(
        StackStepper, "__init__", lambda self, *given, **named: (made.append(self), begin(self, *given, **named))[1]
    )
    return made


def trained(stream, together: bool, method: str = "F+M+V", seeds: int = 4) -> list[Learner]:
    options = MethodSettings(fisher_examples=6, strength=50.0)
    group = [
        Learner.create(method, model=MODEL, training=TRAINING, options=options, seed=seed, device="cpu")
        for seed in range(seeds)
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
    ("method", "waits"),
    [
        ("F", True),
        ("EWC", False),
        pytest.param("F+M+V+D", True, marks=pytest.mark.extras),
        pytest.param("Progressive", True, marks=pytest.mark.extras),
        pytest.param("F+M+V+L", False, marks=pytest.mark.extras),
    ],
)
def test_each_learns_what_it_would_have_learnt_alone_by_plain_adam(
    method, waits, stream, steppers, waiting, monkeypatch
):
    alone = trained(stream, together=False, method=method, seeds=2)
    monkeypatch.setattr(optimiser, "LARGE", 1)
    assert_alike(trained(stream, together=True, method=method, seeds=2), alone)
    assert (steppers[0].optimiser.lazy is not None) is waits
    assert any(waiting) is waits


def test_long_texts_are_taken_in_pieces_to_the_same_effect(stream, monkeypatch):
    monkeypatch.setattr(optimiser, "LARGE", 1)
    whole = trained(stream, together=True, seeds=2)
    monkeypatch.setattr(stack_data, "USUAL", 3)
    assert_alike(trained(stream, together=True, seeds=2), whole)


def stepper_like(one: StackStepper, stack: Stack, group: list[Learner], settings: TrainingSettings) -> StackStepper:
    """A stepper of the same data that begins anew."""
    plugins, trains = [learner.plugins for learner in group], everything(None, group[0].trained())
    return StackStepper(stack, one.data, one.validation, settings=settings, trains=trains, plugins=plugins)


@pytest.mark.parametrize("clip", [5.0, 1e-7], ids=["clipped hardly ever", "clipped to about Adam's eps"])
def test_behind_each_epoch_all_vectors_are_where_plain_adam_has_them(clip, stream, steppers, waiting, monkeypatch):
    group = trained(stream[:1], together=True)
    settings = replace(TRAINING, clip=clip)
    both = []
    for large in (1, 10**9):
        monkeypatch.setattr(optimiser, "LARGE", large)
        stack = Stack([learner.trained() for learner in group])  # each with its own copy
        both.append(stepper_like(steppers[0], stack, group, settings))
    assert [stepper.optimiser.lazy is not None for stepper in both] == [True, False]
    for seed in range(3):
        order = torch.randperm(60, generator=torch.Generator().manual_seed(seed))
        for stepper in both:
            list(stepper.epoch(0, [order.view(-1, 4).tolist()] * 4, 0))
        for name, ours in both[0].stack.parameters.items():
            torch.testing.assert_close(ours, both[1].stack.parameters[name], rtol=0, atol=5e-3 * settings.rate)
    assert any(waiting)


def test_those_that_stay_when_others_leave_the_stack_go_on_as_they_would_have(stream, steppers, monkeypatch):
    monkeypatch.setattr(optimiser, "LARGE", 1)
    group = trained(stream[:1], together=True)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0)).view(-1, 4).tolist()
    whole, fewer = (
        stepper_like(steppers[0], Stack([learner.trained() for learner in group]), group, TRAINING) for _ in range(2)
    )
    for stepper in (whole, fewer):
        list(stepper.epoch(0, [order] * 4, 0))
    fewer.narrow([1, 3])
    list(whole.epoch(0, [order] * 4, 0))
    list(fewer.epoch(0, [order] * 2, 0))
    for name, parameter in fewer.stack.parameters.items():
        torch.testing.assert_close(parameter, whole.stack.parameters[name][[1, 3]], rtol=1e-5, atol=1e-6)
    fewer.keep([1])
    fewer.finish()
    kept = fewer.whole.parameters["heads.0.3.weight"]
    assert torch.equal(kept[3], fewer.stack.parameters["heads.0.3.weight"][1].detach())
    assert torch.equal(kept[:3], torch.stack([learner.trained().heads[0][3].weight for learner in group[:3]]))
