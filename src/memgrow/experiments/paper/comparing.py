"""Rows of a sheet against one of them: the paper's test, and one over seeds and examples with Holm's correction."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memgrow.metrics.paper_test import paper_test
from memgrow.metrics.seeds_and_examples import paired_over_examples
from memgrow.metrics.significance import holm, paired_over_seeds

Answers = Mapping[int, Mapping[str, NDArray[np.bool_]]]
"""By seed and genre, which examples were answered right."""

Line = dict[str, Any]
DIGITS = 6  # of a p-value that is kept
RESAMPLES = 100  # the bootstrap's interval is not shown: the one by Student's t holds with few seeds as well


def add_tests(
    lines: Sequence[Line],
    answers: Sequence[Answers],
    columns: Mapping[str, Sequence[str]],
    label: str,
    reference: Mapping[str, str],
    later: bool = False,
) -> None:
    """Put a test, called `label`, into every cell that has seeds in common with the reference's of its column.

    With `later` only rows below the reference are tested.
    Holm's correction counts all rows and single genres together; means over several genres are a family of their own.
    """
    names = [line["name"] for line in lines]
    for single in (True, False):
        family: dict[str, Line] = {}
        for column in (column for column, genres in columns.items() if (len(genres) == 1) == single):
            if reference.get(column) not in names:
                continue
            at = names.index(reference[column])
            for number, test in _tests(answers, at, columns[column]):
                if later and number < at:
                    continue
                lines[number]["cells"][column].setdefault("tests", {})[label] = test
                family[f"{number} {column}"] = test
        for key, adjusted in holm({key: test["p"] for key, test in family.items()}).items():
            family[key]["p_holm"] = _rounded(adjusted)
            family[key]["p"] = _rounded(family[key]["p"])


def _tests(answers: Sequence[Answers], at: int, genres: Sequence[str]) -> Iterator[tuple[int, Line]]:
    for number, given in enumerate(answers):
        common = sorted(set(given) & set(answers[at]))
        known = all(set(genres) <= set(row[seed]) for row in (given, answers[at]) for seed in common)
        if number != at and common and known:
            other, ours = (
                np.stack([np.concatenate([row[seed][genre] for genre in genres]) for seed in common])
                for row in (given, answers[at])
            )  # (seeds, examples)
            yield number, compare(ours, other)


def compare(ours: NDArray[np.bool_], other: NDArray[np.bool_]) -> Line:
    """A row against the reference, from (seeds, examples) of each; differences in points, below 0 where it is worse."""
    paper = paper_test(ours, other)
    both = paired_over_examples(other, ours, resamples=RESAMPLES)
    seeds = paired_over_seeds(other.mean(axis=1), ours.mean(axis=1))
    arrows = Counter(paper_test(us, them).arrow or "none" for us, them in zip(ours, other, strict=True))
    return {
        "arrow": paper.arrow,
        "arrows": {name: arrows[name] for name in ("DOWN", "down", "none", "up", "UP") if arrows[name]},
        "p_paper": _rounded(min(paper.p_worse, paper.p_better)),
        "seeds": both.seeds,
        "difference": _points(both.difference),
        "low": _points(both.low),
        "high": _points(both.high),
        "p": both.p,
        "p_over_seeds": _rounded(seeds.p_t),
        "p_mcnemar": _rounded(both.mcnemar.p),
    }


def _points(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 3)


def _rounded(p: float | None) -> float | None:
    return None if p is None else round(p, DIGITS)
