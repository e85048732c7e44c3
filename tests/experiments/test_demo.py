"""The demo: each method learns the same stream, seed by seed, and all of it is written down."""

import json
import re
import sys

import pytest
from typer.testing import CliRunner

from memgrow.cli import app
from memgrow.data import synthetic_stream
from memgrow.experiments import demo
from memgrow.history import History
from memgrow.methods import RECOMMENDED
from memgrow.progress import NoProgress
from tests.support.pictures import kept_figures

NAMES = ("kitchen", "harbour", "clinic")


def make_small(patch, tiny, short) -> None:
    patch.setattr(demo, "MODEL", tiny)
    patch.setattr(demo, "TRAINING", short)
    patch.setattr(
        demo, "synthetic_stream", lambda seed: synthetic_stream(domains=3, train=30, validation=12, test=12, seed=seed)
    )


@pytest.fixture(autouse=True)
def small(monkeypatch, tiny, short):
    make_small(monkeypatch, tiny, short)


@pytest.fixture(scope="module")
def made(tiny, short) -> demo.Demo:
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch, tiny, short)
        return demo.run_demo(["F", "f+m+v"], range(5, 7), "cpu", NoProgress())


def test_each_method_has_a_run_for_each_seed(made):
    assert list(made.histories) == ["F", "F+M+V"]
    for runs in made.histories.values():
        assert {seed: history.domains for seed, history in runs.items()} == {5: NAMES, 6: NAMES}
        assert runs[5].matrix != runs[6].matrix or runs[5].stages[0].fingerprint != runs[6].stages[0].fingerprint


def test_methods_learn_the_same_data(made):
    data = [
        [stage.fingerprint for history in runs.values() for stage in history.stages] for runs in made.histories.values()
    ]
    assert data[0] == data[1]
    assert len(set(data[0])) == 6


def test_the_same_seed_gives_the_same_matrices(made):
    again = demo.run_demo(["F"], range(6, 7), "cpu", NoProgress())
    assert again.histories["F"][6].matrix == made.histories["F"][6].matrix


def test_the_mean_matrix_is_the_mean_of_every_field(made):
    first, second = (history.matrix for history in made.histories["F"].values())
    mean = made.comparison.mean_matrix("F")
    assert [row.learned for row in mean.rows] == [(name,) for name in NAMES]
    for stage in range(3):
        for name in NAMES:
            expected = (first.score(stage, name) + second.score(stage, name)) / 2
            assert mean.score(stage, name) == pytest.approx(expected)


def test_the_summary_has_mean_and_spread_over_the_seeds(made):
    first, second = made.histories["F+M+V"].values()
    found = made.to_json()["summary"]["F+M+V"]
    low, high = sorted((first.matrix.average(), second.matrix.average()))
    assert found["average"]["mean"] == pytest.approx((low + high) / 2)
    assert found["average"]["spread"] == pytest.approx((high - low) / 2**0.5)
    assert found["parameters"]["mean"] == (first.stages[-1].parameters + second.stages[-1].parameters) / 2
    assert found["seconds"]["mean"] > 0


def test_forgetting_that_there_is_none_of_is_no_zero(tmp_path, monkeypatch):
    drawn = kept_figures(monkeypatch)
    result = CliRunner().invoke(app, ["demo", "--methods", "F,multi-task", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "demo.json").read_text())["summary"]
    assert found["multi-task"]["forgetting"] == {"mean": None, "spread": None}
    assert isinstance(found["F"]["forgetting"]["mean"], float)
    rows = [line.split() for line in result.output.splitlines()]
    assert [row[2] for row in rows if row[:1] == ["multi-task"] and len(row) == 5] == ["·"]
    assert ["forgot" in axis.get_title() for axis in drawn[0].axes[:2]] == [True, False]


def test_json_has_all_runs_and_their_settings(made, tiny):
    found = json.loads(json.dumps(made.to_json()))
    assert (found["seeds"], found["first_seed"]) == (2, 5)
    assert found["settings"]["model"]["hidden"] == tiny.hidden
    for method, runs in made.histories.items():
        read = [
            History.from_json(run, history.labels)
            for run, history in zip(found["runs"][method], runs.values(), strict=True)
        ]
        assert read == list(runs.values())
    again = demo.Demo.from_json(found)
    assert again.comparison == made.comparison
    assert again.memory == made.memory
    assert set(made.memory["F+M+V"].shares) == set(NAMES)


def test_the_command_writes_figures_and_picture_and_shows_both_matrices(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--seeds", "2", "--seed", "5", "--out", str(tmp_path / "deep" / "out")])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "deep" / "out").iterdir()) == [
        "demo.json",
        "demo.png",
        "report.html",
    ]
    assert json.loads((tmp_path / "deep" / "out" / "demo.json").read_text())["seeds"] == 2
    assert (tmp_path / "deep" / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")
    for method in demo.METHODS:
        assert f"{method}: test accuracy" in result.output
    assert "at the end, 2 seeds" in result.output
    said = " ".join(result.output.split())
    end = r"the default, ends \d+\.\d points (above|below) fine-tuning \(F\)"
    assert re.search(rf"{re.escape(RECOMMENDED)}, {end}", said)
    assert re.search(r"F\+M\+V ends [+-]\d+\.\d( ± \d+\.\d)?\*? points against the default\.", said)
    assert "memgrow compare FILES... tells" in said
    tables = [line for line in result.output.splitlines() if line.startswith("  ")]
    assert max(map(len, tables)) <= 80  # sentences are wrapped where there is a terminal


def test_without_matplotlib_the_figures_are_there_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = CliRunner().invoke(app, ["demo", "--methods", "F", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo.json", "report.html"]
    assert "There is no picture: pictures need matplotlib" in result.stderr
