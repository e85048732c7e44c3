"""The recipes that come with memgrow."""

from importlib.resources import files

import pytest

from memgrow.cli.recipe import SHIPPED, read_recipe
from memgrow.errors import SettingsError
from memgrow.evaluation import demo
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings

DEFAULTS = {"model": ModelSettings(), "training": TrainingSettings(), "options": MethodSettings()}


def settings(name):
    recipe = read_recipe(name)
    return {section: recipe.section(section, usual) for section, usual in DEFAULTS.items()}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_recipe_is_valid_and_comes_with_the_package(name):
    assert settings(name) != DEFAULTS
    assert (files("memgrow") / "recipes" / f"{name}.yaml").read_bytes() == SHIPPED[name].read_bytes()


def test_a_recipe_is_found_by_name_and_a_file_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_recipe("small") == read_recipe("small.yaml") == read_recipe(SHIPPED["small"])
    (tmp_path / "small").write_text("seed: 7\n")
    assert read_recipe("small").seed == 7


def test_a_misspelt_name_is_refused_with_the_one_that_was_meant():
    with pytest.raises(SettingsError, match=r"did you mean small\?"):
        read_recipe("smal")


def test_the_demos_recipe_is_what_the_demo_does():
    assert settings("demo") == {"model": demo.MODEL, "training": demo.TRAINING, "options": MethodSettings()}
