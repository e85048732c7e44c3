"""Recipes say what they say and leave the rest as it is. What cannot be is in cli/test_bad_settings.py."""

import dataclasses

import pytest
import yaml

from memgrow.cli.recipe import SECTIONS, read_recipe
from memgrow.errors import SettingsError
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings


@pytest.fixture
def write(tmp_path):
    def write(text: str):
        path = tmp_path / "recipe.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_recipe_changes_only_what_it_names(write):
    recipe = read_recipe(write("method: EWC\nseed: 3\nmodel: {hidden: 7}\noptions:\n  strength: 5\n"))
    assert (recipe.method, recipe.seed) == ("EWC", 3)
    assert recipe.section("model", ModelSettings(slots=9)) == ModelSettings(slots=9, hidden=7)
    assert recipe.section("options", MethodSettings()) == MethodSettings(strength=5.0)
    assert recipe.section("training", TrainingSettings()) == TrainingSettings()


def test_a_recipe_may_leave_the_share_to_validation(write):
    recipe = read_recipe(write("options: {keep: auto}\n"))
    assert recipe.section("options", MethodSettings()) == MethodSettings(keep="auto")
    with pytest.raises(SettingsError, match=r"recipe.yaml: options.keep must be a number or auto, not 'AUTO'"):
        read_recipe(write("options: {keep: AUTO}\n"))


def test_no_recipe_and_no_words_change_nothing():
    recipe = read_recipe(None)
    assert (recipe.method, recipe.seed) == (None, None)
    assert recipe.section("model", ModelSettings()) == ModelSettings()


def test_words_go_before_the_file_and_later_words_before_earlier_ones(write):
    recipe = read_recipe(write("model: {hidden: 7, slots: 3}\n"), ["hidden=8", "model.hidden=9"])
    assert recipe.section("model", ModelSettings()) == ModelSettings(hidden=9, slots=3)


def test_a_section_with_nothing_below_it_can_be_added_to(write):
    recipe = read_recipe(write("model:\ntraining:\n"), ["hidden=8"])
    assert recipe.section("model", ModelSettings()).hidden == 8


@pytest.mark.parametrize(
    ("word", "section", "value"),
    [
        ("rate=3e-4", "training", 3e-4),  # a text to YAML, which wants 3.0e-4
        ("rate=1", "training", 1.0),
        ("clip=inf", "training", float("inf")),
        ("dropout=.5", "model", 0.5),
        ("slot_size=null", "model", None),
        ("slot_size=3", "model", 3),
        ("bidirectional=false", "model", False),
        ("cell=gru", "model", "gru"),
        ("fisher=sampled", "options", "sampled"),
        ("options.slots=3", "options", 3),
        ("keep=auto", "options", "auto"),
        ("keep=1", "options", 1.0),
    ],
)
def test_values_are_read_as_the_setting_asks_for_them(word, section, value):
    name = word.split("=")[0].split(".")[-1]
    found = read_recipe(None, [word]).sections[section][name]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_with_its_default_is_a_valid_recipe(section, write):
    defaults = SECTIONS[section]()
    recipe = read_recipe(write(yaml.safe_dump({section: dataclasses.asdict(defaults)})))
    assert recipe.section(section, defaults) == defaults


@pytest.mark.parametrize(
    "word", ["hidden=true", "hidden=3.0", "bidirectional=1", "cell=3", "rate=fast", "rate=[1]", "keep=half"]
)
def test_a_value_of_another_kind_is_refused_by_name(word):
    with pytest.raises(SettingsError, match=rf"^--set {word.split('=')[0]} must be (a|true)"):
        read_recipe(None, [word])


def test_a_folder_is_no_recipe(tmp_path):
    with pytest.raises(SettingsError, match=r"cannot read the recipe .* \(Is a directory\)"):
        read_recipe(tmp_path)
