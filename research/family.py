"""All methods side by side on small BiLSTMs: `python -m research.family demo`, `... sentiment --data FOLDER`.

Every finished run is kept; the same command goes on where it was stopped.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from memgrow import Learner, MethodSettings
from memgrow.data import Stream, synthetic_stream
from memgrow.evaluation.demo import MODEL, TRAINING
from research.memory.__main__ import SENTIMENT, sentiment

RESULTS = Path(__file__).parents[1] / "results" / "family"
METHODS = (
    *("finetune+vocab", "finetune", "finetune+vocab+average", "finetune+vocab+ema", "finetune+vocab+distill"),
    *("ewc+vocab", "si+vocab", "imm+vocab", "progress-compress+vocab", "progressive", "finetune+slots+vocab"),
    *("finetune+vocab+memory", "rehearsal+vocab", "a-gem+vocab", "gem+vocab", "icarl+vocab", "multi-task"),
)
SEEDS = range(10, 15)
OPTIONS = MethodSettings(strength=10.0, si_strength=1.0)  # the best of STRENGTHS on the seed of `choose`
STRENGTHS, CHOOSING = (1.0, 10.0, 100.0, 1e3, 1e4), 3


def stream(name: str, seed: int, data: Path | None) -> Stream:
    if name == "demo":
        return synthetic_stream(seed=seed)
    assert data is not None, "--data is missing"
    return Stream([sentiment(data, domain, seed) for domain in SENTIMENT["1"]])


def run(name: str, method: str, seed: int, data: Path | None, options: MethodSettings = OPTIONS) -> dict[str, Any]:
    began = time.monotonic()
    if name == "demo":
        learner = Learner.create(method, model=MODEL, training=TRAINING, options=options, seed=seed, device="cpu")
    else:
        learner = Learner.create(method, encoder="lstm", options=options, seed=seed, device="cpu")
    matrix = learner.learn(stream(name, seed, data)).matrix
    figures = {"average": matrix.average(), "forgetting": matrix.forgetting()}
    shown = {key: None if value is None else round(100 * value, 2) for key, value in figures.items()}
    return {"method": method, "seed": seed, **shown, "seconds": round(time.monotonic() - began)}


def choose() -> None:
    """Strengths on a seed of the demo that is not compared."""
    for method in ("ewc+vocab", "si+vocab", "progress-compress+vocab"):
        for strength in STRENGTHS:
            options = MethodSettings(strength=strength, si_strength=strength)
            print(strength, run("demo", method, CHOOSING, None, options), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.family", description=__doc__)
    parser.add_argument("stream", choices=("demo", "sentiment", "choose"))
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    if given.stream == "choose":
        choose()
        return
    path = RESULTS / f"{given.stream}.json"
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    known = {(one["method"], one["seed"]) for one in runs}
    for seed in SEEDS:
        for method in METHODS:
            if (method, seed) not in known:
                runs.append(run(given.stream, method, seed, given.data))
                print(runs[-1], flush=True)
                path.parent.mkdir(parents=True, exist_ok=True)
                value = {"command": f"python -m research.family {given.stream}", "runs": runs}
                path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
