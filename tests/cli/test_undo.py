"""`memgrow undo`, `history` and `adapt --max-forgetting`: what a user is told."""

import json

import pytest
from memgrow.manifest import Manifest

from tests.cli.conftest import contents
from tests.cli.test_verify import damage, verify
from tests.test_forgetting import lose


def words(out: str) -> str:
    return " ".join(out.split())


def test_undo_says_what_was_taken_back_and_what_holds_now(memgrow, model):
    out = words(memgrow.done("undo", model))
    assert "Taken back, and removed from" in out
    assert "harbour (F+M+V)." in out
    assert "It is as it was after stage 1, kitchen:" in out
    assert "average accuracy at the end" in out
    assert "No earlier version is kept." in out
    assert memgrow.learnt(model) == [("kitchen",)]
    sentence = memgrow.refused("undo", model)
    assert "keeps no earlier version, so there is nothing to undo" in sentence
    assert "--keep-versions" in sentence


def test_undo_changes_nothing_if_it_cannot_be_done(memgrow, untouched):
    assert "cannot go back to stage 5: there is stage 1" in memgrow.refused("undo", untouched, "--to", "5")
    assert "as it was after stage 2 already" in memgrow.refused("undo", untouched, "--to", "2")


def test_undo_of_nothing_is_a_mistake(memgrow, never_made):
    assert "there is no model at" in memgrow.refused("undo", never_made)


def test_the_history_shows_stages_figures_and_which_versions_are_there(memgrow, data, model):
    memgrow.done("adapt", model, data["clinic"], "--watch", data["kitchen"], "--method", "F+A", "--keep-versions", "1")
    out = memgrow.done("history", model)
    assert max(map(len, out.replace(str(model), "m").splitlines())) <= 80
    rows = [line.split() for line in out.splitlines() if line[:3].strip().isdigit()]
    assert [(row[0], row[1]) for row in rows] == [("1", "kitchen"), ("2", "harbour"), ("3", "clinic")]
    assert rows[0][-1] == "-", "no longer there"
    assert [row[-1] for row in rows[1:]] == ["kB"] * 2
    assert "50" in rows[2], "the share kept"
    assert "with 1 earlier version." in words(out)
    found = json.loads(memgrow.done("history", model, "--json"))
    assert [one["stage"] for one in found["versions"]] == [3, 2]
    assert all(stage["date"].endswith("+00:00") for stage in found["history"]["stages"])


def test_verify_finds_damage_in_an_earlier_version_and_undo_helps_with_the_newest(memgrow, model):
    code, out = verify(memgrow, model)
    assert (code, "and 1 earlier version" in out) == (0, True)
    (earlier,) = Manifest.of(model).earlier.values()
    damage(model / "model.safetensors")
    code, out = verify(memgrow, model)
    assert (code, "`memgrow undo` goes back" in out) == (1, True)
    damage(model / earlier.folder / "vocabulary.json")
    code, out = verify(memgrow, model)
    assert code == 1
    assert "its version after stage 1: " in out
    assert "vocabulary.json is not what was written" in out
    assert "kitchen" in memgrow.done("history", model), "which is whole"
    assert "vocabulary.json is not what was written" in memgrow.refused("undo", model)


def test_a_domain_that_costs_too_much_is_told_and_ends_with_an_exit_code_of_its_own(
    memgrow, data, untouched, monkeypatch
):
    lose(5.0, monkeypatch)
    result = memgrow("adapt", untouched, data["clinic"], "--watch", data["kitchen"], "--max-forgetting", "0")
    assert result.exit_code == 3
    assert result.stderr.count("\n") == 1
    assert "memgrow: clinic was learnt and not kept: kitchen falls from " in result.stderr
    assert "(5.0 points), and at most 0 may be lost" in result.stderr


def test_a_bound_without_anything_watched_is_a_mistake(memgrow, data, untouched):
    sentence = memgrow.refused("adapt", untouched, data["clinic"], "--max-forgetting", "1")
    assert "(kitchen, harbour), and none are given: watch some (--watch FILE), or leave it out" in sentence


def test_a_domain_of_the_data_is_watched_by_its_name(memgrow, data, model):
    files = [data[name] for name in ("kitchen", "clinic")]
    memgrow.done("adapt", model, *files, "--domains", "clinic", "--watch", "kitchen", "--max-forgetting", "100")
    matrix = json.loads(memgrow.done("history", model, "--json"))["history"]["matrix"]
    assert memgrow.learnt(model)[-1] == ("clinic",)
    assert set(matrix[-1]["scores"]) == {"kitchen", "clinic"}


def test_a_domain_with_a_dot_in_its_name_is_watched_by_its_name(memgrow, reviews, jsonl, tmp_path):
    rows = [{**row, "release": release} for release in ("v1.1", "v1.2") for row in reviews]
    words = ("adapt", tmp_path / "m", jsonl(tmp_path / "all.jsonl", rows), "--by", "release", *memgrow.tiny)
    memgrow.done(*words, "--domains", "v1.2")
    memgrow.done(*words, "--domains", "v1.1", "--watch", "v1.2")
    matrix = json.loads(memgrow.done("history", tmp_path / "m", "--json"))["history"]["matrix"]
    assert set(matrix[-1]["scores"]) == {"v1.1", "v1.2"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("kitschen", "is no file, and no domain of the data"),
        ("v1.2", "is no file, and no domain of the data"),
        ("kitschen.jsonl", "does not exist"),
        ("kitschen.CSV.gz", "does not exist"),
        ("data/kitschen", "does not exist"),
    ],
)
def test_a_name_that_is_neither_is_a_mistake(memgrow, data, untouched, name, says):
    before = contents(untouched)
    assert says in memgrow.refused("adapt", untouched, data["clinic"], "--watch", name)
    assert contents(untouched) == before
