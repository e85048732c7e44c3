"""The figures that `memgrow compare` and `memgrow demo` have written, read back for a report.

A file may come from anywhere: what pages and pictures are drawn by is checked first, and refused with a sentence.
"""

from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from memgrow.data.disk import parse_json
from memgrow.errors import DataError, MemgrowError, brief
from memgrow.evaluation.attention import MemoryUse
from memgrow.evaluation.comparison import KINDS, Comparison, RunResult
from memgrow.evaluation.demo import Demo
from memgrow.report.run_report import RunReport, report_of_comparison, report_of_demo

COMPARISON, DEMO = "compare.json", "demo.json"
LARGEST = 2**28  # bytes of a file of figures
NOT_UNDERSTOOD = (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError)


def find_figures(path: Path) -> Path | None:
    """The file of figures that a folder or a file is; None if it is neither a comparison nor a demo."""
    if path.is_file():
        return path
    return next((path / name for name in (COMPARISON, DEMO) if (path / name).is_file()), None)


def read_figures(path: Path, method: str | None = None, shown_as: str | None = None) -> RunReport:
    """The report of what `memgrow compare` or `memgrow demo` has written; the page calls it by its path."""
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST:,} bytes")
        value = parse_json(path.read_bytes())
        settings = _settings(value["settings"])
        name = shown_as or str(path)
        if "runs" in value:
            demo = Demo.from_json(value)
            _check(demo.comparison)
            for use in demo.memory.values():
                _check_memory(use)
            return report_of_demo(demo, name, settings, method)
        comparison = Comparison.from_json(value["methods"], KINDS[value["measure"]])
        _check(comparison)
        failures = [f"{one['method']}, seed {one['seed']}: {one['reason']}" for one in value["failures"]]
        return report_of_comparison(comparison, name, settings, failures, method)
    except MemgrowError:
        raise
    except NOT_UNDERSTOOD as error:
        raise DataError(
            f"{path} is no file of figures that memgrow compare or memgrow demo has written ({brief(error)}): give the "
            "folder or the file that one of them names at its end, or a model"
        ) from error


def _settings(value: Any) -> dict[str, Mapping[str, Any]]:
    if not (isinstance(value, dict) and all(isinstance(part, dict) for part in value.values())):
        raise ValueError("the settings are no settings")
    return value


def _check(comparison: Comparison) -> None:
    """Refuse what is no comparison.

    That is a run without stages, seeds of one method with other stages or domains, scores that are no shares, and
    replies without perplexities.
    """
    for results in comparison.results.values():
        shapes = {tuple((row.learned, tuple(row.scores)) for row in result.matrix.rows) for result in results.values()}
        if len(shapes) != 1 or not all(map(_is_run, results.values())):
            raise ValueError("a method has no runs, or runs that do not fit together")
        if not all(
            _is_share(score) for one in results.values() for row in one.matrix.rows for score in row.scores.values()
        ):
            raise ValueError("a score is no number from 0 to 1")
        if comparison.kind.is_dialogue and not all(map(_has_perplexities, results.values())):
            raise ValueError("replies have no perplexities")


def _is_run(result: RunResult) -> bool:
    named = all(row.learned and all(isinstance(name, str) for name in row.learned) for row in result.matrix.rows)
    return named and bool(result.matrix.rows) and _is_number(result.seconds) and _is_number(result.parameters)


def _has_perplexities(result: RunResult) -> bool:
    """Whether every perplexity is one; a failed run's may be infinite."""
    return bool(result.perplexities) and all(value >= 1 - 1e-6 for value in result.perplexities.values())


def _check_memory(use: MemoryUse) -> None:
    """Refuse shares of attention that are none, or of other domains than those that are named."""
    counts = [*use.texts.values(), *use.slots.values(), *(one.slot for one in use.most_read)]
    shares = [
        share for found in (*use.shares.values(), *(one.shares for one in use.most_read)) for share in found.values()
    ]
    fits = set(use.texts) == set(use.shares) and all(set(found) == set(use.slots) for found in use.shares.values())
    fits = fits and all(one.shares and _is_share(one.even) and one.even > 0 for one in use.most_read)
    if not (fits and all(map(_is_share, shares)) and all(isinstance(count, int) for count in counts)):
        raise ValueError("the shares of attention are no such")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and isfinite(value)


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and -1e-6 <= value <= 1 + 1e-6
