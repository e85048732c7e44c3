"""Drift detection: a summary of each learned domain, a two-sample test, and a running window over new texts.

Three hypotheses are tested, each of which holds if new texts come from the learned domains in any proportion:

- their mean features are a mixture of the domains' means. The statistic is the squared distance from the nearest
  mixture (a maximum mean discrepancy), distributed as a weighted sum of chi-squares;
- the share of unknown words is not above that of the domain where it is highest;
- the confidence is not below that of the domain where it is lowest. This is tested only where all domains were learned
  in one stage: that of earlier domains was measured before the model changed.

Privacy: the summary holds means of random features over at least 100 distinct texts, so that no text outweighs others.
"""

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from memgrow.data import Example
from memgrow.data.batches import tokenize_examples
from memgrow.data.disk import finite
from memgrow.data.text import tokenize
from memgrow.data.vocabulary import UNKNOWN_INDEX, Vocabulary
from memgrow.errors import SettingsError, counted, listed
from memgrow.evaluation.random_features import FEATURES, KIND, text_features

WINDOW = 100  # texts
ALPHA = 0.01  # share of false alarms
MIN_WINDOW = 20  # texts of a window for which the normal approximation holds
MIN_TEXTS = 100  # distinct training texts of a stored summary: a mean over few can be inverted
MIN_SHARES = 30  # validation examples of a stored mean share
MAX_TEXTS = 2000  # texts of a domain that are summarized
MAX_WORDS = 400  # words of a text that are read
TINY = 1e-12  # smaller p-values are shown as this
NO_REFERENCE = (
    "this model has no drift statistics: it was saved by an early version or trained on fewer than "
    f"{MIN_TEXTS} distinct texts; the next domain with enough texts adds them"
)
Vector = NDArray[np.float64]
Words = Sequence[tuple[Sequence[str], ...]]
Tokenizer = Callable[[str], list[str]]


# The stored summary


@dataclass(frozen=True)
class Shares:
    """Mean and variance of a share over single examples."""

    examples: int
    mean: float
    variance: float

    @classmethod
    def of(cls, values: Sequence[float] | Vector) -> "Shares | None":
        """None if there are too few."""
        if len(values) < MIN_SHARES:
            return None
        return cls(len(values), float(np.mean(values)), float(np.var(values, ddof=1)))


@dataclass(frozen=True)
class DomainReference:
    """The stored summary of one domain."""

    stage: int  # in which it was learned, counted from 1
    texts: int  # distinct ones
    mean: tuple[float, ...]  # of their features
    spread: tuple[float, float, float]  # traces of S, S S and S S S, S the covariance of their features
    unknown: Shares | None  # share of unknown words in each validation example
    confidence: Shares | None  # probability of the predicted label of each validation example


@dataclass(frozen=True)
class Reference:
    """The summaries of all domains that have one: drift.json."""

    domains: Mapping[str, DomainReference] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"features": KIND, "domains": {name: asdict(one) for name, one in self.domains.items()}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Reference":
        """Read it; empty if the features differ. ValueError, KeyError or TypeError where it makes no sense."""
        if value["features"] != KIND:
            return cls()
        if finite(value) != value:
            raise ValueError("a number is not finite")
        domains = {
            name: DomainReference(
                one["stage"],
                one["texts"],
                tuple(one["mean"]),
                tuple(one["spread"]),
                *(None if one[part] is None else Shares(**one[part]) for part in ("unknown", "confidence")),
            )
            for name, one in value["domains"].items()
        }
        for one in domains.values():
            shares = [part for part in (one.unknown, one.confidence) if part is not None]
            counts = (one.texts, *(part.examples for part in shares))
            squares = (*one.spread, *(part.variance for part in shares))
            if len(one.mean) != FEATURES or len(one.spread) != 3 or min(counts) < 1 or min(squares) < 0:
                raise ValueError("a number is out of range")
        return cls(domains)


def summarize(
    train: Sequence[Example],
    validation: Sequence[Example],
    *,
    tokenizer: Tokenizer,
    vocabulary: Vocabulary | None,
    confidences: Sequence[float],
    stage: int,
) -> DomainReference | None:
    """Summarize a domain over its distinct training texts; None if these are fewer than MIN_TEXTS.

    `vocabulary` is None for a model without words; `confidences` are empty for a model without labels.
    """
    words = list(_distinct(_words(_sample(train), tokenizer)).values())
    if len(words) < MIN_TEXTS:
        return None
    features = text_features(words).astype(np.float64)
    covariance = np.cov(features, rowvar=False)
    squared = covariance @ covariance
    unknown = None if vocabulary is None else _unknown_shares(_words(_sample(validation), tokenizer), vocabulary)
    return DomainReference(
        stage,
        len(features),
        tuple(map(float, features.mean(0))),
        (float(covariance.trace()), float(squared.trace()), float((squared * covariance).sum())),
        None if unknown is None else Shares.of(unknown),
        Shares.of(confidences),
    )


def _distinct(words: Words) -> dict[tuple[frozenset[str], ...], tuple[Sequence[str], ...]]:
    """One of all texts that have the same set of words, and so the same features."""
    return {tuple(map(frozenset, texts)): texts for texts in words}


def _words(examples: Sequence[Example], tokenizer: Tokenizer) -> Words:
    """The words of the inputs; a reply is no input."""
    return tokenize_examples([Example(one.text, one.pair) for one in examples], MAX_WORDS, tokenizer).texts


def _unknown_shares(examples: Words, vocabulary: Vocabulary) -> Vector:
    shares = np.empty(len(examples))
    for number, texts in enumerate(examples):
        indices = [index for text in texts for index in vocabulary.encode(text)]
        shares[number] = indices.count(UNKNOWN_INDEX) / len(indices)
    return shares


def _sample(examples: Sequence[Example]) -> Sequence[Example]:
    """At most MAX_TEXTS, evenly spaced."""
    count = min(len(examples), MAX_TEXTS)
    return [examples[number * len(examples) // count] for number in range(count)]


# The test of one window


@dataclass(frozen=True)
class Window:
    """The means of some texts."""

    texts: int
    features: Vector  # (FEATURES)
    unknown: float | None  # share of words
    confidence: float | None


@dataclass(frozen=True)
class Verdict:
    """The result of the tests of one window."""

    texts: int
    p: float  # of all tests together (Bonferroni)
    tests: Mapping[str, float]  # p of each
    distance: float  # from the nearest mixture, 1: as expected by chance
    mixture: Mapping[str, float]  # the nearest one
    unknown: float | None
    usual_unknown: float | None  # of the domain with the most
    confidence: float | None
    usual_confidence: float | None  # of the domain with the lowest

    def rejected(self, alpha: float) -> list[str]:
        """The hypotheses that Holm's procedure rejects."""
        for rank, p in enumerate(sorted(self.tests.values())):
            if p * (len(self.tests) - rank) > alpha:
                return [name for name, one in self.tests.items() if one < p]
        return list(self.tests)


def judge(window: Window, domains: Mapping[str, DomainReference], all_known: bool = True) -> Verdict:
    """Test a window against one or more domains; `all_known`: no other domain was learned."""
    weights, distance, p = _test_distance(window, list(domains.values()))
    tests = {"distance": p}
    unknown = [one.unknown for one in domains.values() if one.unknown is not None]
    confidence = [one.confidence for one in domains.values() if one.confidence is not None]
    if window.unknown is not None and len(unknown) == len(domains):
        tests["unknown words"] = max(_p_above(window.unknown, one, window.texts) for one in unknown)
    one_stage = all_known and len({one.stage for one in domains.values()}) == 1
    if window.confidence is not None and one_stage and len(confidence) == len(domains):
        tests["confidence"] = max(_p_above(window.confidence, one, window.texts, below=True) for one in confidence)
    return Verdict(
        window.texts,
        min(1.0, len(tests) * min(tests.values())),
        tests,
        distance,
        {name: float(weight) for name, weight in zip(domains, weights, strict=True) if weight >= 0.005},
        window.unknown,
        max((one.mean for one in unknown), default=None),
        window.confidence,
        min((one.mean for one in confidence), default=None),
    )


def _test_distance(window: Window, domains: Sequence[DomainReference]) -> tuple[Vector, float, float]:
    """The nearest mixture, its distance relative to chance, and the p-value.

    Of the domains' covariances only traces of powers are stored; norms of the sum are bounded by the sum of the norms,
    and choosing the nearest mixture shortens the distance: p is conservative.
    """
    means = np.array([one.mean for one in domains])
    weights = nearest_mixture(window.features, means)
    squared = float(np.square(window.features - weights @ means).sum())
    shares = weights / window.texts + weights**2 / np.array([one.texts for one in domains])
    norms = [shares @ np.array([one.spread[power] ** (1 / (power + 1)) for one in domains]) for power in range(3)]
    first, second, third = (float(norm) ** (power + 1) for power, norm in enumerate(norms))
    if first <= 0:  # all texts of the domains were alike
        return weights, math.inf if squared > 0 else 0.0, 0.0 if squared > 1e-12 else 1.0
    return weights, math.sqrt(squared / first), weighted_chi_square_tail(squared, (first, second, third))


def weighted_chi_square_tail(value: float, power_sums: tuple[float, float, float]) -> float:
    """P(sum of weighted chi-squares > value), given the sums of the weights' powers.

    Three moments are matched by a shifted and scaled chi-square (Hall, 1983; Buckley and Eagleson, 1988).
    """
    first, second, third = power_sums
    freedom = second**3 / third**2
    scaled = max(0.0, freedom + (value - first) * second / third)
    shape, at = torch.tensor([freedom / 2, scaled / 2], dtype=torch.double)
    return float(torch.special.gammaincc(shape, at))


def nearest_mixture(point: Vector, means: Vector, steps: int = 500, tolerance: float = 1e-7) -> Vector:
    """The weights on the simplex whose mixture of means (domains, F) is nearest to a point (F): FISTA."""
    largest = float(np.linalg.norm(means, 2)) ** 2  # the Lipschitz constant
    weights = ahead = np.full(len(means), 1 / len(means))
    speed = 1.0
    for _ in range(steps if len(means) > 1 and largest > 0 else 0):
        new = _project_on_simplex(ahead - means @ (ahead @ means - point) / largest)
        faster = (1 + math.sqrt(1 + 4 * speed**2)) / 2
        ahead, moved = new + (speed - 1) / faster * (new - weights), float(np.abs(new - weights).max())
        weights, speed = new, faster
        if moved < tolerance:
            break
    return weights


def _project_on_simplex(point: Vector) -> Vector:
    falling = np.sort(point)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(point) + 1)
    nearest: Vector = np.maximum(point - excess[int(np.nonzero(falling > excess)[0][-1])], 0)
    return nearest


def _p_above(mean: float, usual: Shares, texts: int, below: bool = False) -> float:
    """The p-value of a mean share as high (or low) as this.

    The domain gets one more example at the far end: otherwise identical validation examples would prove anything.
    """
    count, end = usual.examples + 1, 0.0 if below else 1.0
    centre = usual.mean + (end - usual.mean) / count
    variance = (usual.variance * (count - 2) + (end - usual.mean) ** 2 * (1 - 1 / count)) / (count - 1)
    error = math.sqrt(variance * (1 / texts + 1 / count))
    if error == 0:
        return 1.0
    return math.erfc((centre - mean if below else mean - centre) / error / math.sqrt(2)) / 2


# The monitor


@dataclass(frozen=True)
class DriftReport:
    """The state of a monitor; the verdict is that of the last full window."""

    texts: int  # seen in all
    windows: int  # full ones
    alarms: int  # of these
    due: bool  # whether adapting seems due
    sentence: str
    alpha: float
    window: int  # texts
    verdict: Verdict | None
    unknown_words: float | None  # of the last full window or, before there is one, so far
    confidence: float | None

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        verdict = values.pop("verdict")
        return {**values, **{key: verdict and verdict[key] for key in ("distance", "p", "mixture", "tests")}}


class DriftMonitor:
    """Consecutive windows of distinct texts, each tested when it is full; keeps sums, no texts. Thread-safe."""

    def __init__(
        self,
        reference: Reference,
        vocabulary: Vocabulary | None = None,
        learned: Iterable[str] = (),
        *,
        tokenizer: Tokenizer = tokenize,
        window: int = WINDOW,
        alpha: float = ALPHA,
    ) -> None:
        """`vocabulary` is None for a model without words; `learned` are all domains of the model."""
        if window < MIN_WINDOW:
            raise SettingsError(f"a window of {window} texts is too small: give {MIN_WINDOW} or more")
        if not 0 < alpha < 1:
            raise SettingsError(f"alpha, the share of false alarms, must be between 0 and 1, not {alpha:g}")
        self.window, self.alpha = window, alpha
        self._reference, self._vocabulary, self._tokenizer = reference, vocabulary, tokenizer
        self._missing = [name for name in learned if name not in reference.domains]
        self._lock = threading.Lock()
        self._texts = self._windows = self._alarms = 0
        self._last: Verdict | None = None
        self._clear()

    def add(self, examples: Sequence[Example], confidences: Sequence[float] | None = None) -> list[Verdict]:
        """Add texts and the probabilities of their predictions; returns the verdicts on windows that are now full.

        A text that repeats one of its window is not counted again, as in the stored summary.
        """
        found: list[Verdict] = []
        keys, rows = self._rows(examples, confidences) if self._reference.domains else ([], np.empty((0, 0)))
        with self._lock:
            self._texts += len(examples)
            for key, row in zip(keys, rows, strict=True):
                if key in self._seen:
                    continue
                self._seen.add(key)
                self._sums += row
                self._confident &= confidences is not None
                if len(self._seen) == self.window:
                    found.append(self._close())
        return found

    def finish(self) -> Verdict | None:
        """The verdict on the open window at the end of the data; None if it has too few texts."""
        with self._lock:
            return self._close() if len(self._seen) >= MIN_WINDOW else None

    def report(self) -> DriftReport:
        with self._lock:
            last, shown = self._last, self._last or self._means()
            return DriftReport(
                texts=self._texts,
                windows=self._windows,
                alarms=self._alarms,
                due=last is not None and last.p <= self.alpha,
                sentence=self._sentence(),
                alpha=self.alpha,
                window=self.window,
                verdict=last,
                unknown_words=shown.unknown if shown else None,
                confidence=shown.confidence if shown else None,
            )

    @property
    def note(self) -> str:
        """Which domains have no summary, if there are such."""
        if not self._missing or not self._reference.domains:
            return ""
        return f"texts of {listed(self._missing)} may count as new, as there are no statistics of them"

    def _rows(self, examples: Sequence[Example], confidences: Sequence[float] | None) -> tuple[list[int], Vector]:
        words = _words(examples, self._tokenizer)
        rows = np.zeros((len(examples), FEATURES + 2))
        rows[:, :FEATURES] = text_features(words)
        if self._vocabulary is not None:
            rows[:, FEATURES] = _unknown_shares(words, self._vocabulary)
        if confidences is not None:
            rows[:, FEATURES + 1] = confidences
        return [hash(tuple(map(frozenset, texts))) for texts in words], rows

    # The rest runs under the lock.

    def _clear(self) -> None:
        self._sums = np.zeros(FEATURES + 2)  # features, unknown words, confidence
        self._seen: set[int] = set()
        self._confident = True  # all texts of the window came with a confidence

    def _means(self) -> Window | None:
        if not self._seen:
            return None
        means = self._sums / len(self._seen)
        unknown = None if self._vocabulary is None else float(means[FEATURES])
        confidence = float(means[FEATURES + 1]) if self._confident else None
        return Window(len(self._seen), means[:FEATURES], unknown, confidence)

    def _close(self) -> Verdict:
        window = self._means()
        assert window is not None
        self._clear()  # first: a window that cannot be tested must not stay
        self._last = judge(window, self._reference.domains, not self._missing)
        self._windows += 1
        self._alarms += self._last.p <= self.alpha
        return self._last

    def _sentence(self) -> str:
        if not self._reference.domains:
            return NO_REFERENCE
        if self._last is None:
            return f"no verdict yet: the first window has {len(self._seen)} of {self.window} distinct texts"
        said = in_words(self._last, self.alpha)
        return f"{said}; {self.note}" if self.note else said


def together(verdicts: Sequence[Verdict], alpha: float, texts: int) -> tuple[bool, str]:
    """Whether adapting seems due by all windows of a file (Bonferroni), and the sentence."""
    if not verdicts:
        return False, f"{counted(texts, 'text')}: too few for a test; give {MIN_WINDOW} distinct texts or more"
    worst = min(verdicts, key=lambda one: one.p)
    each = alpha / len(verdicts)
    new = sum(one.p <= each for one in verdicts)
    if not new:
        return False, f"no window of these {counted(texts, 'text')} differs from the learned domains"
    said = in_words(worst, each)
    if len(verdicts) == 1:
        return True, said
    return True, f"{new:,} of {counted(len(verdicts), 'window')} differ from the learned domains; the worst: {said}"


def in_words(verdict: Verdict, alpha: float) -> str:
    """A verdict as one sentence."""
    mixture = listed(f"{name} {share:.0%}" for name, share in sorted(verdict.mixture.items(), key=lambda one: -one[1]))
    if not (rejected := verdict.rejected(alpha)):
        return f"the last {counted(verdict.texts, 'text')} look like the learned domains ({mixture})"
    unknown, usual_unknown = (f"{share or 0:.1%}" for share in (verdict.unknown, verdict.usual_unknown))
    confidence, usual = (f"{share or 0:.0%}" for share in (verdict.confidence, verdict.usual_confidence))
    reasons = {
        "distance": f"their distance from the learned domains is {verdict.distance:.1f} times that expected by chance",
        "unknown words": f"{unknown} of their words are unknown (at most {usual_unknown} before)",
        "confidence": f"mean confidence is {confidence} (at least {usual} before)",
    }
    p = f"p = {verdict.p:.1g}" if verdict.p > TINY else f"p < {TINY:g}"
    why = " and ".join(reasons[name] for name in rejected)
    return f"adapting seems due, by the last {counted(verdict.texts, 'text')}: {why} ({p})"
