"""The README's figures of the default method, by today's code.

    python -m research.claims run --data DATA --out RUNS [--device cuda] [--workers 6]
    python -m research.claims table RUNS

DATA has the folders sentiment, reviews, intents, topics and multinli. A run is a stream and a seed: every domain is
learned by the default method, and one .json file has the test accuracies after each stage.
"""

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from memgrow import Learner
from research.common.pool import Job, file_of, run_jobs
from research.memory.streams import stream_of

RESULT = Path(__file__).parents[1] / "results" / "claims.json"
STREAMS = ("intents", "topics", "genres", "five-reviews", "sentiment-2", "sentiment-1")
SEEDS = 3


def run(job: Job, given: argparse.Namespace) -> None:
    (stream, seed), began = job, time.monotonic()
    domains = stream_of(stream, given.data, seed)
    learner, matrix = Learner.create(encoder=given.encoder, seed=seed, device=given.device), []
    for domain in domains:
        learner.adapt(domain, threads=1)
        known = [one for one in domains if one.name in learner.history.domains]
        matrix.append([round(100 * score, 2) for score in learner.evaluate(known).values()])
    record = {"stream": stream, "seed": seed, "method": learner.method.name, "matrix": matrix}
    record["seconds"] = round(time.monotonic() - began, 1)
    file_of(given.out, job, ".json").write_text(json.dumps(record) + "\n", encoding="utf-8")
    print(*job, matrix[-1], record["seconds"], flush=True)


def summarize(folder: Path) -> None:
    runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        runs[record["stream"]].append(record)
    streams = {}
    for stream, records in sorted(runs.items()):
        ends = [fmean(record["matrix"][-1]) for record in records]
        lost = [
            fmean(
                max(row[number] for row in record["matrix"][number:]) - record["matrix"][-1][number]
                for number in range(len(record["matrix"]) - 1)
            )
            for record in records
        ]
        streams[stream] = {
            "seeds": len(records),
            "average": round(fmean(ends), 2),
            "deviation": round(stdev(ends), 2) if len(ends) > 1 else None,
            "forgetting": round(fmean(lost), 2),
        }
    value = {"command": "python -m research.claims table RUNS", "method": records[0]["method"], "streams": streams}
    RESULT.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.claims", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--data", type=Path, required=True)
    runs.add_argument("--out", type=Path, required=True)
    runs.add_argument("--encoder", default="minilm")
    runs.add_argument("--device", default="auto")
    runs.add_argument("--workers", type=int, default=1)
    runs.add_argument("--seconds", type=float, default=1e9, help="begin no run after so many")
    commands.add_parser("table").add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.command == "table":
        summarize(given.folder)
    else:
        jobs = [(stream, seed) for seed in range(SEEDS) for stream in STREAMS]
        run_jobs(run, jobs, given.workers, given.seconds, given)


if __name__ == "__main__":
    main()
