"""docs/check.py tells what is wrong with a page, and says so with its exit code."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("check", ROOT / "docs/check.py")
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


@pytest.fixture
def page(check, tmp_path, monkeypatch):
    """A page that is the only one."""
    page = tmp_path / "README.md"
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "PAGES", [page])
    return page


def test_a_link_that_leads_nowhere_is_told(check, page):
    page.write_text("# One\n[there](#one) [not there](#two) [no page](three.md) [far](https://example.org)\n")
    assert list(check.links_lead_somewhere()) == [
        "README.md: #two: there is no such heading",
        "README.md: three.md leads nowhere",
    ]


def test_a_column_without_a_name_is_told(check, page):
    page.write_text("| a \\| b | c |\n|---|---|\n| 1 |  |\n\n| file | |\n|---|---|\n| one | two |\n")
    assert list(check.columns_have_names()) == ["README.md: a column of | file | | has no name"]


def test_links_in_code_are_none(check, page):
    page.write_text("```text\n[no link](nowhere.md)\n```\n")
    assert list(check.links_lead_somewhere()) == []


def test_figures_that_are_out_of_date_are_told(check, page, monkeypatch):
    page.write_text("<!-- figures: speed -->\nslow\n<!-- end of figures -->\n")
    places = {"speed": ("README.md", lambda _: "fast"), "size": ("README.md", lambda _: "small")}
    monkeypatch.setattr(check.figures, "PLACES", places)
    monkeypatch.setattr(check.figures, "load", dict)
    out_of_date, missing = check.figures_are_those_that_were_measured()
    assert "python docs/figures.py --write" in out_of_date
    assert missing == "README.md has no place for the figures 'size'"


@pytest.mark.parametrize(("said", "code"), [((), 0), (("a page is wrong", "and another"), 1)])
def test_the_exit_code_says_whether_all_is_well(check, monkeypatch, capsys, said, code):
    def pages_are_right():
        yield from said

    monkeypatch.setattr(check, "CHECKS", [pages_are_right])
    assert check.main() == code
    printed = capsys.readouterr().out
    assert "pages are right" in printed
    assert all(sentence in printed for sentence in said)


def test_a_version_that_is_pinned_twice_is_told(check, tmp_path, monkeypatch):
    for name in ("pyproject.toml", "Makefile", "constraints-minimum.txt"):
        (tmp_path / name).write_text(check.text_of(name), encoding="utf-8")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    assert list(check.the_oldest_versions_that_are_tested_are_those_that_are_allowed()) == []
    with (tmp_path / "constraints-minimum.txt").open("a", encoding="utf-8") as file:
        file.write("numpy==1.26.0\n")
    assert list(check.the_oldest_versions_that_are_tested_are_those_that_are_allowed()) == [
        "constraints-minimum.txt names numpy more than once"
    ]


def test_a_python_that_is_named_and_not_tested_is_told(check, tmp_path, monkeypatch):
    (tmp_path / ".github/workflows").mkdir(parents=True)
    for name in ("pyproject.toml", ".github/workflows/ci.yml"):
        (tmp_path / name).write_text(check.text_of(name), encoding="utf-8")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    assert list(check.the_workflow_tests_the_pythons_that_the_package_names()) == []
    workflow = tmp_path / ".github/workflows/ci.yml"
    workflow.write_text(workflow.read_text(encoding="utf-8").replace('"3.11", ', ""), encoding="utf-8")
    (sentence,) = set(check.the_workflow_tests_the_pythons_that_the_package_names())
    assert sentence == "pyproject.toml names Python 3.11, 3.12, 3.13; ci.yml tests 3.12, 3.13"


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("benchmarks/speed.py --out results/speed.json", None),
        ("python benchmarks/speed.py --out=results/speed.json", None),
        ("benchmarks/speed.py && benchmarks/speed.py --out results/speed.json", None),
        ("memgrow demo --seeds 3", None),
        ("make bench", None),
        (None, "results/speed.json does not name the command that wrote it, and neither does a page"),
        ("benchmarks/gone.py", "there is no benchmarks/gone.py"),
        ("benchmarks/speed.py --out results/speed.json && benchmarks/speed.py --gone", "it has no --gone"),
        ("benchmarks/speed.py --gone 1", "it has no --gone"),
        ("memgrow gone", "there is no memgrow gone"),
        ("memgrow demo --gone", "it has no --gone"),
        ("make gone", "there is no make gone"),
    ],
)
def test_results_name_a_command_that_there_is(check, tmp_path, monkeypatch, command, wrong):
    for folder in ("results/runs", "benchmarks"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "results/runs/kept.json").write_text("{}", encoding="utf-8")
    (tmp_path / "results/speed.json").write_text(json.dumps({"command": command}), encoding="utf-8")
    (tmp_path / "benchmarks/speed.py").write_text('parser.add_argument("--out")', encoding="utf-8")
    (tmp_path / "Makefile").write_text("bench: installed\n", encoding="utf-8")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    told = list(check.results_name_the_command_that_wrote_them())
    assert [sentence.endswith(wrong) for sentence in told] == [True] if wrong else told == []


def test_a_page_may_name_the_command_of_results_that_do_not(check, tmp_path, monkeypatch):
    (tmp_path / "results/demo").mkdir(parents=True)
    (tmp_path / "results/demo/demo.json").write_text("{}", encoding="utf-8")
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs/results.md"
    page.write_text("From `memgrow demo --methods F,F+V --seeds 3`.", encoding="utf-8")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    assert list(check.results_name_the_command_that_wrote_them()) == []
    page.write_text("From somewhere.", encoding="utf-8")
    (told,) = check.results_name_the_command_that_wrote_them()
    assert told.endswith("and neither does docs/results.md")


def test_a_figure_within_a_sentence_that_was_not_measured_is_told(check, monkeypatch):
    assert list(check.figures_within_sentences_are_those_that_were_measured()) == []
    found = check.text_of
    monkeypatch.setattr(check, "text_of", lambda page: found(page).replace("on sentiment with 3.0 points", "with 1.0"))
    (sentence,) = check.figures_within_sentences_are_those_that_were_measured()
    assert sentence.startswith("docs/results.md does not say 'ends at 88.0% on sentiment with 3.0 points forgotten")
