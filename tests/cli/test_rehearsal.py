"""Rehearsal at the command line: whoever meets it is told that it keeps rows, and nobody gets it unasked."""

import json
import re
import shutil

import pytest

from memgrow.cli import compare as compare_command
from memgrow.methods import METHODS
from memgrow.report.methods import read_methods
from tests.support.canaries import leaks
from tests.support.stored import stored

QUICK = ("--device", "cpu", "--set", "rehearse=6")


@pytest.fixture(scope="module")
def rehearsed(memgrow, data, tmp_path_factory):
    """A model that has kept rows of two domains, and all that was said as it learnt them."""
    folder = tmp_path_factory.mktemp("rehearsed") / "model"
    files = (data["kitchen"], data["harbour"])
    result = memgrow("adapt", folder, *files, *memgrow.tiny, *QUICK, "--method", "rehearsal+V")
    assert result.exit_code == 0, result.output
    return folder, " ".join(result.output.split())


def test_adapt_says_what_is_kept_and_where(rehearsed):
    folder, said = rehearsed
    assert "kitchen: rehearsal+V keeps 6 rows of it, as text, in the model's folder (rehearsal.json)" in said
    assert "harbour: 6 rows of kitchen are learnt with it, as " in said
    assert said.count("; 6 rows kept") == 2
    assert (stored(folder) / "rehearsal.json").is_file()


def test_inspect_and_history_say_what_is_kept(rehearsed, memgrow):
    folder, _ = rehearsed
    out = " ".join(memgrow.done("inspect", folder).split())
    assert "rows kept kitchen 6, harbour 6: texts of the data, in rehearsal.json" in out
    assert json.loads(memgrow.done("inspect", folder, "--json"))["about"]["rows_kept"] == {"kitchen": 6, "harbour": 6}
    out = memgrow.done("history", folder)
    assert "memgrow inspect says which are still there" in " ".join(out.split())  # an export or another method has none
    assert re.search(r"harbour +rehearsal .* 6 ", out)


def test_the_report_of_a_model_says_that_rows_are_kept(rehearsed, memgrow, tmp_path):
    memgrow.done("report", rehearsed[0], "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Method rehearsal+V, which keeps rows of earlier domains" in page
    assert page.count("rehearsal+V (6 rows kept)") == 2


def test_other_models_have_no_such_file_and_say_nothing_of_rows(made, memgrow):
    assert not list(made.rglob("rehearsal.json"))
    for words in (("inspect", made), ("history", made)):
        assert "rows kept" not in memgrow.done(*words)


def test_the_methods_and_the_help_name_it_as_one_that_keeps_rows(memgrow):
    assert [one["name"] for one in read_methods()["methods"] if one["keeps_rows"]] == ["rehearsal"]
    out = " ".join(memgrow.done("methods", COLUMNS=None).split())
    assert f"+ old rows yes {METHODS['rehearsal'].about}" in out
    assert "KEEPS" in METHODS["rehearsal"].about
    assert (
        "rehearsal keeps rows of earlier domains, as text, in the model's folder: it is taken only by its name" in out
    )
    assert "rehearsal keeps rows of the data" in " ".join(memgrow.done("adapt", "--help", COLUMNS="200").split())


def test_another_method_gives_the_rows_up_and_says_so(rehearsed, memgrow, data, tmp_path):
    place = shutil.copytree(rehearsed[0], tmp_path / "model")
    result = memgrow("adapt", place, data["clinic"], "--method", "F", "--keep-versions", 0, "--device", "cpu")
    assert result.exit_code == 0
    said = " ".join(result.output.split())
    assert "keeps 12 rows of kitchen, harbour: F gives them up with the next save" in said
    assert not list(tmp_path.rglob("rehearsal.json"))


def test_pruning_keeps_the_rows(rehearsed, memgrow, data, tmp_path):
    place = shutil.copytree(rehearsed[0], tmp_path / "model")
    rows, weights = ((place / name).read_bytes() for name in ("rehearsal.json", "model.safetensors"))
    memgrow.done("prune", place, "--data", data["kitchen"], "--below", 0.3)
    assert (stored(place) / "model.safetensors").read_bytes() != weights
    assert (stored(place) / "rehearsal.json").read_bytes() == rows


def test_compare_marks_it_needs_no_file_and_shows_what_adapt_gives(memgrow, data, tmp_path, monkeypatch):
    monkeypatch.setattr(compare_command, "save_picture", lambda *_: None)
    files = list(data.values())[:2]
    same = (*memgrow.tiny, *QUICK, "--set", "rate=0.01", "--set", "rehearsal_share=0.5", "--limit", 24, "--seed", 3)
    out = memgrow.done(
        "compare", *files, *same, "--methods", "rehearsal+V", "--seeds", 1, "--workers", 1, "--out", tmp_path / "out"
    )
    assert re.search(r"^ +rehearsal\+V † +\d", out, re.MULTILINE)
    said = " ".join(out.split())
    assert "†: keeps rows of earlier domains" in said
    assert re.search(r"Without old data, (F|bag of words) ends best", said), "whatever rehearsal ends with"
    assert "rehearsal+V †" in (tmp_path / "out" / "report.html").read_text()
    assert not list(tmp_path.rglob("rehearsal.json"))
    rows = [json.loads(line) for line in files[0].read_text().splitlines()]
    texts = [value.lower() for row in rows for name, value in row.items() if name not in ("label", "split")]
    assert not list(leaks(tmp_path, texts))
    shown = json.loads((tmp_path / "out" / "compare.json").read_text())["methods"]["rehearsal+V"]["matrices"]["3"]
    memgrow.done("adapt", tmp_path / "model", *files, *same, "--method", "rehearsal+V")
    assert json.loads((stored(tmp_path / "model") / "history.json").read_text())["matrix"] == shown
