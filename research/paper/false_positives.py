"""How often the paper's significance test gives an arrow where there is nothing.

    python -m research.paper.false_positives --runs results/paper/runs --out results/paper/false-positives.json

Simulated pairs of equal methods, and every pair of seeds of one real method, from the records of finished runs.
"""

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrow.errors import DataError, SettingsError
from research.common.paper_test import ARROWS, SIZE, SUBSETS, PaperTest, paper_test
from research.common.seeds_and_examples import Correct, correctness, mcnemar
from research.common.store import BUNDLE, Store

TRIALS = 10_000
SETTINGS = ({}, {"examples": 500}, {"examples": 2000}, {"seed_spread": 0.01}, {"subsets": 50})
METHOD, LEARNS = "F+M+V", ["fiction", "government"]


@dataclass(frozen=True)
class Rate:
    """The share of tests with p below `level`: other worse, other better, or either, which promises twice the level."""

    level: float
    worse: float
    better: float
    either: float


@dataclass(frozen=True)
class FalsePositives:
    """The setting of a simulation and what share of its tests found a difference that was not there.

    `mcnemar` is the share that McNemar's exact test calls different at 0.05, two-sided, on the same answers.
    """

    trials: int
    examples: int
    accuracy: float
    disagreement: float
    seed_spread: float
    subsets: int
    size: int
    rates: tuple[Rate, ...]
    mcnemar: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class SeedPairs:
    """The same of real models: every pair of seeds of one method, which differ by nothing but chance."""

    seeds: int
    examples: int
    pairs: int
    disagreement: float
    rates: tuple[Rate, ...]
    mcnemar: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def paper_test_false_positives(
    *,
    trials: int = 2000,
    examples: int = 1000,
    accuracy: float = 0.65,
    disagreement: float = 0.25,
    seed_spread: float = 0.0,
    subsets: int = SUBSETS,
    size: int = SIZE,
    seed: int = 0,
) -> FalsePositives:
    """Test pairs of models of equal methods, which are right about different examples by chance alone.

    On a share `disagreement` of the examples just one model is right. `seed_spread` is the standard deviation of a
    method's true accuracy from seed to seed; at zero the two models themselves are equal too.
    """
    if not 0 < disagreement <= 2 * min(accuracy, 1 - accuracy):
        raise SettingsError(
            f"two models of accuracy {accuracy:g} cannot disagree on a share of {disagreement:g}: "
            "give one above zero and at most twice the rarer of right and wrong"
        )
    rng = np.random.default_rng(seed)
    gap = np.clip(rng.normal(0, np.sqrt(2) * seed_spread, trials), -disagreement, disagreement)
    both = np.full(trials, accuracy - disagreement / 2)
    shares = np.stack([both, (disagreement + gap) / 2, (disagreement - gap) / 2, 1 - disagreement - both], axis=1)
    pairs = [_answers(counts) for counts in rng.multinomial(examples, np.clip(shares, 0, 1))]
    tests = [paper_test(*pair, seed=seed + at, subsets=subsets, size=size) for at, pair in enumerate(pairs)]
    return FalsePositives(
        trials, examples, accuracy, disagreement, seed_spread, subsets, size, _rates(tests), _apart(pairs)
    )


def paper_test_between_seeds(correct: ArrayLike, seed: int = 0) -> SeedPairs:
    """Test every seed of one method, (seeds, examples), against every other as if they were two methods."""
    rows = correctness(correct, "the method")
    if len(rows) < 2:
        raise DataError("seeds are tested against each other: give at least two")
    pairs = list(combinations(rows, 2))
    tests = [paper_test(*pair, seed=seed + at) for at, pair in enumerate(pairs)]
    disagreement = float(np.mean([np.mean(a != b) for a, b in pairs]))
    seeds, examples = rows.shape
    return SeedPairs(seeds, examples, len(pairs), disagreement, _rates(tests), _apart(pairs))


def _answers(counts: NDArray[np.int64]) -> tuple[Correct, Correct]:
    """Two models by their counts of examples that are right in both, in the first, in the second, in neither."""
    kinds = np.repeat(np.arange(4), counts)
    return kinds <= 1, kinds % 2 == 0


def _rates(tests: Iterable[PaperTest]) -> tuple[Rate, ...]:
    p_values = np.array([(test.p_worse, test.p_better) for test in tests])
    return tuple(_rate(level, p_values < level) for level, _, _ in ARROWS)


def _rate(level: float, found: NDArray[np.bool_]) -> Rate:  # (tests, directions)
    worse, better = found.mean(axis=0)
    return Rate(level, float(worse), float(better), float(found.any(axis=1).mean()))


def _apart(pairs: Iterable[tuple[Correct, Correct]]) -> float:
    return float(np.mean([mcnemar(*pair).p < 0.05 for pair in pairs]))


def between_seeds(folder: Path) -> dict[str, object]:
    records = [record for record in Store(folder).records().values() if record.run["method"] == METHOD]
    records = [record for record in records if list(record.run["learns"]) == LEARNS]
    records = [record for record in records if record.run["model"]["slots"] == 500]
    records.sort(key=lambda record: int(record.run["seed"]))
    found = {
        genre: paper_test_between_seeds(np.array([record.test[genre] for record in records])).to_json()
        for genre in LEARNS
    }
    return {"method": METHOD, "learns": LEARNS, "genres": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("results/paper/runs"))
    parser.add_argument("--out", type=Path, default=Path("results/paper/false-positives.json"))
    asked = parser.parse_args()
    made = {
        "command": f"python -m research.paper.false_positives --runs {asked.runs} --out {asked.out}",
        "simulated": [paper_test_false_positives(trials=TRIALS, **setting).to_json() for setting in SETTINGS],
        "between_seeds": between_seeds(asked.runs) if (asked.runs / BUNDLE).exists() else None,
    }
    asked.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
