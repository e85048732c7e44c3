"""One table, shown in a terminal and on a page."""

from rich.console import Console
from rich.text import Text

from memgrow.errors import counted
from memgrow.report.table import Column, Table, numbers, p_value, percent, perplexity_text, signed

TABLE = Table(
    "E|h|, [bold]",
    ["", Column("first | domain", short="first"), *numbers("second")],
    [["[red]a[/]", Text("1", "dim"), "20"], ["b|c", "-", "3"]],
    layout="open",
    lines_above=[1],
)


def shown(table, width=80):
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_terminal_shows_every_cell_as_it_is_written():
    title, header, rule, first, line, second = shown(TABLE)
    assert title == "E|h|, [bold]"
    assert header.split() == ["first", "second"]
    assert first.split() == ["[red]a[/]", "1", "20"]
    assert second.split() == ["b|c", "-", "3"]
    assert set(rule.strip()) == {"─"}
    assert not line.strip()


def test_a_page_has_the_long_names_and_no_bar_that_would_end_a_cell():
    assert TABLE.to_markdown().splitlines() == [
        "E\\|h\\|, [bold]:",
        "",
        "|  | first \\| domain | second |",
        "|---|---|---|",
        "| [red]a[/] | 1 | 20 |",
        "| b\\|c | - | 3 |",
    ]
    assert Table(None, ["one"], [["1"]]).to_markdown() == "| one |\n|---|\n| 1 |"


def test_figures_are_short():
    assert [p_value(p) for p in (None, 0.00004, 0.0123, 1.0)] == ["-", "<.001", ".012", "1.000"]
    assert [percent(None), percent(0.123), percent(0.5, sign=True), percent(0.12345, digits=2)] == [
        "·",
        "12.3",
        "+50.0",
        "12.35",
    ]
    assert [signed(None), signed(-0.04), signed(1.25, 2)] == ["-", "−0.0", "+1.25"]
    assert [perplexity_text(value) for value in (9.876, 1234.5, 2e9)] == ["9.88", "1,234", "2.0e+09"]
    assert [counted(1, "seed"), counted(2000, "seed")] == ["1 seed", "2,000 seeds"]
