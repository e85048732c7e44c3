"""Drift detection: a summary of each learned domain, a two-sample test, and a running window over new texts.

Two hypotheses are tested, which hold if new texts come from the learned domains in any proportion:

- their mean features are a mixture of the domains' means. The statistic is the squared distance from the nearest
  mixture (a maximum mean discrepancy), distributed as a weighted sum of chi-squares;
- the share of unknown words is not above that of the domain where it is highest.

Privacy: the summary holds means of random features over at least 100 distinct texts, so that no text outweighs others.
Below 1,000 texts noise is added, as each text would show in the mean. The test takes it into account.
"""

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from memgrow.data import Example
from memgrow.data.batches import tokenize_examples
from memgrow.data.disk import finite
from memgrow.data.text import UNKNOWN_INDEX, Vocabulary, tokenize
from memgrow.errors import SettingsError, counted, listed

WINDOW = 100  # texts
ALPHA = 0.01  # share of false alarms
MIN_WINDOW = 20  # texts of a window for which the normal approximation holds
MIN_TEXTS = 100  # distinct training texts of a stored summary: a mean over few can be inverted
EXACT_TEXTS = 1000  # distinct texts whose mean needs no noise: membership is then told with an AUC of at most 0.6
MIN_SHARES = 30  # validation examples of a stored mean share
MAX_TEXTS = 2000  # texts of a domain that are summarized
MAX_WORDS = 400  # words of a text that are read
TINY = 1e-12  # smaller p-values are shown as this
NO_REFERENCE = (
    f"this model has no drift statistics: its domains have fewer than {MIN_TEXTS} different training texts, or it was "
    "trained with drift=false; the next domain with more adds them"
)
DIRECTIONS = 64
FEATURES = 2 * DIRECTIONS
KIND = f"words, {DIRECTIONS} directions by blake2b"  # stored with the features
Vector = NDArray[np.float64]
Words = Sequence[tuple[Sequence[str], ...]]
Tokenizer = Callable[[str], list[str]]


def text_features(examples: Words) -> Vector:
    """Random Fourier features (Rahimi and Recht, 2007), unit vectors (examples, FEATURES).

    A text is the set of its words. The random directions are bits of a hash of the word, so that the features are the
    same on every machine. Products of features approximate a Gaussian kernel.
    """
    signs: dict[tuple[int, str], Any] = {}  # a word of the second text is another word than the same in the first
    projected = np.zeros((len(examples), DIRECTIONS))
    for number, texts in enumerate(examples):
        distinct = {(place, word) for place, text in enumerate(texts) for word in text}
        for place, word in distinct - signs.keys():
            digest = blake2b(f"{place} {word}".encode(errors="surrogatepass"), digest_size=DIRECTIONS // 8).digest()
            signs[place, word] = np.unpackbits(np.frombuffer(digest, np.uint8)) * 2.0 - 1
        if distinct:
            projected[number] = np.sum([signs[word] for word in distinct], axis=0) / math.sqrt(len(distinct))
    return np.concatenate((np.cos(projected), np.sin(projected)), axis=1) / math.sqrt(DIRECTIONS)


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
        enough = len(values) >= MIN_SHARES
        return cls(len(values), float(np.mean(values)), float(np.var(values, ddof=1))) if enough else None


@dataclass(frozen=True)
class DomainReference:
    """The stored summary of one domain."""

    texts: int  # distinct ones
    mean: tuple[float, ...]  # of their features
    spread: tuple[float, float, float]  # traces of S, S S and S S S, S the covariance of their features
    unknown: Shares | None  # share of unknown words in each validation example
    effective: float  # texts whose mean without noise would be as exact


@dataclass(frozen=True)
class Reference:
    """The summaries of all domains that have one: drift.json."""

    domains: Mapping[str, DomainReference] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"features": KIND, "domains": {name: asdict(one) for name, one in self.domains.items()}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Reference":
        """Read it; empty if the features differ, ValueError, KeyError or TypeError if it is damaged."""
        if value["features"] != KIND:
            return cls()
        if finite(value) != value:
            raise ValueError("a number is not finite")
        domains: dict[str, DomainReference] = {}
        for name, one in value["domains"].items():
            texts, mean, spread = one["texts"], tuple(one["mean"]), tuple(one["spread"])
            unknown, effective = one["unknown"] and Shares(**one["unknown"]), one.get("effective", texts)
            if len(mean) != FEATURES or len(spread) != 3 or min(texts, effective, *spread) <= 0:
                raise ValueError("a number is out of range")
            domains[name] = DomainReference(texts, mean, spread, unknown, effective)
        return cls(domains)


def summarize(
    train: Sequence[Example],
    validation: Sequence[Example],
    tokenizer: Tokenizer,
    vocabulary: Vocabulary | None,
) -> DomainReference | None:
    """Summarize a domain over its distinct training texts; None for fewer than MIN_TEXTS.

    `vocabulary` is None for a model without words.
    """
    distinct = {_key(texts): texts for texts in _words(_sample(train), tokenizer)}
    if len(distinct) < MIN_TEXTS:
        return None
    features = text_features(list(distinct.values()))
    covariance = np.cov(features, rowvar=False)
    squared = covariance @ covariance
    effective = min(1.0, len(features) / EXACT_TEXTS) * len(features)
    # Drawn from the texts: the same for the same texts, and unknown without them.
    drawn = np.random.default_rng([*blake2b(repr([[*map(sorted, key)] for key in distinct]).encode()).digest()])
    deviation = math.sqrt(covariance.trace() / FEATURES * (1 / effective - 1 / len(features)))
    return DomainReference(
        len(features),
        tuple(map(float, features.mean(0) + deviation * drawn.normal(size=FEATURES))),
        (float(covariance.trace()), float(squared.trace()), float((squared * covariance).sum())),
        Shares.of(_unknown_shares(_words(_sample(validation), tokenizer), vocabulary)) if vocabulary else None,
        effective,
    )


def _key(texts: Sequence[Sequence[str]]) -> tuple[frozenset[str], ...]:
    """Equal for texts that have the same words, and so the same features."""
    return tuple(map(frozenset, texts))


def _words(examples: Sequence[Example], tokenizer: Tokenizer) -> Words:
    """The words of the inputs; a reply is no input."""
    return tokenize_examples([Example(one.text, one.pair) for one in examples], MAX_WORDS, tokenizer).texts


def _unknown_shares(examples: Words, vocabulary: Vocabulary) -> Vector:
    encoded = [[index for text in texts for index in vocabulary.encode(text)] for texts in examples]
    return np.array([indices.count(UNKNOWN_INDEX) / len(indices) for indices in encoded])


def _sample(examples: Sequence[Example]) -> Sequence[Example]:
    """At most MAX_TEXTS, evenly spaced."""
    count = min(len(examples), MAX_TEXTS)
    return [examples[number * len(examples) // count] for number in range(count)]


# The test of one window


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
    confidence: float | None  # mean probability of the predictions

    def rejected(self, alpha: float) -> list[str]:
        """The hypotheses that are rejected."""
        return [name for name, p in self.tests.items() if len(self.tests) * p <= alpha]


def judge(
    texts: int,
    features: Vector,
    domains: Mapping[str, DomainReference],
    *,
    unknown: float | None = None,
    confidence: float | None = None,
) -> Verdict:
    """Test the means of a window of texts against one or more domains.

    Of the domains' covariances only traces of powers are stored; norms of the sum are bounded by the sum of the norms,
    and choosing the nearest mixture shortens the distance: p is conservative.
    """
    references = list(domains.values())
    means = np.array([one.mean for one in references])
    weights = nearest_mixture(features, means)
    squared = float(np.square(features - weights @ means).sum())
    shares = weights / texts + weights**2 / np.array([one.effective for one in references])
    norms = [shares @ np.array([one.spread[power] ** (1 / (power + 1)) for one in references]) for power in range(3)]
    first, second, third = (float(norm) ** (power + 1) for power, norm in enumerate(norms))
    tests = {"distance": weighted_chi_square_tail(squared, (first, second, third))}
    usual = [one.unknown for one in references if one.unknown is not None]
    if unknown is not None and len(usual) == len(domains):
        tests["unknown words"] = max(_p_above(unknown, one, texts) for one in usual)
    return Verdict(
        texts,
        min(1.0, len(tests) * min(tests.values())),
        tests,
        math.sqrt(squared / first),  # 1 is expected by chance
        {name: float(weight) for name, weight in zip(domains, weights, strict=True) if weight >= 0.005},
        unknown,
        max((one.mean for one in usual), default=None),
        confidence,
    )


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
        moved = float(np.abs(new - weights).max())
        if moved >= tolerance:
            faster = (1 + math.sqrt(1 + 4 * speed**2)) / 2
            ahead = new + (speed - 1) / faster * (new - weights)
        elif speed > 1:  # a step with momentum may stand still where one without does not
            faster, ahead = 1.0, new
        else:
            break
        weights, speed = new, faster
    return weights


def _project_on_simplex(point: Vector) -> Vector:
    falling = np.sort(point)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(point) + 1)
    nearest: Vector = np.maximum(point - excess[int(np.nonzero(falling > excess)[0][-1])], 0)
    return nearest


def _p_above(mean: float, usual: Shares, texts: int) -> float:
    """The p-value of a mean share as high as this.

    The domain gets one more example, of share 1: otherwise identical validation examples would prove anything.
    """
    count = usual.examples + 1
    centre = usual.mean + (1 - usual.mean) / count
    variance = (usual.variance * (count - 2) + (1 - usual.mean) ** 2 * (1 - 1 / count)) / (count - 1)
    error = max(TINY, math.sqrt(variance * (1 / texts + 1 / count)))
    return math.erfc((mean - centre) / error / math.sqrt(2)) / 2


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

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        last = values.pop("verdict") or {}
        found = {key: last.get(key) for key in ("distance", "p", "mixture", "tests", "confidence")}
        return {**values, **found, "unknown_words": last.get("unknown")}


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
        """`vocabulary`: None without words; `learned`: all domains."""
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
        words = _words(examples, self._tokenizer) if self._reference.domains else []
        rows = np.full((len(words), FEATURES + 2), np.nan)  # features, unknown words, confidence
        rows[:, :FEATURES] = text_features(words)
        if self._vocabulary is not None:
            rows[:, FEATURES] = _unknown_shares(words, self._vocabulary)
        if confidences is not None and words:
            rows[:, FEATURES + 1] = confidences
        with self._lock:
            self._texts += len(examples)
            for texts, row in zip(words, rows, strict=True):
                if (key := hash(_key(texts))) not in self._seen:
                    self._seen.add(key)
                    self._sums += row
                    if len(self._seen) == self.window:
                        found.append(self._close())
        return found

    def finish(self) -> Verdict | None:
        """The verdict on the open window at the end of the data; None if it has too few texts."""
        with self._lock:
            return self._close() if len(self._seen) >= MIN_WINDOW else None

    def report(self) -> DriftReport:
        with self._lock:
            last = self._last
            if not self._reference.domains:
                sentence = NO_REFERENCE
            elif last is None:
                sentence = f"no verdict yet: the first window has {len(self._seen)} of {self.window} distinct texts"
            else:
                sentence = in_words(last, self.alpha) + (f"; {self.note}" if self.note else "")
            due = last is not None and last.p <= self.alpha
            return DriftReport(self._texts, self._windows, self._alarms, due, sentence, self.alpha, self.window, last)

    @property
    def note(self) -> str:
        """Which domains have no summary, if there are such."""
        if not self._missing or not self._reference.domains:
            return ""
        return f"texts of {listed(self._missing)} may count as new, as there are no statistics of them"

    def _clear(self) -> None:
        self._sums = np.zeros(FEATURES + 2)
        self._seen: set[int] = set()  # hashes of texts

    def _close(self) -> Verdict:
        texts, means = len(self._seen), self._sums / len(self._seen)
        unknown, confidence = (None if math.isnan(share) else float(share) for share in means[FEATURES:])
        self._clear()  # first: a window that cannot be tested must not stay
        domains = self._reference.domains
        self._last = judge(texts, means[:FEATURES], domains, unknown=unknown, confidence=confidence)
        self._windows += 1
        self._alarms += self._last.p <= self.alpha
        return self._last


def together(verdicts: Sequence[Verdict], alpha: float, texts: int) -> tuple[bool, str]:
    """Whether adapting seems due by all windows of a file (Bonferroni), and the sentence."""
    if not verdicts:
        return False, f"{counted(texts, 'text')}: too few for a test; give {MIN_WINDOW} distinct texts or more"
    each = alpha / len(verdicts)
    new = sum(one.p <= each for one in verdicts)
    if not new:
        return False, f"no window of these {counted(texts, 'text')} differs from the learned domains"
    worst = in_words(min(verdicts, key=lambda one: one.p), each)
    return True, f"{new:,} of {counted(len(verdicts), 'window')} differ from the learned domains; the worst: {worst}"


def in_words(verdict: Verdict, alpha: float) -> str:
    """A verdict as one sentence."""
    mixture = listed(f"{name} {share:.0%}" for name, share in sorted(verdict.mixture.items(), key=lambda one: -one[1]))
    if not (rejected := verdict.rejected(alpha)):
        return f"the last {counted(verdict.texts, 'text')} look like the learned domains ({mixture})"
    unknown, usual_unknown = (f"{share or 0:.1%}" for share in (verdict.unknown, verdict.usual_unknown))
    reasons = {
        "distance": f"their distance from the learned domains is {verdict.distance:.1f} times that expected by chance",
        "unknown words": f"{unknown} of their words are unknown (at most {usual_unknown} before)",
    }
    p = f"p = {verdict.p:.1g}" if verdict.p > TINY else f"p < {TINY:g}"
    why = " and ".join(reasons[name] for name in rejected)
    return f"adapting seems due, by the last {counted(verdict.texts, 'text')}: {why} ({p})"
