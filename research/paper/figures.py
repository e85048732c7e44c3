"""The figures of a table as JSON: what their parts look like, and the file that keeps them.

cell   {mean, spread, values[, paper, paper_arrow][, tests: {reference: test}]}
line   {name[, group], ..., method, learns, cells: {column: cell}, parameters, validation, forgetting, ...}
sheet  {[title,] part, seeds, columns, references, rows: [line]}
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from memgrow.errors import DataError
from research.common.files import atomic_write, finite

DIGITS = 3  # of a percentage that is kept
FLAT = re.compile(r"\[\n\s*([^\[\]{}]*?)\n\s*\]")  # a list that holds no others
BREAK = re.compile(r"\s*\n\s*")

Json = dict[str, Any]


def summary(values: Iterable[float | None], digits: int = DIGITS) -> Json:
    """Mean, standard deviation over seeds, and the seeds' values."""
    known = [value for value in values if value is not None]
    return {
        "mean": round(fmean(known), digits) if known else None,
        "spread": round(stdev(known), digits) if len(known) > 1 else None,
        "values": [round(value, digits) for value in known],
    }


def cell(values: Json, paper: tuple[float, str | None] | None = None, tests: Mapping[str, Json] | None = None) -> Json:
    """A summary beside the paper's figure and its arrow, and tests by reference."""
    beside = {} if paper is None else {"paper": paper[0], "paper_arrow": paper[1]}
    return {**values, **beside, **({"tests": dict(tests)} if tests else {})}


def sheet(
    part: str,
    seeds: int,
    columns: Sequence[str] | Mapping[str, Sequence[str]],
    references: Sequence[str],
    rows: Sequence[Json],
    title: str | None = None,
) -> Json:
    shown = dict(columns) if isinstance(columns, Mapping) else list(columns)
    about = {} if title is None else {"title": title}
    return {**about, "part": part, "seeds": seeds, "columns": shown, "references": list(references), "rows": list(rows)}


def write_figures(folder: Path, name: str, figures: Mapping[str, Any]) -> Path:
    """NAME.json in the folder, in place of an older one."""
    text = json.dumps(finite(figures), indent=1, ensure_ascii=False)
    text = FLAT.sub(lambda found: f"[{BREAK.sub(' ', found[1])}]", text)
    return atomic_write(folder / f"{name}.json", text + "\n")


def read_figures(folder: Path, name: str) -> Json | None:
    """The figures that were written before, if any were."""
    path = folder / f"{name}.json"
    try:
        figures: Json = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DataError(f"{path} is damaged: remove it, and run the same command again") from error
    return figures
