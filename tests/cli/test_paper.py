"""`memgrow paper` on generated pairs in MultiNLI's layout."""

import json

import pytest

from memgrow.experiments.job import WorkerContext
from memgrow.experiments.paper.tables import TABLES
from tests.support.multinli_layout import write_multinli

WIDTH = 80

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_multinli(tmp_path_factory.mktemp("nli"), pairs_per_genre=24, held_out=16)


@pytest.fixture(scope="module")
def quick(folder):
    return ("--quick", "--data", folder, "--limit", 16, "--device", "cpu", "--workers", 1)


@pytest.fixture(scope="module")
def everything(memgrow, quick, tmp_path_factory):
    """The folder that `paper all conditions --quick` has filled, and what it printed."""
    out = tmp_path_factory.mktemp("out")
    return out, memgrow.done("paper", "all", "conditions", *quick, "--seeds", 1, "--out", out)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.json")}


@pytest.mark.extras
def test_all_and_conditions_make_every_table(everything):
    out, printed = everything
    assert set(files(out)) == {f"{name}.json" for name in (*TABLES, "theorem")}
    assert {path.name for path in out.glob("*.png")} == {"slots.png", "scaling.png", "theorem.png"}
    assert max(map(len, printed.replace(str(out), "out").splitlines())) <= WIDTH
    assert "failed" not in printed
    for name in TABLES:
        figures = json.loads((out / f"{name}.json").read_text())
        assert figures["failures"] == []
        assert figures["seeds"] == 1
        assert figures["data"]["fiction"] == {"train": 16, "validation": 8, "test": 8}
        assert figures["command"] == f"memgrow paper {name} --data FOLDER --seeds 1 --limit 16 --quick"
    lines = json.loads((out / "table2.json").read_text())["sheets"][0]["rows"]
    assert all(0 <= cell["mean"] <= 100 for line in lines for cell in line["cells"].values())


@pytest.mark.extras
def test_the_same_command_again_makes_the_same_tables_without_a_run(everything, memgrow, quick, monkeypatch):
    out, _ = everything
    before = files(out)
    monkeypatch.setattr(WorkerContext, "run", lambda *_: pytest.fail("a run was made"))
    printed = memgrow.done("paper", "all", "conditions", *quick, "--seeds", 1, "--out", out)
    assert files(out) == before
    assert "seed 0" not in printed  # no job has ended


@pytest.mark.extras
def test_the_page_shows_all_of_it(everything, memgrow, tmp_path):
    out, _ = everything
    memgrow.done("paper", "page", "--out", out, "--page", tmp_path / "paper.md")
    text = (tmp_path / "paper.md").read_text()
    assert text.count("<!-- figures: paper-") == len(TABLES) + 2  # the theorem, and how to read it all
    assert text.count("](") == 3  # pictures
    assert "(67.55)" in text


def test_runs_alone_leave_no_tables_and_tables_find_them_later(memgrow, quick, tmp_path):
    memgrow.done("paper", "slots", *quick, "--seeds", 1, "--out", tmp_path, "--only-runs")
    assert not files(tmp_path)
    printed = memgrow.done("paper", "slots", *quick, "--seeds", 1, "--out", tmp_path)
    assert "seed 0" not in printed
    assert set(files(tmp_path)) == {"slots.json"}


def test_more_seeds_add_to_those_that_are_there(memgrow, quick, tmp_path):
    for seeds in (1, 2):
        memgrow.done("paper", "rates", *quick, "--seeds", seeds, "--out", tmp_path)
        rows = json.loads((tmp_path / "rates.json").read_text())["sheets"][0]["rows"]
        assert {len(row["cells"]["S"]["values"]) for row in rows} == {seeds}
    assert {cell["spread"] is None for row in rows for cell in row["cells"].values()} == {False}


def test_one_study_alone_can_be_asked_for(memgrow, quick, tmp_path):
    memgrow.done("paper", "conditions", "--study", "quiet", *quick, "--seeds", 1, "--out", tmp_path)
    studies = json.loads((tmp_path / "conditions.json").read_text())["studies"]
    assert list(studies) == ["quiet"]


def test_the_theorem_needs_no_corpus(memgrow, tmp_path, monkeypatch):
    monkeypatch.setenv("MEMGROW_DATA", str(tmp_path / "empty"))
    memgrow.done("paper", "theorem", "--quick", "--out", tmp_path)
    assert json.loads((tmp_path / "theorem.json").read_text())["measured"] == []


def test_a_run_that_fails_is_told_at_the_end_and_the_tables_are_there(memgrow, quick, tmp_path, monkeypatch):
    do = WorkerContext.run

    def sometimes(self, job, progress):
        if job.run.training.rate == 0.03:
            raise RuntimeError("a cable was pulled")
        return do(self, job, progress)

    monkeypatch.setattr(WorkerContext, "run", sometimes)
    words = ("paper", "rates", *quick, "--seeds", 1, "--out", tmp_path)
    assert "1 run failed (the first by F+M+V: " in memgrow.refused(*words)
    high, low = (
        row["cells"]["S"]["mean"] for row in json.loads((tmp_path / "rates.json").read_text())["sheets"][0]["rows"]
    )
    assert (high is None, low is None) == (True, False)
    monkeypatch.setattr(WorkerContext, "run", do)
    memgrow.done(*words)


def test_mistakes_are_one_sentence(memgrow, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MEMGROW_DATA", str(tmp_path / "empty"))
    assert "table1" in memgrow.refused("paper", "table9")
    assert "memgrow data get multinli" in memgrow.refused("paper", "table1", "--out", tmp_path)
    assert "nowhere" in memgrow.refused("paper", "table1", "--data", tmp_path / "nowhere", "--out", tmp_path)
    assert "dropout" in memgrow.refused("paper", "conditions", "--study", "daft", "--data", folder, "--out", tmp_path)
    assert "conditions" in memgrow.refused("paper", "table1", "--study", "data", "--data", folder)
    assert "memgrow paper all" in memgrow.refused("paper", "page", "--out", tmp_path, "--page", tmp_path / "p.md")
    assert not list(tmp_path.iterdir())
