"""Learners that are trained side by side learn what each would have learnt alone."""

from dataclasses import replace

import pytest
import torch

from memgrow.data import Domain, synthetic_stream
from memgrow.learner import Learner
from memgrow.lockstep import adapt_together, correct_together
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings
from memgrow.training.graphs import separated
from memgrow.training.settings import TrainingSettings
from memgrow.training.stacked import data as stack_data
from memgrow.training.stacked.model import obstacle
from memgrow.training.stacked.stepper import clip_each
from tests.methods.test_conformance import assert_alike

MODEL = ModelSettings(embedding=6, hidden=5, slots=4, perceptron=7)
TRAINING = TrainingSettings(rate=3e-3, epochs=2, batch=16)


@pytest.fixture(scope="module")
def stream():
    return [
        Domain(domain.name, domain.train[:70], domain.validation[:20], domain.test[:30])
        for domain in synthetic_stream(seed=0)[:2]
    ]


def learners(method: str, count: int = 3, model: ModelSettings = MODEL, training: TrainingSettings = TRAINING):
    options = MethodSettings(fisher_examples=6, strength=50.0)
    return [
        Learner.create(method, model=model, training=training, options=options, seed=seed, device="cpu")
        for seed in range(count)
    ]


def train(group, stream, together: bool) -> None:
    for number, domain in enumerate(stream):
        earlier = stream[:number] if group[0].method.together else ()
        if together:
            adapt_together(group, domain, earlier=earlier)
        else:
            for learner in group:
                learner.adapt(domain, earlier=earlier)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [{"pooling": "last"}, {"bidirectional": False}, {"slots": 0}, {"slot_size": 3}],
    ids=lambda c: next(iter(c)),
)
def test_models_of_other_forms_are_stacked_as_well(change, stream):
    model = replace(MODEL, **change)
    company, alone = learners("F+V", 2, model), learners("F+V", 2, model)
    assert obstacle([learner.trained() for learner in trained(company, stream)]) is None
    for ours, theirs in zip(company, trained(alone, stream, together=False), strict=True):
        assert_alike(ours, theirs)


def trained(group, stream, together: bool = True):
    train(group, stream, together)
    return group


@pytest.mark.parametrize("change", [{"cell": "gru"}, {"layers": 2}], ids=lambda c: next(iter(c)))
def test_what_cannot_be_stacked_is_taught_one_by_one(change, stream, monkeypatch):
    monkeypatch.setattr("memgrow.lockstep.learn_together", lambda *_, **__: pytest.fail("it was stacked"))
    for learner in trained(learners("F", 2, replace(MODEL, **change)), stream):
        assert learner.history.domains == tuple(domain.name for domain in stream)


def test_each_stops_by_itself_and_keeps_its_best_epoch(stream):
    training = TrainingSettings(rate=1e-2, epochs=12, batch=16, patience=1)
    stream = [replace(stream[0], validation=stream[0].train)]
    company, alone = learners("F", 6, training=training), learners("F", 6, training=training)
    train(company, stream, together=True)
    train(alone, stream, together=False)
    epochs = [learner.history.stages[0].epochs for learner in alone]
    assert len(set(epochs)) > 1, "the seeds were to differ in when they stop"
    assert [learner.history.stages[0].epochs for learner in company] == epochs
    for ours, theirs in zip(company, alone, strict=True):
        assert ours.history.stages[0].best_epoch == theirs.history.stages[0].best_epoch


def test_one_learner_is_no_different_from_three(stream):
    three, (one,) = trained(learners("F+M+V"), stream), trained(learners("F+M+V", 1), stream)
    assert_alike(three[0], one)


def test_long_texts_are_taken_in_pieces_to_the_same_effect(stream, monkeypatch):
    whole = trained(learners("F+V+D"), stream)
    monkeypatch.setattr(stack_data, "USUAL", 5)
    for ours, theirs in zip(trained(learners("F+V+D"), stream), whole, strict=True):
        assert_alike(ours, theirs)
    assert correct_together(whole, stream[0]) == [each.correct(stream[0]) for each in whole]


def test_what_is_right_is_told_as_each_learner_tells_it(stream):
    company = trained(learners("F+V"), stream)
    for domain in stream:
        for split in ("validation", "test"):
            assert correct_together(company, domain, split) == [each.correct(domain, split) for each in company]


def test_learners_are_unchanged_when_a_domain_cannot_be_learnt(stream):
    company = trained(learners("F"), stream[:1])
    before = [learner.model.state_dict() for learner in company]
    with pytest.raises(Exception, match="no validation examples"):
        adapt_together(company, replace(stream[1], validation=()))
    for learner, weights in zip(company, before, strict=True):
        assert learner.history.domains == (stream[0].name,)
        assert all(torch.equal(weights[name], tensor) for name, tensor in learner.model.state_dict().items())


def test_every_model_of_a_stack_is_clipped_by_itself():
    gradients = [torch.randn(3, 4, 5), torch.randn(3, 7)]
    gradients[0][1] *= 100
    whole = [torch.cat([g[k].flatten() for g in gradients]) for k in range(3)]
    clip_each(gradients, 10.0)
    for k, before in enumerate(whole):
        after = torch.cat([g[k].flatten() for g in gradients])
        expected = before * min(1.0, 10.0 / float(before.norm()))
        torch.testing.assert_close(after, expected)


def test_gradients_that_share_memory_are_set_apart():
    shared = torch.ones(2, 3)
    first, second, third = separated([shared, shared, torch.ones(3, 2).t()])
    first.mul_(2)
    assert torch.equal(second, torch.ones(2, 3))
    assert third.is_contiguous()


def test_learners_in_a_stack_know_as_much_of_their_answers_as_one_alone(stream):
    together, alone = learners("F+V", count=2), learners("F+V", count=2)
    train(together, stream, together=True)
    train(alone, stream, together=False)
    for one, other in zip(together, alone, strict=True):
        assert one.calibration.domains.keys() == other.calibration.domains.keys() == {part.name for part in stream}
        assert one.calibration.temperature == pytest.approx(other.calibration.temperature, rel=0.05)
        assert one.reference.domains.keys() == other.reference.domains.keys() == {part.name for part in stream}
