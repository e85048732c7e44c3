"""The summary of each learnt domain that new texts are held against; it is stored with the model.

Of a domain's training texts it has the mean of their random features and three numbers about how these are spread; of
its validation examples, how many words the model did not know and how sure it was. No text and no word is in it, and a
mean over dozens of texts cannot be turned back into any of them. The features do not depend on the model: what was
noted of a domain stays true while the model goes on to learn others, whose texts alone are at hand then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memgrow.data import Example
from memgrow.data.batches import tokenize_examples
from memgrow.data.vocabulary import UNKNOWN_INDEX, Vocabulary
from memgrow.drift.random_features import FEATURES, KIND, text_features
from memgrow.storage import finite

MOST = 2000  # texts of a domain that are looked at
LEAST = 30  # texts without which nothing is noted: a mean over few tells of each
MOST_WORDS = 400  # of a text that are looked at
Words = Sequence[tuple[Sequence[str], ...]]
Tokenizer = Callable[[str], list[str]]


@dataclass(frozen=True)
class Shares:
    """The mean of a share that each of some examples has, and how far they are spread."""

    examples: int
    mean: float
    variance: float  # of single examples

    @classmethod
    def of(cls, values: Sequence[float] | NDArray[np.float64]) -> "Shares | None":
        """None if there are too few to tell."""
        if len(values) < LEAST:
            return None
        return cls(len(values), float(np.mean(values)), float(np.var(values, ddof=1)))


@dataclass(frozen=True)
class DomainReference:
    """What is known of a domain's texts."""

    stage: int  # in which it was learnt, counted from 1
    texts: int  # that were looked at
    mean: tuple[float, ...]  # of their features
    spread: tuple[float, float, float]  # of their features' covariance S: the traces of S, S S and S S S
    unknown: Shares | None  # words that the model did not know, of the words of each validation example
    confidence: Shares | None  # probability of the answer to each validation example


@dataclass(frozen=True)
class Reference:
    """What is known of all domains that were learnt; none of those learnt before such things were noted."""

    domains: Mapping[str, DomainReference] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"features": KIND, "domains": {name: asdict(one) for name, one in self.domains.items()}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Reference":
        """Read it; one of other features is none. Where it makes no sense, some error, or a ValueError."""
        if value["features"] != KIND:
            return cls()
        if finite(value) != value:
            raise ValueError("there is a number that is not finite")
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
                raise ValueError("there is a number that cannot be")
        return cls(domains)


def summarise(
    train: Sequence[Example],
    validation: Sequence[Example],
    tokenizer: Tokenizer,
    vocabulary: Vocabulary | None,
    confidences: Sequence[float],
    stage: int,
) -> DomainReference | None:
    """What is to be known of a domain; None if it has too few texts.

    The vocabulary is that of a model which knows words; `confidences` are of its answers, if it gives labels.
    """
    if len(train) < LEAST:
        return None
    features = text_features(words_of(_some(train), tokenizer)).astype(np.float64)
    covariance = np.cov(features, rowvar=False)
    twice = covariance @ covariance
    spread = (covariance.trace(), twice.trace(), (twice * covariance).sum())
    unknown = None if vocabulary is None else unknown_shares(words_of(_some(validation), tokenizer), vocabulary)
    return DomainReference(
        stage,
        len(features),
        tuple(map(float, features.mean(0))),
        (float(spread[0]), float(spread[1]), float(spread[2])),
        None if unknown is None else Shares.of(unknown),
        Shares.of(confidences),
    )


def words_of(examples: Sequence[Example], tokenizer: Tokenizer) -> Words:
    """The words of what is asked; a reply is no part of it."""
    asked = [Example(one.text, one.pair) for one in examples]
    return tokenize_examples(asked, MOST_WORDS, tokenizer).texts


def unknown_shares(examples: Words, vocabulary: Vocabulary) -> NDArray[np.float64]:
    """The share of the words of each example that the vocabulary does not have."""
    shares = np.empty(len(examples))
    for number, texts in enumerate(examples):
        numbers = [index for text in texts for index in vocabulary.encode(text)]
        shares[number] = numbers.count(UNKNOWN_INDEX) / len(numbers)
    return shares


def _some(examples: Sequence[Example]) -> Sequence[Example]:
    """As many as are looked at, from the whole length of the data."""
    count = min(len(examples), MOST)
    return [examples[number * len(examples) // count] for number in range(count)]
