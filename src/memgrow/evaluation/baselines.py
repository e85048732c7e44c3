"""Bag-of-words baselines by scikit-learn: one trained domain after domain, one on all data at once."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

from memgrow.data import Example, Stream
from memgrow.data.text import tokenize
from memgrow.evaluation.history import AccuracyMatrix

FEATURES, ALPHA, EPOCHS = 2**18, 3e-6, 5  # hashing, and SGD on each domain
STRENGTH, ITERATIONS = 10.0, 1000  # logistic regression: inverse penalty
INSTALL_SKLEARN = "bag-of-words baselines need scikit-learn: pip install 'memgrow[sklearn]'"


Fitted = tuple[tuple[str, ...], int, Callable[[Sequence[Example]], Any]]
"""A stage of a baseline: the domains it has just learned, its size, and how it predicts."""


@dataclass(frozen=True)
class Baseline:
    """A row of a comparison that is not a memgrow method."""

    about: str
    sees_all: bool
    settings: Mapping[str, float]
    fit: Callable[[Stream, int], Iterator[Fitted]]


def is_installed() -> bool:
    return find_spec("sklearn") is not None


def run_baseline(name: str, stream: Stream, seed: int) -> tuple[AccuracyMatrix, int, float]:
    """Train a baseline and test every domain after each stage: the scores, its parameters, seconds of training."""
    import sklearn.feature_extraction.text
    import sklearn.linear_model  # noqa: F401 - now, so that importing is not counted as training

    matrix, parameters, seconds = AccuracyMatrix(), 0, 0.0
    started = time.monotonic()
    for learned, parameters, predict in REFERENCES[name].fit(stream, seed):  # noqa: B007
        seconds += time.monotonic() - started
        scores = {one.name: float(np.mean(predict(one.test) == _labels(one.test))) for one in stream}
        matrix = matrix.with_row(learned, scores)
        started = time.monotonic()
    return matrix, parameters, round(seconds, 3)


def features_of(example: Example) -> list[str]:
    """Words and bigrams; those of a second text are marked, and so are words that both texts have."""
    words = [tokenize(text) for text in example.texts]
    found: list[str] = []
    for number, some in enumerate(words):
        mark = f"{number}|" if number else ""
        found += [mark + word for word in some]
        found += [f"{mark}{one} {other}" for one, other in pairwise(some)]
    if len(words) > 1:
        found += [f"both|{word}" for word in sorted(set(words[0]).intersection(*words[1:]))]
    return found


def _fit_in_turn(stream: Stream, seed: int) -> Iterator[Fitted]:
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.linear_model import SGDClassifier

    hashing = HashingVectorizer(analyzer=features_of, n_features=FEATURES, alternate_sign=False)
    model, rng = SGDClassifier(loss="log_loss", alpha=ALPHA, random_state=seed), np.random.default_rng(seed)
    classes = np.array(sorted({label for domain in stream for label in domain.labels}), dtype=object)
    for domain in stream:
        features, labels = hashing.transform(domain.train), _labels(domain.train)
        for _ in range(EPOCHS):
            order = rng.permutation(len(labels))
            model.partial_fit(features[order], labels[order], classes=classes)
        yield (domain.name,), _weights(model), lambda rows: model.predict(hashing.transform(rows))


def _fit_all(stream: Stream, seed: int) -> Iterator[Fitted]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    examples = [example for domain in stream for example in domain.train]
    words = TfidfVectorizer(analyzer=features_of, sublinear_tf=True)
    model = LogisticRegression(C=STRENGTH, max_iter=ITERATIONS)
    model.fit(words.fit_transform(examples), _labels(examples))
    yield stream.names, _weights(model), lambda rows: model.predict(words.transform(rows))


def _labels(examples: Sequence[Example]) -> Any:
    return np.array([example.label for example in examples], dtype=object)


def _weights(model: Any) -> int:
    """The weights that are not zero, as a sparse copy would keep them."""
    return int(np.count_nonzero(model.coef_)) + len(model.intercept_)


IN_TURN = {"features": FEATURES, "alpha": ALPHA, "epochs": EPOCHS}
ALL = {"strength": STRENGTH, "iterations": ITERATIONS}
REFERENCES = {
    "bag of words": Baseline("hashing and SGD, domain after domain", False, IN_TURN, _fit_in_turn),
    "bag, all data": Baseline("TF-IDF and logistic regression on everything", True, ALL, _fit_all),
}
