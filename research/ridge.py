"""Ridge on MiniLM: `python -m research.ridge CLINC150.jsonl.gz BANKING77.jsonl.gz SENTIMENT_FOLDER`, on a CPU.

It compares random features and a chosen penalty, the default, with a head on the encoder's vectors and the penalty of
0.2. Seconds are those after the encoder's features: for all domains together, on the clock and of the processor.
"""

import json
import sys
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from memgrow import Domain, Learner, MethodSettings, TrainingSettings
from memgrow.data import load_stream
from memgrow.methods import ridge
from research.memory.__main__ import pick, read, shuffled

RESULT = Path(__file__).parents[1] / "results" / "ridge.json"
PER_INTENT, SEEDS, BANKING = 40, 3, 7
SENTIMENT = ("films", "products", "editorials", "tweets")
VARIANTS = {
    "random features": MethodSettings(),
    "plain": MethodSettings(projection=0),
    "plain, penalty 1000": MethodSettings(projection=0, ridge=1000.0),
}


def intents(path: Path, parts: int, seed: int) -> list[Domain]:
    """The domains of CLINC150, or Banking77 in parts of its intents in alphabetical order."""
    rows = read(path)
    names = sorted({row["label"] for row in rows})
    for row in rows:
        row.setdefault("domain", f"part {names.index(row['label']) * parts // len(names) + 1}")
    found = []
    for domain in sorted({row["domain"] for row in rows}):
        by_label: dict[str, list[dict[str, str]]] = {}
        chosen = [row for row in rows if row["domain"] == domain]
        for row in shuffled([row for row in chosen if row["split"] == "train"], seed):
            by_label.setdefault(row["label"], []).append(pick(row))
        train = [row for label in sorted(by_label) for row in by_label[label][:PER_INTENT]]
        rest = {part: [pick(row) for row in chosen if row["split"] == part] for part in ("validation", "test")}
        rest = {part: some for part, some in rest.items() if some}  # Banking77 has no validation rows
        found.append(Domain.from_rows(domain, rows=shuffled(train, seed), **rest))
    return found


def run(domains: list[Domain], options: MethodSettings, seed: int) -> dict[str, Any]:
    learner = Learner.create(
        "ridge", encoder="minilm", options=options, training=TrainingSettings(max_words=256), seed=seed, device="cpu"
    )
    chosen, spent = [], {"wall": 0.0, "processor": 0.0}
    vectors, fit = ridge._vectors, ridge.Ridge.fit
    clocks = {"wall": time.perf_counter, "processor": time.process_time}

    def timed(call: Any, sign: int) -> Any:
        def wrapped(*arguments: Any) -> Any:
            began = {name: clock() for name, clock in clocks.items()}
            result = call(*arguments)
            for name, clock in clocks.items():
                spent[name] += sign * (clock() - began[name])
            return result

        return wrapped

    ridge._vectors, ridge.Ridge.fit = timed(vectors, -1), timed(fit, 1)  # type: ignore[method-assign]
    try:
        for domain in domains:
            chosen.append(round(learner.adapt(domain).note["ridge"], 1))
    finally:
        ridge._vectors, ridge.Ridge.fit = vectors, fit  # type: ignore[method-assign]
    scores = [100 * learner.evaluate(domain)[domain.name] for domain in domains]
    seconds = {name: round(one, 1) for name, one in spent.items()}
    return {"seed": seed, "average": round(fmean(scores), 2), "penalties": chosen, "seconds": seconds}


def main() -> None:
    clinc, banking, sentiment = map(Path, sys.argv[1:])
    files = [sentiment / f"{name}.jsonl" for name in SENTIMENT]
    found: dict[str, Any] = {}
    for seed in range(SEEDS):
        streams = {"CLINC150": intents(clinc, 0, seed), "Banking77": intents(banking, BANKING, seed)}
        streams["sentiment"] = list(load_stream(files).stream)
        for name, domains in streams.items():
            for variant, options in VARIANTS.items():
                if seed and name == "sentiment" and variant != "random features":
                    continue  # the seed has no effect
                runs = found.setdefault(name, {}).setdefault(variant, [])
                runs.append(run(domains, options, seed))
                print(name, variant, runs[-1], flush=True)
        value = {"command": "python -m research.ridge CLINC150 BANKING77 SENTIMENT", "threads": torch.get_num_threads()}
        value |= {"rows of an intent": PER_INTENT, "streams": found}
        RESULT.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
