"""docs/check.py holds, and finds what is wrong."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "docs")]

import check  # noqa: E402

pytestmark = pytest.mark.docs


@pytest.mark.parametrize("one", check.CHECKS, ids=lambda one: one.__name__)
def test_holds(one):
    assert list(one()) == []


@pytest.mark.parametrize(
    ("one", "text", "found"),
    [
        (check.links_exist, "[a](nowhere.md)", "nowhere.md does not exist"),
        (check.links_exist, "[a](#b)\n\n# A\n", "no such heading"),
        (check.commands_exist, "`memgrow nothing`", "no command memgrow nothing"),
        (check.commands_exist, "```shell\nmemgrow adapt m/ a.csv --watch b.csv --loop x\n```\n", "adapt has no --loop"),
        (check.commands_exist, "`make coffee`", "no make coffee"),
        (check.commands_exist, "`python -m research.nothing`", "no python -m research.nothing"),
        (check.commands_are_run, "```text\nmemgrow methods\n```\n", "commands in a block 'text'"),
        (check.measured_numbers_are_in_blocks, "It ends at 88.8%.", "outside a block"),
        (check.figures_are_current, "<!-- figures: readings -->\nold\n<!-- end of figures -->", "out of date"),
        (check.figures_are_current, "<!-- figures: none -->\n<!-- end of figures -->", "no figures none"),
        (check.blocks_name_their_command, "<!-- figures: readings -->\n1\n<!-- end of figures -->", "no command"),
    ],
)
def test_finds(one, text, found, monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text)
    monkeypatch.setattr(check, "pages", lambda: [page])
    monkeypatch.setattr(check, "name_of", lambda page: page.name)
    (sentence,) = one()
    assert found in sentence
