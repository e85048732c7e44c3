"""A sheet: lines and columns of mean, spread and every seed's figure, the paper's figure, and tests against a line.

What is written to JSON and read back is spelt here alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import fmean, stdev
from typing import Any

DIGITS = 3  # of a percentage that is kept


@dataclass(frozen=True)
class Summary:
    """Mean, standard deviation over seeds, and the seeds' own values; None where there is nothing to say."""

    mean: float | None
    spread: float | None
    values: Sequence[float]

    @classmethod
    def of(cls, values: Iterable[float | None], digits: int = DIGITS) -> "Summary":
        known = [value for value in values if value is not None]
        return cls(
            round(fmean(known), digits) if known else None,
            round(stdev(known), digits) if len(known) > 1 else None,
            [round(value, digits) for value in known],
        )


@dataclass(frozen=True)
class Test:
    """A row against a reference: the paper's test, and one over seeds and examples. Below 0 the row is worse."""

    arrow: str | None  # of the first seed: the paper had one model for each method
    arrows: Mapping[str, int]  # how many seeds would have had which
    p_paper: float | None
    seeds: int
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_over_seeds: float | None
    p_mcnemar: float | None = None  # not of replies, which are neither right nor wrong
    p_holm: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "p_mcnemar" or value is not None}


@dataclass(frozen=True)
class Cell:
    """A figure of a row beside the paper's."""

    summary: Summary
    paper: float | None = None
    paper_arrow: str | None = None
    tests: Mapping[str, Test] = field(default_factory=dict)  # by reference

    @property
    def mean(self) -> float | None:
        return self.summary.mean

    @property
    def values(self) -> Sequence[float]:
        return self.summary.values

    def to_json(self) -> dict[str, Any]:
        beside = {} if self.paper is None else {"paper": self.paper, "paper_arrow": self.paper_arrow}
        tests = {"tests": {name: test.to_json() for name, test in self.tests.items()}} if self.tests else {}
        return {**vars(self.summary), **beside, **tests}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Cell":
        summary = Summary(value["mean"], value["spread"], value["values"])
        tests = {name: Test(**test) for name, test in value.get("tests", {}).items()}
        return cls(summary, value.get("paper"), value.get("paper_arrow"), tests)


@dataclass(frozen=True)
class Line:
    """A row with its figures. What is no model has neither a method nor measures."""

    name: str
    cells: Mapping[str, Cell]
    group: str = ""
    about: Mapping[str, int | float | str | None] = field(default_factory=dict)
    method: str | None = None
    learns: Sequence[str] = ()
    validation_loss: Mapping[str, Summary] = field(default_factory=dict)  # of replies
    parameters: int | None = None
    measures: Mapping[str, Summary] = field(default_factory=dict)  # validation, forgetting, epochs, seconds

    @property
    def number(self) -> str:
        """The number of its line in the paper's table."""
        return str(self.about.get("line") or "")

    @property
    def value(self) -> float:
        """The value of the setting that a search is about."""
        value = self.about["value"]
        assert isinstance(value, int | float)
        return value

    def corrected(self, reference: str, p_holm: Mapping[str, float | None]) -> "Line":
        """With other corrected p-values of its tests against a reference, by column."""
        cells = {
            column: replace(
                cell, tests={**cell.tests, reference: replace(cell.tests[reference], p_holm=p_holm[column])}
            )
            if reference in cell.tests
            else cell
            for column, cell in self.cells.items()
        }
        return replace(self, cells=cells)

    def to_json(self) -> dict[str, Any]:
        made = {"method": self.method, "learns": list(self.learns)} if self.method else {}
        losses = {name: vars(loss) for name, loss in self.validation_loss.items()}
        size = {"parameters": self.parameters} if self.method else {}
        return {
            "name": self.name,
            **({"group": self.group} if self.group else {}),
            **self.about,
            **made,
            "cells": {name: cell.to_json() for name, cell in self.cells.items()},
            **({"validation_loss": losses} if losses else {}),
            **size,
            **{name: vars(measure) for name, measure in self.measures.items()},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Line":
        known = {one.name: value[one.name] for one in fields(cls) if one.name in value}
        rest = {name: one for name, one in value.items() if name not in known}
        return cls(
            **{
                **known,
                "cells": {name: Cell.from_json(cell) for name, cell in value["cells"].items()},
                "validation_loss": {name: Summary(**loss) for name, loss in value.get("validation_loss", {}).items()},
            },
            about={name: one for name, one in rest.items() if not isinstance(one, dict)},
            measures={name: Summary(**one) for name, one in rest.items() if isinstance(one, dict)},
        )


@dataclass(frozen=True)
class Sheet:
    """Lines below columns, of one part of the data."""

    part: str
    seeds: int
    columns: Sequence[str]
    references: Sequence[str]
    rows: Sequence[Line]
    title: str | None = None
    measured: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of replies: the columns of each measure

    def to_json(self) -> dict[str, Any]:
        return {
            **({"title": self.title} if self.title is not None else {}),
            "part": self.part,
            "seeds": self.seeds,
            "columns": {name: list(some) for name, some in self.measured.items()} or list(self.columns),
            "references": list(self.references),
            "rows": [line.to_json() for line in self.rows],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Sheet":
        columns = value["columns"]
        measured = columns if isinstance(columns, dict) else {}
        lines = [Line.from_json(line) for line in value["rows"]]
        names = [name for some in measured.values() for name in some] if measured else columns
        return cls(value["part"], value["seeds"], names, value["references"], lines, value.get("title"), measured)
