"""The recipes that come with memgrow can be used as they are, and say what they claim to say."""

import json
import re
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from memgrow.cli.recipe import Recipe, read_recipe
from memgrow.cli.recipes import SHIPPED, find_recipe
from memgrow.errors import SettingsError
from memgrow.evaluation import demo
from memgrow.methods import MethodSettings, find_method
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings

ROOT = Path(__file__).parents[2]
DEFAULTS = (ModelSettings(), TrainingSettings(), MethodSettings())


def settings(recipe: Recipe) -> tuple[object, ...]:
    """The settings of a new model when the recipe says what it says."""
    sections = ("model", "training", "options")
    return tuple(recipe.section(name, default) for name, default in zip(sections, DEFAULTS, strict=True))


@pytest.mark.parametrize("name", SHIPPED)
def test_every_recipe_is_valid_and_begins_with_what_it_is_for(name):
    recipe = read_recipe(name)
    assert settings(recipe) != DEFAULTS or recipe.method is not None, "it says nothing"
    assert recipe.method is None or find_method(recipe.method).name == recipe.method
    assert SHIPPED[name].read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize("given", ["small", "small.yaml", "recipes/small.yaml", "../checkout/recipes/small.yaml"])
def test_a_recipe_is_found_by_its_name_from_anywhere_and_by_the_path_of_a_checkout(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small").mkdir()  # a folder of that name is in nobody's way
    assert read_recipe(given) == read_recipe(SHIPPED["small"])


def test_a_file_that_exists_is_the_recipe_whatever_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    for name in ("small", "small.yaml", "recipes/small.yaml"):
        (tmp_path / name).write_text("seed: 7\n")
        assert read_recipe(name).seed == 7


@pytest.mark.parametrize("given", ["smal", "recipes/smal.yaml", "mine/small.yaml", "small.yml", "Small"])
def test_a_name_that_is_misspelt_is_told_with_the_one_that_was_meant(given):
    assert find_recipe(given) == Path(given)
    with pytest.raises(SettingsError, match=f"{given}: did you mean small\\? .* {', '.join(SHIPPED)}"):
        read_recipe(given)
    with pytest.raises(SettingsError, match=r"nothing\.yaml: it is a file"):
        read_recipe("nothing.yaml")


def test_the_recipes_come_with_the_package():
    assert set(SHIPPED) >= {"small", "small-dialogue", "paper-nli", "paper-dialogue"}
    for name in SHIPPED:
        assert (files("memgrow") / "recipes" / f"{name}.yaml").read_bytes() == SHIPPED[name].read_bytes()
    with (ROOT / "pyproject.toml").open("rb") as file:
        packed = tomllib.load(file)["tool"]["setuptools"]["package-data"]["memgrow"]
    assert {"recipes/*.yaml", "report/methods.json"} <= set(packed)


def test_the_recipes_are_listed_with_a_line_each_and_printed_as_they_are(memgrow, tmp_path):
    lines = memgrow.done("recipes").splitlines()
    assert max(map(len, lines)) <= 80
    for name, file in SHIPPED.items():
        assert any(re.match(rf" *{name} +\S", line) for line in lines), name
        assert memgrow.done("recipes", name) == file.read_text(encoding="utf-8")
    assert json.loads(memgrow.done("recipes", "--json")).keys() == SHIPPED.keys()
    mine = tmp_path / "mine.yaml"
    mine.write_text(memgrow.done("recipes", "small"))
    assert read_recipe(mine) == read_recipe("small")
    assert "did you mean small?" in memgrow.refused("recipes", "smal")


def test_only_recipes_that_come_with_memgrow_are_printed(memgrow, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("tool", "small"):
        (tmp_path / name).write_bytes(b"\x7fELF\xff")
    for given in ("tool", tmp_path / "tool"):
        assert memgrow.refused("recipes", given) == f"there is no recipe {given}: it is one of {', '.join(SHIPPED)}"
    assert memgrow.done("recipes", "small") == SHIPPED["small"].read_text(encoding="utf-8")


def test_the_papers_recipe_has_the_papers_numbers():
    model, training, _ = settings(read_recipe("paper-nli"))
    assert (model.cell, model.bidirectional) == ("lstm", True)
    assert (model.embedding, model.hidden, model.slots) == (300, 300, 500)
    assert (training.rate, training.batch) == (0.0003, 32)


def test_the_demos_recipe_is_what_the_demo_does():
    assert settings(read_recipe("demo")) == (demo.MODEL, demo.TRAINING, MethodSettings())


def test_the_small_recipe_is_smaller_than_the_papers():
    small, _, _ = settings(read_recipe("small"))
    assert all(getattr(small, name) < getattr(DEFAULTS[0], name) for name in ("embedding", "hidden", "slots"))
