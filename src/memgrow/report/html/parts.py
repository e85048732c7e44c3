"""Parts of a page: a section with its title, and a table of the terminal's as HTML."""

from collections.abc import Sequence

from memgrow.report.html.element import Html, element, joined
from memgrow.report.table import Column, Table


def section(title: str, *children: str | None) -> Html:
    return element("section", element("h2", title), *children)


def on_paper(screen: Sequence[Html], *instead: Html) -> list[Html]:
    """Parts that a screen shows, and what a printed page has in their place."""
    return [element("div", *screen, class_="screen"), element("div", *instead, class_="paper")]


def table_html(table: Table) -> Html:
    """A table of the terminal's, for a page."""
    columns = [Column(column) if isinstance(column, str) else column for column in table.header]
    looks = ["number" if column.right else "nowrap" if column.wrap == "never" else None for column in columns]

    def row(cells: Sequence[object], name: str) -> Html:
        return element("tr", *(element(name, str(cell), class_=look) for cell, look in zip(cells, looks, strict=True)))

    head = element("thead", row([column.name for column in columns], "th"))
    body = element("tbody", *(row(cells, "td") for cells in table.rows))
    return element("div", element("table", joined(head, body)), class_="scroll")
