"""Expected calibration error and temperature: what is known of them from elsewhere, and what must always hold."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memgrow.metrics.calibration import expected_calibration_error, fit_temperature, reliability


def drawn(count: int, labels: int, seed: int, sureness: float = 2.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits, and labels that are drawn with the very probabilities that the logits say."""
    generator = torch.Generator().manual_seed(seed)
    logits = sureness * torch.randn(count, labels, generator=generator)
    return logits, torch.multinomial(logits.softmax(-1), 1, generator=generator).squeeze(1)


def naive_error(confidences: list[float], right: list[bool], bins: int = 15) -> float:
    total = 0.0
    for number in range(bins):
        inside = [
            (p, ok)
            for p, ok in zip(confidences, right, strict=True)
            if number / bins < p <= (number + 1) / bins or (number == 0 and p == 0)
        ]
        if inside:
            accuracy, confidence = sum(ok for _, ok in inside) / len(inside), sum(p for p, _ in inside) / len(inside)
            total += len(inside) / len(confidences) * abs(accuracy - confidence)
    return total


@given(st.lists(st.tuples(st.floats(0.001, 0.999), st.booleans()), min_size=1, max_size=40))
@settings(max_examples=50, deadline=None)
def test_the_error_is_the_textbooks(answers):
    confidences, right = zip(*answers, strict=True)
    found = expected_calibration_error(torch.tensor(confidences, dtype=torch.double), torch.tensor(right))
    assert found == pytest.approx(naive_error(list(confidences), list(right)))


def test_answers_that_are_as_sure_as_they_are_right_have_no_error_and_sure_wrong_ones_all_of_it():
    assert expected_calibration_error(torch.full((10,), 0.8), torch.arange(10) < 8) == pytest.approx(0, abs=1e-6)
    assert expected_calibration_error(torch.ones(5), torch.zeros(5, dtype=torch.bool)) == 1
    assert expected_calibration_error(torch.zeros(5), torch.zeros(5, dtype=torch.bool)) == 0


@pytest.mark.parametrize("factor", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("labels", [2, 5])
def test_the_temperature_undoes_what_made_logits_too_sure_or_not_sure_enough(factor, labels):
    logits, right = drawn(4000, labels, seed=labels)
    temperature = fit_temperature(factor * logits, right)
    assert temperature == pytest.approx(factor, rel=0.08)
    fitted = reliability(factor * logits, right, temperature)
    assert fitted.ece < 0.03
    for other in (0.8 * temperature, 1.25 * temperature):
        assert reliability(factor * logits, right, other).nll > fitted.nll


@given(st.integers(1, 30), st.integers(2, 5), st.integers(0, 1000), st.floats(1e-3, 1e3), st.booleans())
@settings(max_examples=40, deadline=None)
def test_any_logits_have_a_temperature_that_is_the_least_of_what_is_minimised(count, labels, seed, scale, wrong):
    """Also where all are right, or all wrong, and the likelihood alone would have no end."""
    logits = scale * torch.randn(count, labels, generator=torch.Generator().manual_seed(seed))
    right = logits.argmin(-1) if wrong else logits.argmax(-1)
    temperature = fit_temperature(logits, right)
    assert 0 < temperature < float("inf")

    def objective(inverse: float) -> float:
        return count * reliability(logits, right, 1 / inverse).nll + inverse - float(torch.tensor(inverse).log())

    least = objective(1 / temperature)
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert objective(factor / temperature) >= least - 1e-6 * (1 + abs(least))


def test_no_answer_changes_with_the_temperature():
    logits, right = drawn(200, 3, seed=1)
    accuracies = {reliability(logits, right, temperature).accuracy for temperature in (0.01, 1.0, 100.0)}
    assert len(accuracies) == 1
