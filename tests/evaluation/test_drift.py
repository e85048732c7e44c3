"""Drift: false alarms are as rare as promised, new domains are found, and no text is kept or can be recovered."""

import gc
import hashlib
import json
import math
from dataclasses import replace
from itertools import chain, product

import numpy as np
import pytest

from memgrow import Learner
from memgrow.data import Domain, Example, synthetic_stream
from memgrow.data.text import Vocabulary, tokenize
from memgrow.errors import SettingsError
from memgrow.evaluation.drift import (
    DIRECTIONS,
    FEATURES,
    MIN_TEXTS,
    DomainReference,
    DriftMonitor,
    Reference,
    Shares,
    Verdict,
    judge,
    nearest_mixture,
    summarize,
    text_features,
    together,
    weighted_chi_square_tail,
)

RNG = np.random.default_rng(0)
WINDOWS = 80
SCALES = np.linspace(0.02, 0.2, FEATURES)  # a falling spectrum


# The test of a window


def drawn_reference(shift: float, texts: int = 1000) -> DomainReference:
    variances = SCALES**2
    mean = (RNG.normal(size=(texts, FEATURES)) * SCALES).mean(0)
    mean[0] += shift
    spread = (variances.sum(), (variances**2).sum(), (variances**3).sum())
    return DomainReference(texts, tuple(map(float, mean)), tuple(map(float, spread)), Shares(200, 0.05, 0.01), texts)


def judged(shift: float, known: dict[str, DomainReference], unknown: float = 0.05, texts: int = 50) -> Verdict:
    features = (RNG.normal(size=(texts, FEATURES)) * SCALES).mean(0)
    features[0] += shift
    return judge(texts, features, known, unknown=unknown)


@pytest.mark.parametrize("weights", [[1.0] * 10, [3.0, 1.0, 0.5, 0.1], list(0.9 ** np.arange(60))])
def test_the_tail_is_that_of_weighted_chi_squares(weights):
    weights = np.array(weights)
    draws = (RNG.normal(size=(30_000, len(weights))) ** 2) @ weights
    sums = tuple(float((weights**power).sum()) for power in (1, 2, 3))
    for level in (0.3, 0.05, 0.01):
        assert weighted_chi_square_tail(float(np.quantile(draws, 1 - level)), sums) == pytest.approx(level, rel=0.2)


@pytest.mark.parametrize("seed", [0, 2, 35])  # with 2 and 35, a step with momentum once stands still too early
def test_the_nearest_mixture_is_the_one_that_a_grid_finds(seed):
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(3, 5))
    steps = np.linspace(0, 1, 51)
    grid = np.array([(a, b, 1 - a - b) for a, b in product(steps, steps) if a + b <= 1 + 1e-9])
    for point in rng.normal(size=(10, 5)):
        found = nearest_mixture(point, means)
        assert found.sum() == pytest.approx(1)
        assert (found >= 0).all()
        assert np.linalg.norm(found @ means - point) <= np.linalg.norm(grid @ means - point, axis=1).min() + 1e-6


@pytest.mark.parametrize("domains", [1, 3])
def test_windows_of_known_domains_alarm_no_more_often_than_alpha(domains):
    known = {str(number): drawn_reference(0.3 * number) for number in range(domains)}
    p = np.array([judged(0.3 * RNG.integers(domains), known).tests["distance"] for _ in range(WINDOWS)])
    for alpha in (0.05, 0.2):
        assert (p <= alpha).mean() < alpha + 3 * (alpha * (1 - alpha) / WINDOWS) ** 0.5
    if domains == 1:  # with mixtures to choose from they alarm less often
        assert (p <= 0.2).mean() > 0.1


def test_mixtures_are_known_and_what_lies_beyond_is_not():
    known = {"a": drawn_reference(0.0), "b": drawn_reference(0.6)}
    between, beyond = judged(0.3, known), judged(1.2, known)
    assert between.p > 0.01
    assert between.mixture == pytest.approx({"a": 0.5, "b": 0.5}, abs=0.2)
    assert beyond.tests["distance"] < 1e-6
    assert beyond.mixture == {"b": 1.0}


def test_unknown_words_are_tested_on_one_side():
    known = {"a": drawn_reference(0.0)}
    assert judged(0, known, unknown=0.3).rejected(0.01) == ["unknown words"]
    assert judged(0, known, unknown=0.0).rejected(0.01) == []


# Random features


def naive_features(texts) -> list[float]:
    """The features of one example, word by word."""
    distinct = {(place, word) for place, text in enumerate(texts) for word in text}
    sums = [0.0] * DIRECTIONS
    for place, word in distinct:
        digest = hashlib.blake2b(f"{place} {word}".encode(errors="surrogatepass"), digest_size=DIRECTIONS // 8).digest()
        bits = int.from_bytes(digest, "big")
        for direction in range(DIRECTIONS):
            sums[direction] += 1 if bits >> (DIRECTIONS - 1 - direction) & 1 else -1
    scaled = [one / max(1, len(distinct)) ** 0.5 for one in sums]
    return [float(wave(one)) / DIRECTIONS**0.5 for wave in (np.cos, np.sin) for one in scaled]


def test_features_are_those_of_the_definition():
    texts = [[["a", "dog", "a"], ["é", ""]], [["é", ""], ["dog", "a"]], [[]], [["\ud800", "dog"]]]
    np.testing.assert_allclose(text_features(texts), [naive_features(one) for one in texts], atol=1e-6)


def test_features_are_what_saved_models_hold():
    """Other features would make every reference in a folder wrong: they would need another KIND."""
    signs = text_features([[["soup"], ["ein", "Stück"]]])[0] > 0
    assert hashlib.sha256(np.packbits(signs).tobytes()).hexdigest()[:16] == "9940e2af5d2a466d"


@pytest.mark.parametrize("shared", [0, 5, 10])
def test_products_of_features_are_a_gaussian_kernel_of_what_texts_share(shared):
    pairs = [
        ([f"{number} {word}" for word in range(10)], [f"{number} {word + 10 - shared}" for word in range(10)])
        for number in range(100)
    ]
    first, second = (text_features([[pair[side]] for pair in pairs]) for side in (0, 1))
    assert float((first * second).sum(1).mean()) == pytest.approx(math.exp(-(1 - shared / 10)), abs=0.03)


# The monitor


@pytest.fixture(scope="module")
def texts():
    """Enough distinct texts of three domains."""
    return synthetic_stream(domains=3, train=300, validation=60, test=200)


@pytest.fixture(scope="module")
def vocabulary(texts) -> Vocabulary:
    known = chain.from_iterable(one.texts for domain in texts[:2] for one in domain.train)
    return Vocabulary().extended(map(tokenize, known))


def summary(train, validation=(), vocabulary=None) -> DomainReference | None:
    return summarize(train, validation, tokenize, vocabulary)


@pytest.fixture(scope="module")
def reference(texts, vocabulary) -> Reference:
    return Reference({one.name: summary(one.train, one.validation, vocabulary) for one in texts[:2]})


@pytest.fixture
def monitor(reference, vocabulary) -> DriftMonitor:
    return DriftMonitor(reference, vocabulary, reference.domains, window=50)


def test_known_domains_pass_and_a_new_one_is_found(monitor, texts):
    known = [example for pair in zip(texts[0].test, texts[1].test, strict=True) for example in pair]
    assert all(verdict.p > 0.01 for verdict in monitor.add(known, [0.8] * len(known)))
    report = monitor.report()
    assert (report.texts, report.due) == (400, False)
    assert report.verdict.mixture == pytest.approx({"kitchen": 0.5, "harbour": 0.5}, abs=0.15)
    monitor.add(texts[2].test, [0.5] * 200)
    report = monitor.report()
    assert report.due
    assert report.verdict.rejected(0.01) == ["distance", "unknown words"]
    assert report.verdict.confidence == pytest.approx(0.5)
    assert report.sentence.startswith("adapting seems due")
    told = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert {"texts", "due", "sentence", "unknown_words", "distance", "p", "confidence", "mixture"} <= told.keys()
    monitor.add(known[:100])
    assert not monitor.report().due


def test_verdicts_do_not_depend_on_the_size_of_the_calls(reference, vocabulary, texts):
    examples, confidences = [*texts[0].test[:70], *texts[2].test[:80]], list(np.linspace(0.5, 1, 150))
    found = []
    for sizes in ([150], [1] * 150, [37, 13, 100]):
        monitor, verdicts, start = DriftMonitor(reference, vocabulary, window=50), [], 0
        for size in sizes:
            verdicts += monitor.add(examples[start : start + size], confidences[start : start + size])
            start += size
        found.append([verdict.p for verdict in verdicts])
    assert found[1] == found[2] == pytest.approx(found[0], rel=1e-6)


def test_repeated_texts_fill_no_window(monitor, texts):
    assert monitor.add([texts[2].test[0]] * 500) == []
    assert (monitor.report().texts, monitor.report().windows) == (500, 0)
    assert monitor.finish() is None


def test_missing_statistics_are_reported(reference, texts):
    empty = DriftMonitor(Reference(), None, ["kitchen"])
    empty.add(texts[0].test)
    assert (empty.report().texts, empty.report().due, empty.report().verdict) == (200, False, None)
    assert "no drift statistics: its domains have fewer than 100 different" in empty.report().sentence
    partly = DriftMonitor(reference, None, ["kitchen", "harbour", "old"], window=50)
    partly.add(texts[0].test)
    assert "texts of old may count as new" in partly.report().sentence
    for options in ({"window": 5}, {"alpha": 0.0}, {"alpha": float("nan")}):
        with pytest.raises(SettingsError):
            DriftMonitor(reference, **options)


def test_many_windows_share_alpha(monitor, texts):
    assert not together([], 0.01, 7)[0]
    known = monitor.add(texts[0].test)
    assert not together(known, 0.01, 200)[0]
    due, sentence = together([*known, *monitor.add(texts[2].test)], 0.01, 400)
    assert due
    assert "adapting seems due" in sentence


# Privacy


def test_the_monitor_keeps_no_text(monitor):
    text = "zebrafish " * 3 + "quokka"
    example = Example(text, text)
    monitor.add([example] * 70, [0.5] * 70)
    assert not any(isinstance(one, DriftMonitor) for one in gc.get_referrers(text))
    state = repr({name: value for name, value in vars(monitor).items() if name not in ("_reference", "_vocabulary")})
    assert "quokka" not in state


def test_a_repeated_text_weighs_as_much_as_any_other(texts):
    secret = Example("patient jane doe code zebra 9481 kappa")
    plain = [Example(one.text) for one in texts[0].train]
    once, often = summary([*plain, secret]), summary([*plain, *[secret] * 700])
    np.testing.assert_allclose(once.mean, often.mean, atol=1e-6)
    assert once.texts == often.texts
    own = text_features([(tokenize(secret.text),)])[0]
    assert np.linalg.norm(np.array(often.mean) - own) > 0.5


@pytest.mark.parametrize(("size", "draws"), [(100, 16), (300, 6), (1000, 4)])
def test_membership_of_a_text_can_hardly_be_told(size, draws):
    """The best linear attack by somebody who knows 2,000 other texts of the same kind, and how much noise there is."""
    rng = np.random.default_rng(size)
    words = [f"w{number}" for number in range(3000)]
    pool = [Example(" ".join(rng.choice(words, 15))) for _ in range(2 * size + 2000)]
    features = text_features([(tokenize(one.text),) for one in pool])
    others = features[2 * size :]
    centre, covariance = others.mean(0), np.cov(others, rowvar=False)
    found = []
    for _ in range(draws):
        inside = rng.permutation(2 * size) < size
        stored = summary([pool[index] for index in np.flatnonzero(inside)])
        noise = covariance.trace() / FEATURES * (1 / stored.effective - 1 / size)
        weights = np.linalg.inv(covariance / size + noise * np.eye(FEATURES)) @ (np.array(stored.mean) - centre)
        scores = (features[: 2 * size] - centre) @ weights
        found.append((scores[inside][:, None] > scores[~inside]).mean())
    assert np.mean(found) <= 0.6


def test_noise_is_the_same_for_the_same_texts_and_the_test_knows_of_it(texts):
    few = texts[0].train[:200]
    one, again = summary(few), summary(few)
    assert one == again
    assert one.effective == pytest.approx(one.texts**2 / 1000)
    features = text_features([tuple(map(tokenize, (pair.text, pair.pair))) for pair in few])
    off = float(np.square(np.array(one.mean) - features.mean(0)).sum())
    assert off == pytest.approx(one.spread[0] * (1 / one.effective - 1 / one.texts), rel=0.5)
    elsewhere = [
        judge(
            60,
            text_features([(tokenize(e.text), tokenize(e.pair)) for e in texts[0].test[s : s + 60]]).mean(0),
            {"a": one},
        ).p
        for s in (0, 60, 120)
    ]
    assert min(elsewhere) > 0.01


def test_few_distinct_texts_have_no_summary(texts):
    few = [Example(f"word {number}") for number in range(MIN_TEXTS)]
    assert summary(few * 20).texts == MIN_TEXTS
    assert summary(few[1:] * 20) is None
    assert summary([Example("word") if number % 3 else one for number, one in enumerate(few * 2)]) is None


# As part of a model


def test_each_stage_adds_its_domain_and_leaves_the_others(texts, tiny, short, tmp_path):
    domains = [Domain(one.name, one.train[:150], one.validation, one.test) for one in texts[:2]]
    learner = Learner.create("finetune+slots+vocab", model=tiny, training=short, device="cpu")
    for domain in domains:
        learner.adapt(domain, folder=tmp_path / "model")
    first, both = (Learner.load(tmp_path / "model", device="cpu", version=number).reference for number in (1, 2))
    assert list(both.domains) == [domain.name for domain in domains]
    assert first.domains[domains[0].name] == both.domains[domains[0].name]
    assert MIN_TEXTS <= both.domains[domains[1].name].texts <= 150
    assert Reference.from_json(json.loads(json.dumps(both.to_json()))) == both
    monitor = learner.drift_monitor(window=40)
    assert set(monitor.add(domains[0].test)[0].tests) == {"distance", "unknown words"}
    alone = Learner.create("in-domain", model=tiny, training=short, device="cpu")
    alone.learn(domains)
    assert list(alone.reference.domains) == [domains[1].name]


def test_the_statistics_can_be_switched_off(texts, tiny, short, tmp_path):
    domain = Domain(texts[0].name, texts[0].train[:150], texts[0].validation, texts[0].test)
    training = replace(short, drift=False)
    Learner.create("finetune+vocab", model=tiny, training=training, device="cpu").adapt(domain, folder=tmp_path / "m")
    loaded = Learner.load(tmp_path / "m", device="cpu")
    assert not loaded.training.drift
    assert not loaded.reference.domains


GOOD = {"stage": 1, "texts": 40, "mean": [0.0] * 128, "spread": [1.0, 1.0, 1.0], "unknown": None, "confidence": None}


def stored(**changes):
    return {**Reference().to_json(), "domains": {"a": GOOD | changes}}


@pytest.mark.parametrize(
    "wrong",
    [
        {**stored(), "domains": None},
        {**stored(), "domains": []},
        {**stored(), "domains": {"a": None}},
        {**stored(), "domains": {"a": {"stage": 1}}},
        stored(mean=[0.0]),
        stored(spread=[1.0, 1.0, float("nan")]),
        stored(spread=[1.0, -1.0, 1.0]),
        stored(texts=0),
    ],
)
def test_a_damaged_file_is_refused_and_an_old_one_is_read(wrong):
    assert Reference.from_json(stored()).domains["a"].texts == 40  # of a version that needed only 30 texts
    assert Reference.from_json({**stored(), "features": "other"}) == Reference()
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        Reference.from_json(wrong)
