"""Figures of the paper's tables as people read them: accuracy with its spread, arrows, p-values, differences."""

from collections.abc import Mapping
from typing import Any

from memgrow.report.table import MISSING, signed

ARROWS = {"DOWN": "⇓", "down": "↓", "up": "↑", "UP": "⇑"}
SHORT = {"fiction": "Fic", "government": "Gov", "slate": "Slate", "telephone": "Tel", "travel": "Travel"}
LEGEND = (
    "Accuracy in %, mean ± standard deviation over seeds. Arrows: the paper's test, on the first seed (⇓ ⇑ p < 0.01, "
    "↓ ↑ p < 0.05; down is worse than the reference). p: two-sided over seeds and examples, Holm's correction."
)

Cell = Mapping[str, Any]


def arrow(name: str | None) -> str:
    return ARROWS.get(name or "", "")


def accuracy(cell: Cell, between: str = " ± ", digits: int = 1) -> str:
    """Mean and, of several seeds, spread."""
    if cell.get("mean") is None:
        return MISSING
    spread = cell.get("spread")
    mean = f"{cell['mean']:.{digits}f}".replace("-", "−")
    return mean + ("" if spread is None else f"{between}{spread:.{digits}f}")


def printed(cell: Cell) -> str:
    """What the paper has, with its arrow."""
    return f"{cell['paper']:.2f}{arrow(cell.get('paper_arrow'))}" if "paper" in cell else ""


def difference(test: Mapping[str, Any]) -> str:
    """Points above or below the reference, with the 95% interval."""
    if test["low"] is None:
        return signed(test["difference"])
    return f"{signed(test['difference'])} [{signed(test['low'])}, {signed(test['high'])}]"


def arrows_of_seeds(test: Mapping[str, Any]) -> str:
    """How many seeds would have had which arrow."""
    return ", ".join(f"{count} {ARROWS.get(name, 'none')}" for name, count in test["arrows"].items())


def test_of(cell: Cell, reference: str | None) -> Mapping[str, Any] | None:
    test: Mapping[str, Any] | None = cell.get("tests", {}).get(reference)
    return test
