"""How often the paper's significance test gives an arrow where there is nothing.

    python benchmarks/paper_test.py --runs results/paper/runs --out results/paper/false-positives.json

Simulated pairs of equal methods, and every pair of seeds of one real method, from the records of finished runs.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from memgrow.experiments.store import BUNDLE, Store
from memgrow.metrics.false_positives import paper_test_between_seeds, paper_test_false_positives

TRIALS = 10_000
SETTINGS = ({}, {"examples": 500}, {"examples": 2000}, {"seed_spread": 0.01}, {"subsets": 50})
METHOD, LEARNS = "F+M+V", ["fiction", "government"]


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
        "command": f"python benchmarks/paper_test.py --runs {asked.runs} --out {asked.out}",
        "simulated": [paper_test_false_positives(trials=TRIALS, **setting).to_json() for setting in SETTINGS],
        "between_seeds": between_seeds(asked.runs) if (asked.runs / BUNDLE).exists() else None,
    }
    asked.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
