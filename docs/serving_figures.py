"""The figures of docs/service.md on speed, taken from results/; docs/figures.py puts them there."""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from result_commands import as_typed

from research.common.tables import Table
from research.encoders.report import NO_FIGURES

ROOT = Path(__file__).resolve().parents[1]

Results = dict[str, Any]
COMMAND = {"command": "benchmarks/serving.py --out results/serving.json"}  # of results that do not name it yet
NAMES = {"batched": "batched", "one_by_one": "one forward pass for each"}


def serving(_: Results) -> str:
    """Requests a second in both ways, and what a publication under load lost."""
    if not (path := ROOT / "results/serving.json").is_file():
        return NO_FIGURES
    found: Results = json.loads(path.read_text(encoding="utf-8"))
    rows = [
        [NAMES[name], *(f"{median(one[field] for one in rounds):,.{digits}f}" for field, digits in FIELDS.items())]
        for name, rounds in found["rounds"].items()
    ]
    header = ("serving", "requests a second", "median, ms", "99 of 100 within, ms", "CPU of the server, ms a request")
    during, machine = found["publication"], found["machine"]
    versions = " and ".join(during["versions"])
    sentence = (
        f"Compared round by round, batched serving answers {found['ratio']:g} times as many requests, and of the "
        f"server's CPU time\neach takes {1 / found['cpu_ratio']:.1%}: medians of the {len(found['ratios'])} rounds' "
        f"ratios, which need not be the ratios of the table's medians.\n"
        f"While a new domain was uploaded, learnt and published under the same load, {during['requests']:,} requests\n"
        f"were answered, by versions {versions}, and {during['not_answered_with_200']} were lost.\n"
        f"{found['connections']} connections over loopback, each with one request at a time; a model of the demo's "
        f"sizes; {machine['cores']} cores,\nwhich the clients share; medians of {len(found['ratios'])} rounds.\n"
        f"From `{as_typed(found if 'command' in found else COMMAND)}`."
    )
    return f"{Table(None, header, rows).to_markdown()}\n\n{sentence}"


FIELDS = {"per_second": 0, "median_ms": 0, "p99_ms": 0, "cpu_ms_per_request": 2}
SERVING: dict[str, Callable[[Results], str]] = {"serving": serving}
