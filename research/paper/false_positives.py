"""How often the paper's significance test gives an arrow where there is nothing.

    python -m research.paper.false_positives --runs results/paper/runs --out results/paper/false-positives.json

Simulated pairs of equal methods, and every pair of seeds of one real method, from the records of finished runs.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from research.common.files import atomic_write, pack_json, say
from research.common.statistics import ARROWS, SIZE, SUBSETS, Correct, correctness, mcnemar, paper_test
from research.common.store import Ledger, Store
from research.paper.corpora import Memory
from research.paper.figures import Json
from research.paper.protocol import PAIR, PAPER, PROPOSED
from research.paper.rows import Row

TRIALS = 10_000
SETTINGS: tuple[dict[str, float], ...] = (
    {},
    {"examples": 500},
    {"examples": 2000},
    {"seed_spread": 0.01},
    {"subsets": 50},
)
SEEDS = 10


def simulated(
    *,
    trials: int = 2000,
    examples: int = 1000,
    accuracy: float = 0.65,
    disagreement: float = 0.25,
    seed_spread: float = 0.0,
    subsets: int = SUBSETS,
) -> Json:
    """Test pairs of models of equal methods, which are right about different examples by chance alone.

    On a share `disagreement` of the examples just one model is right. `seed_spread` is the standard deviation of a
    method's true accuracy from seed to seed; at zero the two models themselves are equal too.
    """
    rng = np.random.default_rng(0)
    gap = np.clip(rng.normal(0, np.sqrt(2) * seed_spread, trials), -disagreement, disagreement)
    both = np.full(trials, accuracy - disagreement / 2)
    shares = np.stack([both, (disagreement + gap) / 2, (disagreement - gap) / 2, 1 - disagreement - both], axis=1)
    pairs = [_answers(counts) for counts in rng.multinomial(examples, np.clip(shares, 0, 1))]
    return {
        "trials": trials,
        "examples": examples,
        "accuracy": accuracy,
        "disagreement": disagreement,
        "seed_spread": seed_spread,
        "subsets": subsets,
        "size": SIZE,
        **_found(pairs, subsets),
    }


def between_seeds(correct: ArrayLike) -> Json:
    """Test every seed of one method, (seeds, examples), against every other as if they were two methods."""
    rows = correctness(correct)
    pairs = list(combinations(rows, 2))
    disagreement = float(np.mean([np.mean(a != b) for a, b in pairs]))
    sizes = {"seeds": rows.shape[0], "examples": rows.shape[1], "pairs": len(pairs)}
    return {**sizes, "disagreement": disagreement, **_found(pairs, SUBSETS)}


def _answers(counts: NDArray[np.int64]) -> tuple[Correct, Correct]:
    """Two models by their counts of examples that are right in both, in the first, in the second, in neither."""
    kinds = np.repeat(np.arange(4), counts)
    return kinds <= 1, kinds % 2 == 0


def _found(pairs: Sequence[tuple[Correct, Correct]], subsets: int) -> Json:
    """The shares of tests with p below a level: other worse, other better, either; and of McNemar's test at 0.05."""
    tests = [paper_test(*pair, seed=number, subsets=subsets) for number, pair in enumerate(pairs)]
    p_values = np.array([(test.p_worse, test.p_better) for test in tests])
    rates = []
    for level, _, _ in ARROWS:
        worse, better = (p_values < level).mean(axis=0)
        either = (p_values < level).any(axis=1).mean()
        rates.append({"level": level, "worse": float(worse), "better": float(better), "either": float(either)})
    return {"rates": rates, "mcnemar": float(np.mean([mcnemar(*pair) < 0.05 for pair in pairs]))}


def of_records(folder: Path) -> Json:
    """The ten seeds of the proposed method in the folder of the paper's records."""
    known = Memory.read(folder).known[PAPER.data]
    ledger, row = Ledger(Store(folder), known.data, known.held_out), Row(PROPOSED, PROPOSED, PAIR)
    records = [record for seed in range(SEEDS) if (record := ledger.record(row.run(PAPER, seed))) is not None]
    genres = {genre: between_seeds(np.array([record.test[genre] for record in records])) for genre in PAIR}
    return {"method": PROPOSED, "learns": list(PAIR), "genres": genres}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m research.paper.false_positives", description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("results/paper/runs"))
    parser.add_argument("--out", type=Path, default=Path("results/paper/false-positives.json"))
    given = parser.parse_args(arguments)
    made = {
        "command": f"python -m research.paper.false_positives --runs {given.runs} --out {given.out}",
        "simulated": [simulated(trials=TRIALS, **setting) for setting in SETTINGS],  # type: ignore[arg-type]
        "between_seeds": of_records(given.runs),
    }
    say(json.dumps(made, indent=1))
    atomic_write(given.out, pack_json(made))


if __name__ == "__main__":
    main()
