"""`memgrow report`: a page of a model, of a comparison and of the demo; nothing else is written over."""

import json
import sys
from pathlib import Path

import pytest

from memgrow.evaluation.comparison import REPLIES, Comparison, RunResult
from memgrow.evaluation.history import AccuracyMatrix
from tests.support.stored import stored

ROOT = Path(__file__).parents[2]


def test_a_model_and_its_data_make_a_page_without_the_texts(memgrow, made, data, tmp_path):
    out = tmp_path / "deep" / "page.html"
    assert f"The report is {out}." in memgrow.done("report", made, data["kitchen"], data["clinic"], "-o", out).replace(
        "\n", ""
    )
    page = out.read_text(encoding="utf-8")
    matrix = json.loads((stored(made) / "history.json").read_text())["matrix"]
    for row in matrix:
        for score in row["scores"].values():
            assert f">{100 * score:.1f}<" in page
    assert "The slots that are read most" in page
    for one in json.loads((stored(made) / "calibration.json").read_text())["domains"].values():
        assert f">{100 * one['after']['ece']:.1f}<" in page
    for line in data["kitchen"].read_text().splitlines():
        assert json.loads(line)["premise"] not in page
    assert [path.name for path in out.parent.iterdir()] == ["page.html"]


@pytest.mark.parametrize("name", ["sentiment", "demo"])
def test_what_is_kept_of_earlier_runs_makes_a_page(memgrow, name, tmp_path):
    memgrow.done("report", ROOT / "results" / name, "--method", "F+V", "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "F: fine-tuning" in page
    assert ("multi-task: retraining on everything" in page) == (name == "sentiment")


def test_a_method_can_be_chosen(memgrow, tmp_path):
    source = ROOT / "results/sentiment/compare.json"
    memgrow.done("report", source, "--method", "f+m+v", "-o", tmp_path / "page.html")
    assert "Method F+M+V, mean of 5 seeds" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "it has" in memgrow.refused("report", source, "--method", "EWC", "-o", tmp_path / "other.html")


def test_a_reference_can_be_chosen_as_a_method_can(memgrow, tmp_path):
    value = json.loads((ROOT / "results/sentiment/compare.json").read_text())
    value["methods"]["bag of words"] = value["methods"]["F+V"]
    (tmp_path / "compare.json").write_text(json.dumps(value))
    memgrow.done("report", tmp_path, "--method", "bag of words", "-o", tmp_path / "page.html")
    assert "Method bag of words, mean of 5 seeds" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("told", [None, {}, {"0": {}}, {"0": {"a": 0.0}}, {"0": {"a": -3}}, {"0": {"a": float("nan")}}])
def test_figures_of_replies_without_perplexities_are_refused(memgrow, told, tmp_path):
    matrix = AccuracyMatrix().with_row(["a"], {"a": 0.1})
    runs = {name: {0: RunResult(matrix, 1000, 1.0, {"a": 20.0})} for name in ("F", "F+V")}
    value = {"measure": "bleu2", "settings": {}, "methods": Comparison(runs, kind=REPLIES).to_json(), "failures": []}
    (tmp_path / "compare.json").write_text(json.dumps(value))
    memgrow.done("report", tmp_path, "-o", tmp_path / "page.html")
    (tmp_path / "page.html").unlink()
    value = json.loads(json.dumps(value))
    value["methods"]["F+V"]["perplexities"] = told
    if told is None:
        del value["methods"]["F+V"]["perplexities"]
    (tmp_path / "compare.json").write_text(json.dumps(value))
    assert "no file of figures" in memgrow.refused("report", tmp_path, "-o", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_an_earlier_report_is_replaced_and_nothing_else_is(memgrow, tmp_path):
    source = ROOT / "results/demo"
    for _ in range(2):
        memgrow.done("report", source, "-o", tmp_path / "page.html")
    (tmp_path / "thesis.html").write_text("<p>years of work</p>")
    assert "no report of memgrow's" in memgrow.refused("report", source, "-o", tmp_path / "thesis.html")
    assert (tmp_path / "thesis.html").read_text() == "<p>years of work</p>"
    assert "is a folder" in memgrow.refused("report", source, "-o", tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"runs": []}',
        '{"methods": {}, "measure": "accuracy", "settings": {}, "failures": []}',
        "\x00",
        "[" * 99999,
    ],
)
def test_a_file_that_is_no_run_is_refused(memgrow, content, tmp_path):
    (tmp_path / "x.json").write_text(content)
    memgrow.refused("report", tmp_path / "x.json", "-o", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("junk", ["<b>", None, [], {}, {"a": 1}, float("nan"), 1e308])
@pytest.mark.parametrize(
    "place",
    [
        ("settings",),
        ("settings", "model"),
        ("methods", "F", "matrices"),
        ("methods", "F", "matrices", "0"),
        ("methods", "F", "matrices", "0", 0, "scores"),
        ("methods", "F", "matrices", "0", 0, "scores", "films"),
    ],
)
def test_figures_that_are_none_are_refused(memgrow, place, junk, tmp_path):
    value = json.loads((ROOT / "results/sentiment/compare.json").read_text())
    *way, last = place
    inner = value
    for key in way:
        inner = inner[key]
    inner[last] = junk
    (tmp_path / "compare.json").write_text(json.dumps(value))
    if place[0] == "settings" and isinstance(junk, dict) and (len(place) == 2 or not junk):
        memgrow.done("report", tmp_path, "-o", tmp_path / "page.html")
    else:
        assert "no file of figures" in memgrow.refused("report", tmp_path, "-o", tmp_path / "page.html")


def test_what_does_not_go_together_is_refused(memgrow, made, data, tmp_path):
    out = ("-o", tmp_path / "page.html")
    assert "no model" in memgrow.refused("report", ROOT / "results/demo", data["kitchen"], *out)
    assert "--method is for comparisons" in memgrow.refused("report", made, "--method", "F", *out)
    assert "same domains" in memgrow.refused("report", made, "--comparison", ROOT / "results/sentiment", *out)
    assert "no figures" in memgrow.refused("report", made, "--comparison", made, *out)
    assert not (tmp_path / "page.html").exists()


def test_the_pictures_are_written_as_png_and_svg(memgrow, made, tmp_path):
    said = memgrow.done("report", made, "-o", tmp_path / "page.html", "--plots", tmp_path / "plots").replace("\n", "")
    names = sorted(path.name for path in (tmp_path / "plots").iterdir())
    assert names == ["curves.png", "curves.svg", "matrix.png", "matrix.svg", "training.png", "training.svg"]
    assert all(name in said for name in names)
    assert (tmp_path / "plots/curves.png").read_bytes().startswith(b"\x89PNG")
    assert "kitchen" in (tmp_path / "plots/matrix.svg").read_text(encoding="utf-8")


def test_pictures_without_matplotlib_are_refused_before_anything_is_read(memgrow, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    said = memgrow.refused("report", tmp_path / "none", "-o", tmp_path / "page.html", "--plots", tmp_path / "plots")
    assert "memgrow[plots]" in said
    assert list(tmp_path.iterdir()) == []
