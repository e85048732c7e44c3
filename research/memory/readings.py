"""Compare ways of reading: `python -m research.memory.readings RUNS`, the files that `research.memory.study` wrote."""

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from research.common.statistics import paired_over_seeds
from research.memory.__main__ import RESULTS

ENCODERS = ("finetune+ema", "finetune")
HALF = 0.5


def softmax(logits: Any) -> Any:
    raised = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True).astype(np.float64))
    return raised / raised.sum(-1, keepdims=True)


def conflicts(record: dict[str, Any], arrays: Any) -> list[bool]:
    """For each domain whether it conflicted with the model, by accuracies on its validation data."""
    found = [False]
    for number in range(1, len(record["domains"])):
        labels = arrays[f"labels{number}"]
        majority = np.bincount(labels).max() / len(labels)
        before, after = record["before"][number] or 0.0, record["after"][number]
        found.append(before < majority + HALF * (after - majority))
    return found


def accuracies(record: dict[str, Any], arrays: Any) -> dict[str, float]:
    """The average accuracy at the end by each reading, in percent."""
    clash = conflicts(record, arrays)
    own = np.array([any(clash[number + 1 :]) for number in range(len(clash))])
    found: dict[str, list[float]] = defaultdict(list)
    for number in range(len(clash)):
        labels, entries, last = (arrays[f"{name}{number}"] for name in ("labels", "entries", "last"))
        scores = arrays[f"router{number}"].astype(np.float32)
        entry, rows = scores.argmax(1), np.arange(len(labels))
        if entries.ndim == 3:
            shares, newest = softmax(entries[rows, entry]), softmax(last)
            sure = np.exp(scores.max(1))[:, None]
            answers = {
                "last": newest.argmax(1),
                "routed": shares.argmax(1),
                "half": (shares + newest).argmax(1),
                "confidence": (sure * shares + (1 - sure) * newest).argmax(1),
            }
        else:
            routed = entries[rows, entry]
            answers = {"last": last, "routed": routed, "half": arrays[f"half{number}"], "confidence": routed}
        answers["conflict"] = np.where(own[entry], answers["routed"], answers["last"])
        answers["mean"] = np.where(own[entry], answers["routed"], answers["half"])
        for name, given in answers.items():
            found[name].append(100 * float((given == labels).mean()))
        found["router"].append(100 * float((entry == number).mean()))
    return {name: fmean(values) for name, values in found.items()} | {"told": fmean(record["told"])}


def difference(first: list[float], second: list[float]) -> dict[str, float | None]:
    paired = paired_over_seeds(first, second)
    numbers = {"mean": paired.difference, "low": paired.low, "high": paired.high}
    return {name: None if one is None else round(one, 2) for name, one in numbers.items()}


def main() -> None:
    folder = Path(sys.argv[1])
    records: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        record["path"] = path.with_suffix("").name
        records[record["stream"], record["method"]].append(record)
    streams: dict[str, Any] = defaultdict(dict)
    for (stream, method), runs in records.items():
        row: dict[str, Any] = {"seeds": len(runs), "last": round(fmean(fmean(run["last"]) for run in runs), 2)}
        kept = [name for name in runs[0] if name.startswith(("base ", "chain ")) or name == "told"]
        row |= {name: round(fmean(fmean(run[name]) for run in runs), 2) for name in kept}
        if method in ENCODERS:
            figures = []
            for run in runs:
                with np.load(folder / f"{run['path']}.npz") as arrays:
                    figures.append(accuracies(run, dict(arrays)))
            row |= {name: round(fmean(one[name] for one in figures), 2) for name in figures[0]}
            row["minus last"] = {
                name: difference([one[name] for one in figures], [one["last"] for one in figures])
                for name in ("routed", "half", "confidence", "conflict", "mean")
            }
        streams[stream][method] = row
    value = {"command": "python -m research.memory.readings RUNS", "encoder": "minilm", "streams": streams}
    (RESULTS / "readings.json").write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
