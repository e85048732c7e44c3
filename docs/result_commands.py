"""Which command wrote each file of results/: results/README.md says so, and docs/check.py asks whether it does."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

RECORDS = {"runs", "runs-dialogue"}  # folders of what a command keeps to go on from, rather than of figures


def as_typed(found: Mapping[str, Any]) -> str:
    """The command of results as a page shows it, to be typed in the root of the repository."""
    command = str(found["command"])
    return " && ".join(f"python {one}" if one.startswith("benchmarks/") else one for one in command.split(" && "))


def what_is_wrong(root: Path) -> Iterator[str]:
    """A sentence for each file of figures that results/README.md does not name."""
    table = (root / "results/README.md").read_text(encoding="utf-8")
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    patterns = [one for cell in cells for name in re.findall(r"`([^`]+)`", cell) for one in _expanded(name)]
    for file in sorted((root / "results").rglob("*.json")):
        name = file.relative_to(root / "results")
        if not RECORDS & {*name.parts} and not any(name.match(pattern) for pattern in patterns):
            yield f"results/README.md does not say which command wrote {name}"


def _expanded(pattern: str) -> list[str]:
    """a/{b,c}.json as both."""
    found = re.search(r"\{(.+)\}", pattern)
    return [pattern.replace(found[0], one) for one in found[1].split(",")] if found else [pattern]
