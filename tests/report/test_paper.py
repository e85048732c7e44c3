"""The paper's tables as they are shown: in eighty columns, as Markdown, as pictures, on a page."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from memgrow.errors import DataError, SettingsError
from memgrow.experiments.paper.figures import write_figures
from memgrow.experiments.paper.protocol import PAPER
from memgrow.experiments.paper.session import DIALOGUE, figures, run_all
from memgrow.experiments.paper.tables import TABLES
from memgrow.report.paper import mean_and_spread, paper_markdown, paper_tables, printed
from memgrow.report.paper_page import BLOCKS, write_page
from memgrow.report.plots import draw_scaling, draw_slots
from tests.support.paper_records import Runner

WIDTH = 80


def uneven(run, genre, part):
    """Two digits before the point and a spread, as real figures have; Progressive is far below the rest."""
    if run.method == "Progressive":
        return 0.35
    return 0.62 + 0.01 * run.seed + 0.001 * len(run.method) + 0.002 * len(run.learns)


@pytest.fixture(scope="module")
def ran():
    return run_all(list(TABLES.values()), replace(PAPER, seeds=2, extra=True), Runner(uneven))


@pytest.fixture(scope="module")
def made(ran):
    return {name: replace(figures(table, ran), command=f"memgrow paper {name}") for name, table in TABLES.items()}


@pytest.fixture(scope="module")
def broken():
    """Every run by F+M+V has failed, on which all tests lean."""
    runner = Runner(uneven, fails=lambda run: run.method == "F+M+V" or run.model.slots == 0)
    ran = run_all(list(TABLES.values()), replace(PAPER, seeds=2), runner)
    return {name: replace(figures(table, ran), command=f"memgrow paper {name}") for name, table in TABLES.items()}


def shown(figures) -> str:
    console = Console(width=WIDTH, file=StringIO(), highlight=False)
    for part in paper_tables(figures):
        console.print(part)
    return console.file.getvalue()


@pytest.mark.parametrize("name", TABLES)
def test_a_table_fits_the_terminal_and_no_figure_is_cut(name, made):
    out = shown(made[name])
    assert max(map(len, out.splitlines())) <= WIDTH
    assert "…" not in out
    for sheet in made[name].made.sheets:
        for row in sheet.rows:
            for cell in row.cells.values():
                assert mean_and_spread(cell.summary) in out or mean_and_spread(cell.summary, "±") in out
                assert printed(cell) in out


@pytest.mark.parametrize("name", TABLES)
def test_what_failed_is_a_dash_and_told(name, broken):
    if not broken[name].failures:
        assert name == "tuning"  # the one table that has nothing to do with what failed
        return
    out = shown(broken[name])
    assert " - " in out or " -\n" in out
    assert "the lamp went out" in " ".join(out.split())
    assert "the lamp went out" in paper_markdown(broken[name])


def test_arrows_say_who_is_worse(made):
    line = next(line for line in shown(made["table2"]).splitlines() if line.lstrip().startswith("12"))
    assert " ".join(line.split()) == "12 Progressive 35.0 ± 0.0 ⇓ 64.47⇓ <.001 35.0 ± 0.0 ⇓ 68.25⇓ <.001"


def test_the_range_of_the_strength_is_told(made):
    for text in (" ".join(shown(made["table2"]).split()), paper_markdown(made["table2"])):
        assert "EWC's strength is" in text
        assert all(f"{strength:g}" in text for strength in PAPER.strengths)


@pytest.mark.parametrize("name", TABLES)
def test_markdown_has_every_row_and_tables_of_one_width(name, made):
    lines = paper_markdown(made[name]).splitlines()
    rows = [row.name for sheet in made[name].made.sheets for row in sheet.rows]
    for row in rows:
        assert any(f"| {row} |" in line for line in lines)
    width = 0
    for line in lines:
        width = 0 if not line.startswith("|") else width or line.count("|")
        assert line.count("|") == width
    assert lines[-1] == f"From `memgrow paper {name}`, 2 seeds."


def test_markdown_shows_the_papers_figures_and_both_kinds_of_test(made):
    text = paper_markdown(made["table2"])
    (line,) = (line for line in text.splitlines() if line.startswith("| 12 | Progressive | 35"))
    assert line == "| 12 | Progressive | 35.0 ± 0.0⇓ (64.47⇓) | 35.0 ± 0.0⇓ (68.25⇓) | 2 |"
    assert "against F+M+V: difference in points [95% interval], p; arrows by seed:" in text
    (line,) = (line for line in text.splitlines() if line.startswith("| 12 | Progressive | −"))
    assert "<.001; 2 ⇓" in line


# Pictures


def test_curves_are_drawn(made, broken, tmp_path):
    scaling = [some["conditions"].made.studies["data"] for some in (made, broken)]
    for number, (draw, what) in enumerate([(draw_slots, made["slots"]), *((draw_scaling, one) for one in scaling)]):
        path = tmp_path / f"{number}.png"
        draw(what, path)
        assert path.stat().st_size > 5000


def test_no_curve_of_slots_is_drawn_while_a_number_of_them_has_no_runs(tmp_path):
    runner = Runner(uneven, fails=lambda run: run.model.slots in (100, 300))
    ran = run_all([TABLES["slots"]], replace(PAPER, seeds=2), runner)
    with pytest.raises(SettingsError, match="there are no runs with 100, 300 slots"):
        draw_slots(figures(TABLES["slots"], ran), tmp_path / "slots.png")
    assert not list(tmp_path.iterdir())


# The page


def test_a_page_is_begun_with_a_place_for_each_table_that_there_is(made, tmp_path):
    write_figures(tmp_path / "results", "table2", made["table2"].to_json())
    page = tmp_path / "docs/paper.md"
    assert write_page(page, tmp_path / "results") == ["table2"]
    text = page.read_text()
    assert text.startswith("# ")
    assert f"<!-- figures: paper-table2 -->\n{paper_markdown(made['table2'])}\n<!-- end of figures -->" in text


def test_what_is_written_by_hand_stays_and_what_is_marked_is_made_anew(made, tmp_path):
    for name in ("table2", "slots"):
        write_figures(tmp_path, name, made[name].to_json())
    draw_slots(made["slots"], tmp_path / "slots.png")
    page = tmp_path / "page.md"
    mark = "<!-- figures: paper-slots -->\nold figures\n<!-- end of figures -->"
    page.write_text(f"# Mine\n\nBefore \\1.\n\n{mark}\n\nAfter.\n")
    assert write_page(page, tmp_path) == ["slots"]
    text = page.read_text()
    assert text.startswith("# Mine\n\nBefore \\1.\n\n<!-- figures: paper-slots -->\n")
    assert text.endswith("\n<!-- end of figures -->\n\nAfter.\n")
    assert "old figures" not in text
    assert "](slots.png)" in text
    write_page(page, tmp_path)
    assert page.read_text() == text


def test_tables_may_be_on_a_page_beside(made, tmp_path):
    for name in ("table2", "slots"):
        write_figures(tmp_path, name, made[name].to_json())
    page, tables = tmp_path / "paper.md", tmp_path / "paper-tables.md"
    mark = "<!-- figures: paper-{} -->\n<!-- end of figures -->\n"
    page.write_text(mark.format("table2"))
    tables.write_text(mark.format("slots"))
    assert write_page(page, tmp_path) == ["table2", "slots"]
    assert paper_markdown(made["table2"]) in page.read_text()
    assert paper_markdown(made["slots"]) in tables.read_text()


def test_a_page_without_figures_is_refused_and_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- figures: paper-table1 -->\n<!-- end of figures -->\n")
    with pytest.raises(DataError, match="memgrow paper all"):
        write_page(page, tmp_path / "nowhere")
    write_figures(tmp_path, "table2", {"title": "", "sheets": [], "notes": [], "failures": [], "seeds": 1})
    with pytest.raises(DataError, match=r"no table1\.json"):
        write_page(page, tmp_path)
    write_figures(tmp_path, "table1", {"title": "of another version"})
    with pytest.raises(DataError, match=r"table1\.json is not what this memgrow writes"):
        write_page(page, tmp_path)
    assert page.read_text() == "<!-- figures: paper-table1 -->\n<!-- end of figures -->\n"


def test_every_table_has_a_place_on_the_page():
    assert set(BLOCKS) == {*TABLES, *DIALOGUE, "theorem"}
