"""`memgrow theorem` from end to end."""

import json
import sys

import pytest


@pytest.mark.slow
def test_the_numbers_are_printed_and_kept(memgrow, tmp_path):
    out = memgrow.done("theorem", "--samples", 5, "--out", tmp_path / "t")
    assert "slots read" in out
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == ["theorem.json", "theorem.png"]
    assert json.loads((tmp_path / "t/theorem.json").read_text())["measured"] == []


@pytest.mark.slow
def test_a_model_is_measured_on_files(memgrow, made, data, tmp_path):
    files = ("--data", data["kitchen"], "--data", data["clinic"])
    words = ("--samples", 5, "--draws", 2, "--limit", 4, "--out", tmp_path, "--device", "cpu")
    out = memgrow.done("theorem", "--model", made, *files, *words)
    assert "model on kitchen" in out
    measured = json.loads((tmp_path / "theorem.json").read_text())["measured"]
    assert [one["domain"] for one in measured] == ["kitchen", "clinic"]
    assert [one["examples"] for one in measured] == [4, 4]


def test_without_matplotlib_the_figures_are_kept_all_the_same(memgrow, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = memgrow("theorem", "--samples", 2, "--out", tmp_path)
    assert result.exit_code == 0
    assert "There is no picture" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["theorem.json"]


def test_a_model_wants_texts_and_texts_a_model(memgrow, made, data, tmp_path):
    for words in (("--model", made), ("--data", data["kitchen"])):
        assert "both --model and --data" in memgrow.refused("theorem", *words, "--out", tmp_path / "never")
    assert not (tmp_path / "never").exists()
