"""What a user would pick instead: bags of words by scikit-learn, in turn through the domains and on all data at once.

They stand beside the methods of a comparison: records of the same kind, in the same store.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from memgrow.data import Domain, Example, Stream
from memgrow.experiments.plan import Ledger, labels_of
from memgrow.experiments.run import Record
from memgrow.history import Stage
from memgrow.methods import Grew
from memgrow.text import tokenise

IN_TURN, AT_ONCE = "bag of words", "bag, all data"
HOW_TO_GET = "for bags of words beside them: pip install 'memgrow[sklearn]'"
PARTS = ("validation", "test")
FEATURES, ALPHA, EPOCHS = 2**18, 3e-6, 5  # of hashing, and of SGD on each domain
STRENGTH, ITERATIONS = 10.0, 1000  # of logistic regression: the inverse of its penalty

References = Mapping[str, Mapping[int, Sequence[Record]]]
"""By row and seed, the records of its stages."""


@dataclass(frozen=True)
class Reference:
    """A row that is no method of memgrow."""

    name: str
    about: str
    sees_all: bool
    is_random: bool  # whether its seed matters
    settings: Mapping[str, float]
    learn: Callable[["Texts", int], Iterator["Learnt"]]


@dataclass(frozen=True)
class Learnt:
    """A stage of a reference: what it has learnt by then, and how it answers."""

    learned: tuple[str, ...]
    examples: int
    epochs: int
    weights: int
    seconds: float
    predict: Callable[[Any], Any]
    encode: Callable[[Sequence[Example]], Any]


def is_installed() -> bool:
    try:
        import sklearn  # noqa: F401
    except ImportError:
        return False
    return True


def tokens_of(texts: Sequence[str]) -> list[str]:
    """Words and pairs of neighbours; those of a second text are marked, and so are words that both texts have."""
    found: list[str] = []
    words = [tokenise(text) for text in texts]
    for number, some in enumerate(words):
        mark = f"{number}|" if number else ""
        found += [mark + word for word in some]
        found += [f"{mark}{one} {other}" for one, other in pairwise(some)]
    if len(words) > 1:
        found += [f"both|{word}" for word in sorted(set(words[0]).intersection(*words[1:]))]
    return found


class Texts:
    """A stream as bags of words. Hashing needs no data, so that it is done once for all seeds."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.labels = stream, labels_of(stream)
        self._hashed: dict[int, Any] = {}

    @cached_property
    def _hashing(self) -> Any:
        from sklearn.feature_extraction.text import HashingVectorizer

        return HashingVectorizer(analyzer=_analyse, n_features=FEATURES, alternate_sign=False)

    def hashed(self, examples: Sequence[Example]) -> Any:
        if id(examples) not in self._hashed:
            self._hashed[id(examples)] = self._hashing.transform(examples)
        return self._hashed[id(examples)]


def _analyse(example: Example) -> list[str]:
    return tokens_of(example.texts)


def _labels(examples: Iterable[Example]) -> Any:
    return np.array([example.label for example in examples], dtype=object)


def _in_turn(texts: Texts, seed: int) -> Iterator[Learnt]:
    """Hashing and SGD: each domain in turn, without a look at those before."""
    from sklearn.linear_model import SGDClassifier

    model, chance = SGDClassifier(loss="log_loss", alpha=ALPHA, random_state=seed), np.random.default_rng(seed)
    for domain in texts.stream:
        started = time.monotonic()
        features, labels = texts.hashed(domain.train), _labels(domain.train)
        for _ in range(EPOCHS):
            order = chance.permutation(len(labels))
            model.partial_fit(features[order], labels[order], classes=np.array(texts.labels, dtype=object))
        seconds = time.monotonic() - started
        sizes = (len(labels), EPOCHS, _weights(model))
        yield Learnt((domain.name,), *sizes, seconds, model.predict, texts.hashed)


def _at_once(texts: Texts, seed: int) -> Iterator[Learnt]:
    """TF-IDF and logistic regression on all domains."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    started = time.monotonic()
    examples = [example for domain in texts.stream for example in domain.train]
    words = TfidfVectorizer(analyzer=_analyse, sublinear_tf=True)
    model = LogisticRegression(C=STRENGTH, max_iter=ITERATIONS)
    model.fit(words.fit_transform(examples), _labels(examples))
    sizes = (len(examples), int(np.max(model.n_iter_)), _weights(model))
    yield Learnt(texts.stream.names, *sizes, time.monotonic() - started, model.predict, words.transform)


def _weights(model: Any) -> int:
    """Those that are not zero, which a sparse copy would keep."""
    return int(np.count_nonzero(model.coef_)) + len(model.intercept_)


REFERENCES = {
    reference.name: reference
    for reference in (
        Reference(
            IN_TURN,
            "hashing and SGD, domain after domain",
            False,
            True,
            {"features": FEATURES, "alpha": ALPHA, "epochs": EPOCHS},
            _in_turn,
        ),
        Reference(
            AT_ONCE,
            "TF-IDF and logistic regression on everything",
            True,
            False,
            {"strength": STRENGTH, "iterations": ITERATIONS},
            _at_once,
        ),
    )
}


def reference_records(ledger: Ledger, seeds: Iterable[int]) -> dict[str, dict[int, tuple[Record, ...]]]:
    """The records of each reference by seed: those of the ledger's store, and what is missing is made.

    There are none where all examples have one label, which scikit-learn refuses to learn.
    """
    some, texts = list(seeds), Texts(ledger.stream)
    found: dict[str, dict[int, tuple[Record, ...]]] = {}
    for reference in REFERENCES.values() if len(texts.labels) > 1 else ():
        for seed in some if reference.is_random else some[:1]:
            found.setdefault(reference.name, {})[seed] = _records(reference, texts, seed, ledger)
        if not reference.is_random:
            found[reference.name] = dict.fromkeys(some, found[reference.name][some[0]])
    return found


def _records(reference: Reference, texts: Texts, seed: int, ledger: Ledger) -> tuple[Record, ...]:
    names = ledger.stream.names
    stages = [names] if reference.sees_all else [names[: number + 1] for number in range(len(names))]
    keys = [_key(reference, learns, seed, ledger) for learns in stages]
    known = [record for key in keys if (record := ledger.store.get(key)) and record.held_out == ledger.held_out]
    if len(known) == len(keys):
        return tuple(_in_order(record, names) for record in known)
    made = []
    for key, learns, learnt in zip(keys, stages, reference.learn(texts, seed), strict=True):
        made.append(_record(key, reference, learns, learnt, seed, ledger))
        ledger.store.put(made[-1])
    return tuple(made)


def _in_order(record: Record, names: Sequence[str]) -> Record:
    """With domains as the stream has them: a file has them by their letters."""
    validation, test = ({name: getattr(record, part)[name] for name in names} for part in PARTS)
    return replace(record, validation=validation, test=test)


def _key(reference: Reference, learns: Sequence[str], seed: int, ledger: Ledger) -> str:
    """Tells a stage from every other, as `Run.key` does for methods."""
    parts = {
        "reference": reference.name,
        "settings": dict(reference.settings),
        "learns": list(learns),
        "seed": seed if reference.is_random else None,
        "data": [ledger.data[name] for name in learns],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def _record(key: str, reference: Reference, learns: Sequence[str], learnt: Learnt, seed: int, ledger: Ledger) -> Record:
    right = {part: {domain.name: _right(learnt, domain, part) for domain in ledger.stream} for part in PARTS}
    own = [one for name in learnt.learned for one in right["validation"][name]]
    stage = Stage(
        learned=learnt.learned,
        method=reference.name,
        grew=Grew(),
        parameters=learnt.weights,
        examples=learnt.examples,
        epochs=learnt.epochs,
        best_epoch=learnt.epochs,
        validation=float(np.mean(own)) if own else 0.0,
        seconds=round(learnt.seconds, 3),
        fingerprint=" ".join(ledger.data[name] for name in learnt.learned),
    )
    run = {"method": reference.name, "learns": list(learns), "seed": seed, "options": dict(reference.settings)}
    return Record(key, stage, right["validation"], right["test"], run, dict(ledger.held_out))


def _right(learnt: Learnt, domain: Domain, part: str) -> tuple[bool, ...]:
    examples = getattr(domain, part)
    if not examples:
        return ()
    return tuple(map(bool, learnt.predict(learnt.encode(examples)) == _labels(examples)))
