"""What a new model has where nobody says: sizes that suit the machine, the same by every door, and told in one line."""

from pathlib import Path

import pytest
import torch

from memgrow import Domain, Example, Learner, ModelSettings, TrainingSettings
from memgrow.cli.compare import _settings
from memgrow.cli.learning import open_or_create
from memgrow.cli.recipe import Recipe, read_recipe
from memgrow.evaluation.comparison import LABELS, REPLIES, Kind
from memgrow.training.defaults import RECURRENT, SMALL, SMALL_REPLIES, THE_PAPERS, THE_PAPERS_REPLIES, defaults_here

CPU, GPU = torch.device("cpu"), torch.device("cuda")
NOTHING = read_recipe(None)
TEXTS = {"good": "a fine lamp", "bad": "a dull lamp"}
ROWS = [Example(text, label=label) for label, text in TEXTS.items()] * 8


class Notes:
    """A progress that keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, step) -> None:
        return

    def note(self, sentence: str) -> None:
        self.said.append(sentence)


def by_each_door(recipe: Recipe, kind: Kind, folder: Path):
    """The settings of a new model by adapt and by compare."""
    learner = open_or_create(folder / "model", recipe, None, None, "cpu", replies=kind.is_dialogue)
    yield learner.settings, learner.training
    compared = _settings(recipe, None, "cpu", kind.is_dialogue, is_public=False)
    yield compared.model, compared.training


@pytest.mark.parametrize(
    ("kind", "name", "usual"), [(LABELS, "small", SMALL), (REPLIES, "small-dialogue", SMALL_REPLIES)]
)
def test_without_a_gpu_every_door_has_the_sizes_of_the_small_recipe(kind, name, usual, tmp_path):
    for model, training in by_each_door(NOTHING, kind, tmp_path):
        assert (model, training) == (usual.model, usual.training)
    recipe = read_recipe(name)
    assert usual.model == recipe.section("model", ModelSettings(lowercase=True))
    assert usual.training == recipe.section("training", RECURRENT)
    learner = Learner.create(task="reply" if kind.is_dialogue else None, device="cpu")
    assert (learner.settings, learner.training) == (usual.model, usual.training)


def test_with_a_gpu_they_are_the_papers():
    assert defaults_here(GPU) == THE_PAPERS
    assert defaults_here(GPU, replies=True) == THE_PAPERS_REPLIES
    assert THE_PAPERS.model == ModelSettings(lowercase=True)


def test_a_recipe_means_the_same_on_every_machine_and_by_every_door(tmp_path):
    (tmp_path / "mine.yaml").write_text("model: {hidden: 7}\n")
    for model, training in by_each_door(read_recipe(tmp_path / "mine.yaml"), LABELS, tmp_path):
        assert (model, training) == (ModelSettings(hidden=7, lowercase=True), RECURRENT)


def test_a_single_setting_leaves_the_others_as_they_suit_the_machine(tmp_path):
    for model, _ in by_each_door(read_recipe(None, ["hidden=7"]), LABELS, tmp_path):
        assert (model.hidden, model.slots) == (7, SMALL.model.slots)


def test_a_learner_says_once_which_sizes_it_took_and_nothing_if_they_were_named(tmp_path):
    short = TrainingSettings(epochs=1)
    notes = Notes()
    learner = Learner.create(training=short, device="cpu")
    for name in ("lamps", "chairs"):
        learner.adapt(Domain(name, ROWS, ROWS[:2], ROWS[:2]), progress=notes)
    (line,) = (said for said in notes.said if "Sizes" in said)
    told = "Sizes for a CPU, those of the recipe small, but for what is set: embedding 50, hidden 64, slots 64,"
    assert line.startswith(told)
    notes = Notes()
    named = Learner.create(training=short, model=ModelSettings(embedding=4, hidden=4, slots=2), device="cpu")
    named.adapt(Domain("lamps", ROWS, ROWS[:2], ROWS[:2]), progress=notes)
    assert not [said for said in notes.said if "Sizes" in said]


def test_words_are_as_long_as_the_vectors_where_nobody_says(tmp_path):
    (vectors := tmp_path / "vectors.txt").write_text("lamp 1 2 3\nfine 4 5 6\n")
    learner = Learner.create(training=TrainingSettings(epochs=1), device="cpu")
    learner.adapt(Domain("lamps", ROWS, ROWS[:2], ROWS[:2]), vectors=vectors)
    assert learner.settings.embedding == 3
    made = open_or_create(tmp_path / "model", NOTHING, None, None, "cpu", vectors)
    assert made.settings.embedding == 3
