"""Versions of a model: saved, listed, loaded by their stage, taken back."""

import json
import os
from pathlib import Path

import pytest

from memgrow import Learner, undo
from memgrow.errors import ModelError, SettingsError
from memgrow.storage.checkpoint import find_faults
from memgrow.storage.folder import MANIFEST, ModelFolder
from memgrow.storage.versions import list_versions, note_keep_versions
from tests.storage.conftest import SHORT, SMALL, answers, flip, load, tree
from tests.support.breaking import Plug, PulledPlug
from tests.support.stored import stored


def numbers(folder: Path) -> list[int | None]:
    return [one.number for one in list_versions(folder)]


def test_save_and_load_is_the_identity(stages, tmp_path) -> None:
    learner = stages[2]
    learner.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert answers(again) == answers(learner)
    assert (again.history, again.vocabulary.words, again.labels) == (
        learner.history,
        learner.vocabulary.words,
        learner.labels,
    )
    assert again.config == learner.config
    again.save(tmp_path / "again")
    assert (
        ModelFolder.read(tmp_path / "again").versions[0].digest == ModelFolder.read(tmp_path / "m").versions[0].digest
    )


def test_each_version_can_be_loaded(stages, saved) -> None:
    assert numbers(saved) == [3, 2, 1]
    for stage in (1, 2, 3):
        assert answers(load(saved, version=stage)) == answers(stages[stage])
    with pytest.raises(ModelError, match="keeps no version after stage 4: it keeps 1, 2, 3"):
        load(saved, version=4)


@pytest.mark.parametrize(("keep", "kept"), [(None, [3, 2, 1]), (0, [3]), (1, [3, 2])])
def test_so_many_earlier_versions_stay(stages, tmp_path, keep, kept) -> None:
    for learner in stages[1:]:
        learner.save(tmp_path / "m", keep_versions=keep)
    assert numbers(tmp_path / "m") == kept
    assert len(list((tmp_path / "m" / "versions").iterdir())) == len(kept)
    assert not find_faults(tmp_path / "m")


def test_the_number_of_versions_to_keep_is_remembered(stages, tmp_path) -> None:
    stages[1].save(tmp_path / "m", keep_versions=2)
    stages[2].save(tmp_path / "m")
    stages[3].save(tmp_path / "m")
    assert numbers(tmp_path / "m") == [3, 2, 1]
    note_keep_versions(tmp_path / "m", 1)
    assert numbers(tmp_path / "m") == [3, 2]
    with pytest.raises(SettingsError, match="cannot be kept"):
        note_keep_versions(tmp_path / "m", 101)


def test_undo_goes_back_step_by_step_and_to_a_stage(stages, model) -> None:
    done = undo(model)
    assert [stage.learned for stage in done.taken_back] == [stages[3].history.stages[-1].learned]
    assert (len(done.history.stages), done.further, done.task) == (2, (1,), "pair")
    assert answers(load(model)) == answers(stages[2])
    stages[3].save(model)
    assert undo(model, to=1).further == ()
    assert answers(load(model)) == answers(stages[1])
    with pytest.raises(ModelError, match="no earlier version"):
        undo(model)
    with pytest.raises(ModelError, match="no model at"):
        undo(model.parent / "other")


def test_undo_needs_a_whole_earlier_version_but_not_a_whole_model(stages, model) -> None:
    flip(stored(model) / "model.safetensors")
    flip(stored(model) / "history.json")
    assert undo(model).taken_back == ()
    assert answers(load(model)) == answers(stages[2])
    flip(ModelFolder.read(model).versions[1].path / "vocabulary.json")
    before = tree(model)
    with pytest.raises(ModelError, match=r"vocabulary.json is damaged"):
        undo(model)
    assert tree(model) == before


def test_an_unfinished_training_is_not_taken_back(stages, domains, tmp_path) -> None:
    stages[1].save(tmp_path / "m")
    stages[2].save(tmp_path / "m")
    learner = load(tmp_path / "m")
    with pytest.raises(PulledPlug):
        learner.adapt(domains[2], folder=tmp_path / "m", progress=Plug(1), save_every=0.0)
    with pytest.raises(ModelError, match=r"unfinished adaptation.*training"):
        undo(tmp_path / "m")
    learner.adapt(domains[2], folder=tmp_path / "m")
    assert not (tmp_path / "m" / "training").exists()
    undo(tmp_path / "m")


def test_a_model_with_another_history_is_only_overwritten_on_request(stages, domains, tmp_path) -> None:
    other = Learner.create("F+V", model=SMALL, training=SHORT, device="cpu")
    other.adapt(domains[1])
    stages[2].save(tmp_path / "m")
    for learner in (other, stages[1]):
        with pytest.raises(ModelError, match="no later version"):
            learner.save(tmp_path / "m")
    other.save(tmp_path / "m", overwrite=True)
    assert numbers(tmp_path / "m") == [1]
    assert answers(load(tmp_path / "m")) == answers(other)


def test_the_users_own_files_stay_and_other_folders_are_refused(stages, model, tmp_path) -> None:
    (model / "README.md").write_text("mine")
    stages[3].save(model)
    assert (model / "README.md").read_text() == "mine"
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    with pytest.raises(ModelError, match=r"not a memgrow model and holds other files \(thesis.tex\)"):
        stages[3].save(other)
    assert tree(other).keys() <= {"thesis.tex", ".lock"}
    with pytest.raises(ModelError, match="cannot write to"):
        stages[3].save(other / "thesis.tex")


def test_a_link_to_a_model_and_a_read_only_model_can_be_read(stages, model, tmp_path) -> None:
    (tmp_path / "link").symlink_to(model)
    stages[3].save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    for path in (*model.rglob("*"), model):
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        assert answers(load(model)) == answers(stages[3])
        assert not find_faults(model)
        if os.geteuid():
            with pytest.raises(ModelError, match="read-only"):
                stages[3].save(model)
    finally:
        for path in (model, *model.rglob("*")):
            path.chmod(0o700)


def test_the_manifest_is_what_the_documentation_says(saved) -> None:
    found = json.loads((saved / MANIFEST).read_text())
    assert found == {"format": 3, "version": "0003", "earlier": ["0002", "0001"], "keep": 5, "last": 3}
