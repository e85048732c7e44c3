"""Tables in Markdown, and figures in their cells."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

UNKNOWN, MISSING = "·", "-"  # not measured; of a run that was not made or failed


@dataclass(frozen=True)
class Table:
    """Rows below a header."""

    title: str | None
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def to_markdown(self) -> str:
        """Without an empty line at the end."""
        lines = [_line(self.header), f"|{'---|' * len(self.header)}", *map(_line, self.rows)]
        return "\n".join(lines if self.title is None else [f"{_escaped(self.title)}:\n", *lines])


def to_page(parts: Iterable[Table | str]) -> str:
    """Tables and paragraphs as Markdown."""
    return "\n\n".join(part.to_markdown() if isinstance(part, Table) else part for part in parts)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |"


def _escaped(cell: str) -> str:
    """Bars would end a cell."""
    return cell.replace("|", "\\|")


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
