"""`memgrow tune`: a recipe that adapt takes, and what is refused before anything is made."""

import json
import sys

import pytest

from memgrow.cli.recipe import read_recipe
from memgrow.errors import SettingsError
from memgrow.experiments.tuning import search

QUICK = ("--workers", "1", "--device", "cpu", "--seeds", "1", "--limit", "24")


@pytest.fixture
def tune(memgrow, data, tmp_path):
    """The words of a search on three domains into a folder of its own."""
    return ("tune", *data.values(), *memgrow.tiny, *QUICK, "--out", tmp_path / "out")


@pytest.fixture
def optuna():
    return pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'memgrow[tune]'")


@pytest.mark.extras
def test_a_search_writes_a_recipe_that_adapt_takes_and_goes_on_with_more_trials(optuna, memgrow, tune, data, tmp_path):
    said = memgrow.done(*tune, "--method", "F+V+A", "--trials", 3)
    assert "kitchen → harbour → clinic: 72 training and 72 validation examples" in said
    words = " ".join(said.split())
    assert "F+V+A, 1 seed a trial; searched: rate 0.0001 to 0.01, epochs 2 to 20, keep 0 to 1" in words
    assert words.count(": validation") >= 3
    assert "mean of 1 seed" in words
    written = json.loads((tmp_path / "out" / "tune.json").read_text())
    assert len(written["trials"]) == 3
    best = next(trial for trial in written["trials"] if trial["number"] == written["best"])
    recipe = read_recipe(tmp_path / "out" / "recipe.yaml")
    assert recipe.method == "F+V+A"
    assert recipe.sections["training"]["rate"] == best["values"]["training.rate"]
    assert recipe.sections["options"] == {"keep": best["values"]["options.keep"]}
    assert recipe.sections["model"]["hidden"] == 5
    assert (tmp_path / "out" / "tune.png").read_bytes().startswith(b"\x89PNG")
    again = memgrow.done(*tune, "--method", "F+V+A", "--trials", 4)
    assert "3 of 4 trials are there already" in again
    memgrow.done("adapt", tmp_path / "model", *data.values(), "--recipe", tmp_path / "out" / "recipe.yaml")


@pytest.mark.extras
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--method", "F+Z"), "there is no method"),
        (("--method", "multi-task"), "multi-task learns no domain after another"),
        (
            ("--vectors", "none", "--method", "F", "--search", "keep"),
            "F is not searched over 'keep'; it can be over training.rate",
        ),
        (("--on", "mars"), "--on 'mars' is no place for runs"),
    ],
)
def test_mistakes_are_told_before_anything_is_made(optuna, memgrow, tune, tmp_path, words, says):
    assert says in memgrow.refused(*tune, *words)
    assert not (tmp_path / "out").exists()


def test_without_optuna_a_sentence_says_how_to_get_it(memgrow, tune, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert "pip install 'memgrow[tune]'" in memgrow.refused(*tune)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("named", "found"), [((), "F+V+E"), (("--method", "F+V"), "F+V")])
def test_replies_are_searched_with_the_method_that_adapt_takes_for_them(
    memgrow, jsonl, tmp_path, monkeypatch, named, found
):
    rows = [{"message": f"where is it {number} ?", "response": f"over there {number % 3}"} for number in range(40)]
    files = [jsonl(tmp_path / f"{name}.jsonl", rows) for name in ("kitchen", "harbour")]

    def begin(grid, method, settings, space, **options):
        raise SettingsError(f"{method} it is")

    monkeypatch.setattr(search, "find_optuna", lambda: None)
    monkeypatch.setattr(search, "Search", begin)
    assert f"memgrow: {found} it is\n" in memgrow("tune", *files, *named, *QUICK, "--out", tmp_path / "out").stderr
