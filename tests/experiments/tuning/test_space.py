"""The ranges of a search: each method has those of what it reads, and every value in them is one that can be set."""

from dataclasses import replace

import pytest
import yaml
from memgrow.experiments.tuning.space import OPTIONS, recipe_of, space_of, with_values

from memgrow.cli.recipe import read_recipe
from memgrow.errors import SettingsError
from memgrow.experiments.comparison import Settings
from memgrow.methods import LETTERS, METHODS, MethodSettings, find_method
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.training.defaults import defaults_for
from memgrow.training.settings import TrainingSettings

SMALL = Settings(ModelSettings(embedding=8, hidden=8, slots=4), TrainingSettings(rate=0.01, min_documents=2))
PRETRAINED = Settings(PretrainedSettings(encoder="minilm", slots=8, weights="ab" * 32), defaults_for("minilm").training)
NAMES = [name for name, method in METHODS.items() if not method.afresh] + ["F+M+A+Q", "F+V+D+L", "F+V+E"]


@pytest.mark.parametrize("settings", [SMALL, PRETRAINED], ids=["recurrent", "pretrained"])
@pytest.mark.parametrize("name", NAMES)
def test_both_ends_of_every_range_can_be_set_and_a_recipe_gives_them_back(name, settings, tmp_path):
    method = find_method(name)
    space = space_of(method, settings)
    assert {one.partition(".")[2] for one in space if one.startswith("options.")} <= method.reads(settings.options)
    assert any(one.startswith("training.") for one in space) != method.closed_form
    usual = defaults_for("minilm" if settings is PRETRAINED else None)
    for end in ("low", "high"):
        values = {one: (int if span.whole else float)(getattr(span, end)) for one, span in space.items()}
        tuned = with_values(settings, values)
        assert all(getattr(getattr(tuned, one.split(".")[0]), one.split(".")[1]) == values[one] for one in values)
        path = tmp_path / f"{end}.yaml"
        recipe = recipe_of(settings, Settings(usual.model, usual.training, usual.options), values, name)
        path.write_text(yaml.safe_dump(recipe))
        read = read_recipe(path)
        given = [read.section(one, getattr(read.defaults("cpu"), one)) for one in ("model", "training", "options")]
        assert read.method == name
        expected = tuned.model if settings is SMALL else replace(tuned.model, weights=None)  # found, not set
        assert given == [expected, tuned.training, tuned.options]


def test_every_setting_of_a_method_that_is_a_number_has_a_range_or_a_reason():
    read = {setting for name in METHODS for setting in find_method(name).reads(MethodSettings())}
    read |= {setting for letter in "ADLE" for setting in find_method(f"F+{letter}").reads(MethodSettings())}
    assert set(LETTERS) == set("MVADQLE"), "a new letter: look at its settings here"
    # How a Fisher is estimated, or how many rows are kept, is a matter of cost; a search would always take the dearest.
    assert read - {name.partition(".")[2] for name in OPTIONS} == {"fisher", "fisher_examples", "rehearse"}


def test_settings_can_be_chosen_by_name():
    method = find_method("F+V+A")
    assert list(space_of(method, SMALL, ["keep", "training.rate"])) == ["options.keep", "training.rate"]
    with pytest.raises(SettingsError, match=r"F\+V\+A is not searched over 'strength'; it can be over training.rate"):
        space_of(method, SMALL, ["strength"])
