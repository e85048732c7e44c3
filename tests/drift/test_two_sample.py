"""The tests of a window: what is drawn from the domains passes as often as it should, and what is not does not."""

from itertools import product

import numpy as np
import pytest

from memgrow.drift.random_features import FEATURES
from memgrow.drift.reference import DomainReference, Shares
from memgrow.drift.two_sample import Verdict, Window, above_weighted_chi_squares, judge, nearest_mixture

RNG = np.random.default_rng(0)
WINDOWS = 80
SCALES = np.linspace(0.02, 0.2, FEATURES)  # of the features' entries: a spectrum that falls


def reference(shift: float, texts: int = 1000, stage: int = 1) -> DomainReference:
    variances = SCALES**2
    sample = RNG.normal(size=(texts, FEATURES)) * SCALES
    mean = sample.mean(0)
    mean[0] += shift
    spread = (variances.sum(), (variances**2).sum(), (variances**3).sum())
    unknown, confidence = Shares(200, 0.05, 0.01), Shares(200, 0.8, 0.02)
    return DomainReference(stage, texts, tuple(map(float, mean)), tuple(map(float, spread)), unknown, confidence)


def drawn(shift: float, texts: int = 50, unknown: float = 0.05, confidence: float = 0.8) -> Window:
    features = (RNG.normal(size=(texts, FEATURES)) * SCALES).mean(0)
    features[0] += shift
    return Window(texts, features, unknown, confidence)


@pytest.mark.parametrize("weights", [[1.0], [1.0] * 10, [3.0, 1.0, 0.5, 0.1], list(0.9 ** np.arange(60))])
def test_the_tail_is_that_of_weighted_chi_squares(weights):
    weights = np.array(weights)
    draws = (RNG.normal(size=(30_000, len(weights))) ** 2) @ weights
    sums = [float((weights**power).sum()) for power in (1, 2, 3)]
    for level in (0.3, 0.05, 0.01):
        value = float(np.quantile(draws, 1 - level))
        assert above_weighted_chi_squares(value, *sums) == pytest.approx(level, rel=0.2)


def test_the_nearest_mixture_is_the_one_that_a_grid_finds():
    means = RNG.normal(size=(3, 5))
    steps = np.linspace(0, 1, 51)
    grid = np.array([(a, b, 1 - a - b) for a, b in product(steps, steps) if a + b <= 1 + 1e-9])
    for _ in range(10):
        point = RNG.normal(size=5)
        found = nearest_mixture(point, means)
        assert found.sum() == pytest.approx(1)
        assert (found >= 0).all()
        best = np.linalg.norm(grid @ means - point, axis=1).min()
        assert np.linalg.norm(found @ means - point) <= best + 1e-6
    inside = np.array([0.2, 0.5, 0.3])
    np.testing.assert_allclose(nearest_mixture(inside @ means, means), inside, atol=1e-3)


@pytest.mark.parametrize("domains", [1, 3])
def test_windows_of_known_domains_alarm_no_more_often_than_is_said(domains):
    known = {str(number): reference(0.3 * number) for number in range(domains)}
    p = np.array([judge(drawn(0.3 * RNG.integers(domains)), known).tests["distance"] for _ in range(WINDOWS)])
    for alpha in (0.05, 0.2):
        assert (p <= alpha).mean() < alpha + 3 * (alpha * (1 - alpha) / WINDOWS) ** 0.5
    if domains == 1:  # with mixtures to choose from they alarm less often
        assert (p <= 0.2).mean() > 0.1


def test_windows_of_mixtures_are_known_and_those_beyond_are_not():
    known = {"a": reference(0.0), "b": reference(0.6)}
    between, beyond = judge(drawn(0.3), known), judge(drawn(1.2), known)
    assert between.p > 0.01
    assert between.mixture == pytest.approx({"a": 0.5, "b": 0.5}, abs=0.2)
    assert beyond.tests["distance"] < 1e-6
    assert beyond.distance > 2
    assert beyond.mixture == {"b": 1.0}


def test_unknown_words_count_upwards_and_confidence_downwards_and_only_if_it_is_known_of_all():
    known = {"a": reference(0.0)}
    assert judge(drawn(0, unknown=0.3), known).rejected(0.01) == ["unknown words"]
    assert judge(drawn(0, unknown=0.0), known).rejected(0.01) == []
    assert judge(drawn(0, confidence=0.5), known).rejected(0.01) == ["confidence"]
    assert judge(drawn(0, confidence=1.0), known).rejected(0.01) == []
    assert "confidence" not in judge(drawn(0, confidence=0.5), known, all_known=False).tests
    later = {"a": reference(0.0), "b": reference(0.0, stage=2)}
    assert "confidence" not in judge(drawn(0, confidence=0.5), later).tests


def test_one_strange_word_is_no_alarm_where_there_was_none_before():
    known = {"a": DomainReference(1, 1000, *_moments(), Shares(200, 0.0, 0.0), Shares(200, 1.0, 0.0))}
    assert judge(drawn(0, unknown=0.01, confidence=0.995), known).p > 0.01
    assert judge(drawn(0, unknown=0.2, confidence=0.7), known).rejected(0.01) == ["unknown words", "confidence"]


def _moments():
    one = reference(0.0)
    return one.mean, one.spread


def test_several_tests_share_alpha():
    def verdict(**tests: float) -> Verdict:
        return Verdict(50, min(1, len(tests) * min(tests.values())), tests, 1, {}, None, None, None, None)

    assert verdict(a=0.004, b=0.5, c=0.5).rejected(0.01) == []  # a third of 0.01 is not enough
    assert verdict(a=0.5, b=0.003, c=0.5).rejected(0.01) == ["b"]
    assert verdict(a=0.006, b=0.003, c=0.004).rejected(0.01) == ["a", "b", "c"]  # Holm goes on where Bonferroni stops
