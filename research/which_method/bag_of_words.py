"""What a user would pick instead: bags of words by scikit-learn, domain by domain and on all data."""

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

import numpy as np

from memgrow import Example, Stream
from research.common.corpora import labels_of
from research.common.matrix import Matrix

IN_TURN, AT_ONCE = "bag of words", "bag, all data"
FEATURES, ALPHA, EPOCHS = 2**18, 3e-6, 5  # of hashing, and of SGD on each domain
STRENGTH, ITERATIONS = 10.0, 1000  # of logistic regression: the inverse of its penalty


def references_on(stream: Stream, seeds: Sequence[int]) -> dict[str, Any]:
    """By row: average accuracy, forgetting and seconds over the seeds."""
    in_turn = {seed: _in_turn(stream, seed) for seed in seeds}
    at_once = dict.fromkeys(seeds, _at_once(stream))
    return {name: _summary(runs) for name, runs in ((IN_TURN, in_turn), (AT_ONCE, at_once))}


def _tokens(example: Example) -> list[str]:
    """Words and pairs of neighbours; those of a second text are marked, and so are words that both texts have."""
    from memgrow.data.text import tokenize

    found: list[str] = []
    words = [list(tokenize(text)) for text in example.texts]
    for number, some in enumerate(words):
        mark = f"{number}|" if number else ""
        found += [mark + word for word in some]
        found += [f"{mark}{one} {other}" for one, other in pairwise(some)]
    if len(words) > 1:
        found += [f"both|{word}" for word in sorted(set(words[0]).intersection(*words[1:]))]
    return found


def _labels(examples: Sequence[Example]) -> Any:
    return np.array([example.label for example in examples], dtype=object)


def _in_turn(stream: Stream, seed: int) -> tuple[Matrix, float]:
    """Hashing and SGD: each domain in turn, without a look at those before."""
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.linear_model import SGDClassifier

    words = HashingVectorizer(analyzer=_tokens, n_features=FEATURES, alternate_sign=False)
    model, rng = SGDClassifier(loss="log_loss", alpha=ALPHA, random_state=seed), np.random.default_rng(seed)
    classes, matrix, seconds = np.array(labels_of(stream), dtype=object), Matrix(), 0.0
    tests = {domain.name: words.transform(domain.test) for domain in stream}
    for domain in stream:
        features, labels, started = words.transform(domain.train), _labels(domain.train), time.monotonic()
        for _ in range(EPOCHS):
            order = rng.permutation(len(labels))
            model.partial_fit(features[order], labels[order], classes=classes)
        seconds += time.monotonic() - started
        matrix.add((domain.name,), _scores(model, stream, tests))
    return matrix, seconds


def _at_once(stream: Stream) -> tuple[Matrix, float]:
    """TF-IDF and logistic regression on all domains."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    started, examples = time.monotonic(), [example for domain in stream for example in domain.train]
    words, model = (
        TfidfVectorizer(analyzer=_tokens, sublinear_tf=True),
        LogisticRegression(C=STRENGTH, max_iter=ITERATIONS),
    )
    model.fit(words.fit_transform(examples), _labels(examples))
    matrix, seconds = Matrix(), time.monotonic() - started
    matrix.add(stream.names, _scores(model, stream, {domain.name: words.transform(domain.test) for domain in stream}))
    return matrix, seconds


def _scores(model: Any, stream: Stream, tests: dict[str, Any]) -> dict[str, float]:
    return {one.name: float(np.mean(model.predict(tests[one.name]) == _labels(one.test))) for one in stream}


def _summary(runs: dict[int, tuple[Matrix, float]]) -> dict[str, Any]:
    values = {
        "average": {seed: matrix.average() for seed, (matrix, _) in runs.items()},
        "forgetting": {seed: matrix.forgetting() for seed, (matrix, _) in runs.items()},
        "seconds": {seed: seconds for seed, (_, seconds) in runs.items()},
    }
    return {name: _over_seeds(some) for name, some in values.items()}


def _over_seeds(values: Mapping[int, float | None]) -> dict[str, Any]:
    seeds = {seed: value for seed, value in values.items() if value is not None}
    known = list(seeds.values())
    spread = stdev(known) if len(known) > 1 else None
    return {"mean": fmean(known) if known else None, "spread": spread, "seeds": seeds}
