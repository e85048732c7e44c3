"""Average the runs: `python -m research.defaults.summary RUNS ...`, folders that `research.defaults` wrote.

Runs of the third rule are read from folders whose name ends in -memory; they stand beside the earlier ones.
Streams without runs keep their figures.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

from research.common.statistics import paired_over_seeds

RESULT = Path(__file__).parents[2] / "results" / "defaults.json"
REFERENCES = ("plain", "old default", "default")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.defaults.summary", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    averages: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for folder in given.runs:
        for path in sorted(folder.glob("*.json")):
            record = json.loads(path.read_text(encoding="utf-8"))
            stream = f"{record['stream']}, {record['rows']}" + (
                ", with memory" if folder.name.endswith("-memory") else ""
            )
            averages[stream][record["variant"]][record["seed"]] = record["average"]
    streams: dict[str, Any] = json.loads(given.out.read_text("utf-8"))["streams"] if given.out.exists() else {}
    for stream, variants in averages.items():
        streams[stream] = {}
        for name, found in sorted(variants.items()):
            row: dict[str, Any] = {"seeds": len(found), "average": round(fmean(found.values()), 2)}
            for other in REFERENCES:
                shared = sorted(set(found) & set(variants.get(other, {})))
                if name != other and shared:
                    paired = paired_over_seeds(*([one[seed] for seed in shared] for one in (found, variants[other])))
                    numbers = (paired.difference, paired.low, paired.high)
                    row[f"minus {other}"] = [None if one is None else round(one, 2) for one in numbers]
            streams[stream][name] = row
    value = {"command": "python -m research.defaults.summary RUNS", "encoder": "minilm", "streams": streams}
    given.out.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
