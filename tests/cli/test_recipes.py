"""The recipes that come with memgrow can be used as they are, and say what they claim to say."""

from pathlib import Path

import pytest

from memgrow.cli.recipe import Recipe, read_recipe
from memgrow.experiments import demo
from memgrow.experiments.paper.protocol import PROPOSED
from memgrow.methods import MethodSettings, find_method
from memgrow.models import ModelSettings
from memgrow.training.loop import TrainingSettings

FOLDER = Path(__file__).resolve().parents[2] / "recipes"
RECIPES = sorted(FOLDER.glob("*.yaml"))
DEFAULTS = (ModelSettings(), TrainingSettings(), MethodSettings())


def settings(recipe: Recipe) -> tuple[object, ...]:
    """What a new model is made with when the recipe says what it says."""
    sections = ("model", "training", "options")
    return tuple(recipe.section(name, default) for name, default in zip(sections, DEFAULTS, strict=True))


def test_there_are_recipes_and_nothing_else():
    assert RECIPES
    assert sorted(FOLDER.iterdir()) == RECIPES


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_valid_and_begins_with_what_it_is_for(path):
    recipe = read_recipe(path)
    assert settings(recipe)
    assert recipe.method is None or find_method(recipe.method).name == recipe.method
    assert path.read_text(encoding="utf-8").startswith("# ")


def test_the_papers_recipe_has_memgrows_own_settings_and_the_papers_method():
    recipe = read_recipe(FOLDER / "paper-nli.yaml")
    assert settings(recipe) == DEFAULTS
    assert recipe.method == PROPOSED


def test_the_papers_recipe_has_the_papers_numbers():
    model, training, _ = settings(read_recipe(FOLDER / "paper-nli.yaml"))
    assert (model.cell, model.bidirectional) == ("lstm", True)
    assert (model.embedding, model.hidden, model.slots) == (300, 300, 500)
    assert (training.rate, training.batch) == (0.0003, 32)


def test_the_demos_recipe_is_what_the_demo_does():
    assert settings(read_recipe(FOLDER / "demo.yaml")) == (demo.MODEL, demo.TRAINING, MethodSettings())


def test_the_small_recipe_is_smaller_than_the_papers():
    small, _, _ = settings(read_recipe(FOLDER / "small.yaml"))
    assert all(getattr(small, name) < getattr(DEFAULTS[0], name) for name in ("embedding", "hidden", "slots"))
