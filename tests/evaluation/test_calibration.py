"""Calibration error and temperature: by definition, and as part of a model."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memgrow import Learner
from memgrow.evaluation.calibration import (
    Calibration,
    calibrate,
    expected_calibration_error,
    fit_temperature,
    reliability,
)
from tests.support.new_labels import with_label


def naive_error(confidences: list[float], right: list[bool], bins: int = 15) -> float:
    total = 0.0
    for number in range(bins):
        inside = [(p, ok) for p, ok in zip(confidences, right, strict=True) if number / bins < p <= (number + 1) / bins]
        total += abs(sum(ok for _, ok in inside) - sum(p for p, _ in inside)) / len(confidences)
    return total


@given(st.lists(st.tuples(st.floats(0.001, 0.999), st.booleans()), min_size=1, max_size=40))
@settings(max_examples=50)
def test_the_error_follows_its_definition(answers):
    confidences, right = zip(*answers, strict=True)
    found = expected_calibration_error(torch.tensor(confidences, dtype=torch.double), torch.tensor(right))
    assert found == pytest.approx(naive_error(list(confidences), list(right)))


@pytest.mark.parametrize("factor", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("labels", [2, 5])
def test_the_temperature_undoes_a_factor_of_the_logits(factor, labels):
    generator = torch.Generator().manual_seed(labels)
    logits = 2 * torch.randn(4000, labels, generator=generator)
    right = torch.multinomial(logits.softmax(-1), 1, generator=generator).squeeze(1)
    temperature = fit_temperature(factor * logits, right)
    assert temperature == pytest.approx(factor, rel=0.08)
    fitted = reliability(factor * logits, right, temperature)
    assert fitted.ece < 0.03
    for other in (0.8 * temperature, 1.25 * temperature):
        worse = reliability(factor * logits, right, other)
        assert worse.nll > fitted.nll
        assert worse.accuracy == fitted.accuracy


@given(st.integers(1, 30), st.integers(2, 5), st.integers(0, 1000), st.floats(1e-3, 1e3), st.booleans())
@settings(max_examples=40)
def test_any_logits_have_a_temperature_that_minimises_the_objective(count, labels, seed, scale, wrong):
    """Also where all are right, or all wrong, and the likelihood has no finite optimum."""
    logits = scale * torch.randn(count, labels, generator=torch.Generator().manual_seed(seed))
    right = logits.argmin(-1) if wrong else logits.argmax(-1)
    temperature = fit_temperature(logits, right)
    assert 0 < temperature < float("inf")

    def objective(inverse: float) -> float:
        return count * reliability(logits, right, 1 / inverse).nll + inverse - float(torch.tensor(inverse).log())

    least = objective(1 / temperature)
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert objective(factor / temperature) >= least - 1e-6 * (1 + abs(least))


def test_it_never_makes_a_model_surer_of_domains_whose_examples_are_gone():
    logits = torch.tensor([[1.0, 0.0], [0.0, 1.0]] * 50)
    right, wrong = logits.argmax(-1), logits.argmin(-1)
    first = calibrate(logits, right, sizes={"a": 100}, before=Calibration(), learned=["a"], stage=1)
    assert first.temperature < 1
    later = {"before": first, "learned": ["a", "b"], "stage": 2}
    assert calibrate(logits, right, sizes={"b": 100}, **later).temperature == 1
    assert calibrate(logits, wrong, sizes={"b": 100}, **later).temperature > 1
    assert calibrate(logits, right, sizes={"a": 50, "b": 50}, **later).temperature == first.temperature


@pytest.fixture(scope="module")
def domains(stream):
    return [stream[0], with_label(stream[1])]


@pytest.fixture(scope="module")
def saved(tmp_path_factory, domains, tiny, short):
    folder = tmp_path_factory.mktemp("calibrated") / "model"
    learner = Learner.create("finetune+slots+vocab", model=tiny, training=short, device="cpu")
    for domain in domains:
        learner.adapt(domain, folder=folder)
    return folder


def test_a_model_is_calibrated_on_the_newest_validation_examples(saved, domains):
    learner = Learner.load(saved, device="cpu")
    logits, labels = learner.logits(domains[1], "validation")
    calibration = learner.calibration
    assert calibration.temperature == max(1.0, fit_temperature(logits, labels))
    first, second = (calibration.domains[domain.name] for domain in domains)
    assert (first.stage, second.stage) == (1, 2)
    assert second.before == reliability(logits, labels)
    assert second.after == reliability(logits, labels, calibration.temperature)
    assert learner.reliability(domains[1], "validation") == second.after
    rows = [list(one.probabilities.values()) for one in learner.predict(domains[1].validation)]
    torch.testing.assert_close(torch.tensor(rows), (logits / calibration.temperature).softmax(-1))
