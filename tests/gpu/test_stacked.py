"""On a GPU: learners taught side by side, from recorded graphs, learn what each would have learnt alone."""

from dataclasses import replace

import pytest
import torch

from memgrow.data import Domain, synthetic_stream
from memgrow.learner import Learner
from memgrow.lockstep import adapt_together, correct_together
from memgrow.methods import MethodSettings
from memgrow.methods.old_weights import SHARES, mixtures
from memgrow.models import ModelSettings
from memgrow.training.evaluation import tally_each
from memgrow.training.settings import TrainingSettings
from memgrow.training.stacked.together import PLAIN, StackedDomain
from tests.support.breaking import LAST, Plug, PulledPlug, keep_epoch
from tests.support.new_labels import with_label

METHODS = ("F", "F+M+V", "F+H+V", "frozen+M", "EWC", "Progressive", "F+M+V+A+D", "F+M+V+Q+L", "EWC+M+V")


@pytest.fixture(scope="module")
def stream():
    """Two domains, of which the second brings a label."""
    first, second = (
        Domain(domain.name, domain.train[:200], domain.validation[:40], domain.test[:40])
        for domain in synthetic_stream(seed=0)[:2]
    )
    return [first, with_label(second)]


def learners(method: str, count: int = 3) -> list[Learner]:
    return [
        Learner.create(
            method,
            model=ModelSettings(embedding=12, hidden=16, slots=8, perceptron=16),
            training=TrainingSettings(rate=1e-3, epochs=3, batch=16),
            options=MethodSettings(fisher_examples=12, strength=50.0),
            seed=seed,
            device="cuda",
        )
        for seed in range(count)
    ]


@pytest.mark.parametrize(
    ("method", "tf32"), [*((method, False) for method in METHODS), ("F+M+V", True), ("F+H+V", True)]
)
def test_each_learns_what_it_would_have_learnt_alone(method, tf32, stream):
    torch.backends.cuda.matmul.allow_tf32 = tf32  # and with it the kernels: what is alone takes them, a stack does not
    company, alone = learners(method), learners(method)
    for domain in stream:
        adapt_together(company, domain)
        for learner in alone:
            learner.adapt(domain, loop=PLAIN)
    for ours, theirs in zip(company, alone, strict=True):
        for (name, p), (_, q) in zip(ours.model.named_parameters(), theirs.model.named_parameters(), strict=True):
            # As a whole, and but for one step of Adam: where a gradient is next to nothing, a difference in rounding
            # turns its sign, and moves an entry by as much as the learning rate.
            step = ours.training.rate * p.numel() ** 0.5
            assert (p - q).norm() <= 2e-2 * q.norm() + step, name
        for name, tensor in theirs.plugins.tensors().items():
            torch.testing.assert_close(ours.plugins.tensors()[name], tensor, rtol=5e-2, atol=5e-3)
    for domain in stream:
        for ours, theirs in zip(correct_together(company, domain), company, strict=True):
            assert sum(a != b for a, b in zip(ours, theirs.correct(domain), strict=True)) <= 1


def test_a_stack_gives_the_same_bits_again(stream):
    first, second = learners("F+M+V"), learners("F+M+V")
    for group in (first, second):
        for domain in stream:
            adapt_together(group, domain)
    for a, b in zip(first, second, strict=True):
        for p, q in zip(a.model.parameters(), b.model.parameters(), strict=True):
            assert torch.equal(p, q)


def test_one_models_weights_side_by_side_answer_as_one_after_another_do(stream):
    (learner,) = learners("F+M+V", 1)
    learner.adapt(stream[0])
    old = learner.trained()
    learner.adapt(stream[1])
    new, data = learner.trained(), learner.encode(stream[1].validation)
    domain = StackedDomain([new], data, [0], learner.device)
    domain.prepare(data, 16)
    both = (domain.tally_each(0, mixtures(old, new, SHARES)), tally_each(new, data, mixtures(old, new, SHARES)))
    for ours, theirs in zip(*both, strict=True):
        assert (ours.sums - theirs.sums).abs().sum() <= 1  # where two labels are level, rounding decides


def test_learners_that_stop_leave_the_stack(stream):
    group = learners("F", 6)
    for learner in group:
        learner.training = replace(learner.training, epochs=12, patience=1, rate=1e-2)
    adapt_together(group, stream[0])
    assert len({learner.history.stages[0].epochs for learner in group}) > 1


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_learner_alone_is_stacked_and_goes_on_after_a_broken_run_with_the_same_bits(
    dropout, stream, monkeypatch, tmp_path
):
    keep_epoch(LAST, monkeypatch)
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)
    monkeypatch.setattr("memgrow.stage_training.PlainStepper", lambda *_, **__: pytest.fail("it took the plain loop"))

    def make() -> Learner:
        (learner,) = learners("F+M+V", 1)
        learner.settings = replace(learner.settings, dropout=dropout)
        return learner

    whole = make()
    whole.adapt(stream[0])
    for reports in (9, 10):  # in the first epoch and in the second
        with pytest.raises(PulledPlug):
            make().adapt(stream[0], folder=tmp_path / "model", save_every=0, progress=Plug(reports))
    learner = make()
    learner.adapt(stream[0], folder=tmp_path / "model")
    assert [one.history.stages[0].best_epoch for one in (whole, learner)] == [3, 3]
    for p, q in zip(whole.model.parameters(), learner.model.parameters(), strict=True):
        assert torch.equal(p, q)
