"""How varied and how long replies are: distinct-1, distinct-2 and their mean length."""

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from memgrow.metrics.words import Texts, check_words, ngrams


@dataclass(frozen=True)
class Diversity:
    """Shares from 0 to 1 of different words, and pairs of words, among all; and words in a reply."""

    distinct_1: float
    distinct_2: float
    mean_length: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def diversity(outputs: Texts) -> Diversity:
    """Of all outputs together, given as words. It falls as there are more of them: compare sets of one size."""
    check_words(outputs)
    return Diversity(distinct(outputs, 1), distinct(outputs, 2), fmean(len(words) for words in outputs))


def distinct(outputs: Texts, order: int) -> float:
    """Different runs of so many words, as a share of all such runs within outputs; 0 if there are none."""
    runs = [run for words in outputs for run in ngrams(words, order)]
    return len(set(runs)) / len(runs) if runs else 0.0
