"""One table for both outputs, the terminal and Markdown, and the figures in its cells as people read them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import rich.table
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from memgrow.evaluation.history import perplexity_of

UNKNOWN, MISSING = "·", "-"  # of a matrix that is yet to be filled; of a run that was not made or failed
WIDE, HUGE = 100, 1e6  # perplexities from these on have no fraction, and are a power of ten: a failed run's may be any

Cell = str | Text
"""Never markup: a name may be a user's own. Styles of a Text are for the terminal alone."""

LAYOUTS: dict[str, dict[str, Any]] = {
    "roomy": {},
    "narrow": {"padding": 0},
    "open": {"padding": (0, 1, 0, 0), "pad_edge": False, "show_edge": False},
}


@dataclass(frozen=True)
class Column:
    """The head of a column; all but the name are for the terminal, where `short` takes the name's place."""

    name: str = ""
    right: bool = False
    wrap: Literal["words", "letters", "never"] = "words"
    width: int | None = None  # letters, at most
    short: str | None = None


def numbers(*names: str) -> list[Column]:
    """Columns of figures: to the right, and never broken."""
    return [Column(name, right=True, wrap="never") for name in names]


@dataclass(frozen=True)
class Table:
    """Rows below a header. A console prints it as it is; `to_markdown` is for pages."""

    title: Cell | None
    header: Sequence[str | Column]
    rows: Sequence[Sequence[Cell]]
    layout: Literal["roomy", "narrow", "open"] = "roomy"
    lines_above: Sequence[int] = ()  # numbers of rows that a line parts from those before
    min_width: int | None = None

    def __rich__(self) -> rich.table.Table:
        table = rich.table.Table(
            title=Text(self.title, "bold") if isinstance(self.title, str) else self.title,
            title_justify="left",
            box=box.SIMPLE_HEAD,
            min_width=self.min_width,
            **LAYOUTS[self.layout],
        )
        for column in self._columns():
            table.add_column(
                Text(column.name if column.short is None else column.short),
                justify="right" if column.right else "left",
                no_wrap=column.wrap == "never",
                overflow="fold" if column.wrap == "letters" else "ellipsis",
                max_width=column.width,
            )
        for number, row in enumerate(self.rows):
            if number in self.lines_above:
                table.add_section()
            table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
        return table

    def to_markdown(self) -> str:
        """Without an empty line at the end."""
        return "\n".join(self._markdown())

    def _markdown(self) -> Iterator[str]:
        if self.title is not None:
            yield f"{_escaped(self.title)}:\n"
        yield _line(column.name for column in self._columns())
        yield f"|{'---|' * len(self.header)}"
        yield from map(_line, self.rows)

    def _columns(self) -> Iterator[Column]:
        return (Column(column) if isinstance(column, str) else column for column in self.header)


def to_page(parts: Iterable[Table | Text | str]) -> str:
    """Tables and paragraphs as Markdown."""
    return "\n\n".join(part.to_markdown() if isinstance(part, Table) else str(part) for part in parts)


def _line(cells: Iterable[Cell]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |"


def _escaped(cell: Cell) -> str:
    """Bars would end a cell."""
    return str(cell).replace("|", "\\|")


def shortened(name: str, width: int) -> str:
    """A name, or what of it fits into so many letters with an ellipsis; a letter of full width takes two."""
    return name if cell_len(name) <= width else f"{set_cell_size(name, width - 1).rstrip()}…"


def percent(value: float | None, sign: bool = False, digits: int = 1) -> str:
    """A share."""
    return UNKNOWN if value is None else f"{100 * value:{'+' if sign else ''}.{digits}f}"


def signed(value: float | None, digits: int = 1) -> str:
    """A difference, with a minus sign that is as wide as a plus."""
    return MISSING if value is None else f"{value:+.{digits}f}".replace("-", "−")


def p_value(p: float | None) -> str:
    if p is None:
        return MISSING
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def perplexity_text(value: float) -> str:
    return f"{value:.2f}" if value < WIDE else f"{value:,.0f}" if value < HUGE else f"{value:.1e}"


def score_cell(score: float | None, replies: bool) -> str:
    """A score in a column: a share, or of replies, whose score is 1 / perplexity, the perplexity."""
    if score is None or not replies:
        return percent(score)
    return perplexity_text(perplexity_of(score))


def validation_text(score: float, replies: bool) -> str:
    """A validation score in words: of replies it is 1 / perplexity, and the perplexity is what people read."""
    return f"perplexity {perplexity_text(perplexity_of(score))}" if replies else f"{percent(score)}%"
