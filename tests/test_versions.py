"""A folder keeps earlier versions of its model: undo goes back to them, at one stroke and wherever it is killed."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from memgrow import folder_writer, folders, locking, undo
from memgrow.checkpoint import find_faults
from memgrow.errors import ModelError, SettingsError
from memgrow.folder_reader import find_damage, look_at_versions
from memgrow.folder_writer import write_folder
from memgrow.learner import Learner
from memgrow.manifest import MANIFEST, Manifest, stored_at
from memgrow.models import ModelSettings
from memgrow.storage import StoredFile
from memgrow.training import resume
from memgrow.training.settings import TrainingSettings
from memgrow.versions import list_versions
from tests.support.breaking import Plug, PulledPlug
from tests.test_folders import FORK, killed_at, names

SMALL = ModelSettings(embedding=4, hidden=3, slots=2, perceptron=4)
SHORT = TrainingSettings(rate=0.01, batch=16, epochs=1)


def create() -> Learner:
    return Learner.create("F+V", model=SMALL, training=SHORT, device="cpu")


def load(folder: Path, version: int | None = None) -> Learner:
    return Learner.load(folder, device="cpu", version=version)


def numbers(folder: Path) -> list[int | None]:
    return [one.number for one in list_versions(folder)]


def files(folder: Path) -> dict[str, bytes]:
    """All files of a model, without those of its earlier versions."""
    return {name: stored_at(folder, name).read_bytes() for name in Manifest.of(folder).sha256}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.fixture(scope="module")
def made(stream, tmp_path_factory) -> tuple[Path, list[dict[str, bytes]]]:
    """A model of three stages with all its versions, and the files that it had after each."""
    folder, learner, seen = tmp_path_factory.mktemp("made") / "m", create(), []
    for domain in stream:
        learner.adapt(domain, watch=stream, folder=folder, keep_versions=5)
        seen.append(files(folder))
    return folder, seen


@pytest.fixture
def model(made, tmp_path) -> Path:
    return Path(shutil.copytree(made[0], tmp_path / "place" / "m"))  # as cp -r does


@pytest.fixture
def seen(made) -> list[dict[str, bytes]]:
    return made[1]


@pytest.fixture(params=["beside", "within"])
def way(request, monkeypatch) -> str:
    """How a new version takes its place: all of the folder is exchanged, or it cannot be, as a mount point."""
    for module in (folders, folder_writer, locking, resume):
        monkeypatch.setattr(module, "replaceable", lambda path: request.param != "within" or path.name != "m")
    if request.param == "two renames":
        monkeypatch.setattr(folders, "exchange", lambda a, b: False)
    return str(request.param)


# Going back


def test_undo_goes_back_version_by_version_to_the_same_bytes(model, seen, way):
    assert numbers(model) == [3, 2, 1]
    for stages in (2, 1):
        done = undo(model)
        assert [stage.learned for stage in done.taken_back] == [("clinic",) if stages == 2 else ("harbour",)]
        assert len(done.history.stages) == stages
        assert done.further == tuple(range(stages - 1, 0, -1))
        assert files(model) == seen[stages - 1]
        assert numbers(model) == list(range(stages, 0, -1))
        assert find_faults(model) == []
    with pytest.raises(ModelError, match="keeps no earlier version, so there is nothing to undo"):
        undo(model)
    assert names(model.parent) == ["m"]


def test_undo_goes_back_to_any_stage_that_is_kept_and_to_no_other(model, seen):
    for wrong in (0, 4):
        with pytest.raises(ModelError, match=rf"cannot go back to stage {wrong}: there is stage 1 and 2"):
            undo(model, to=wrong)
    with pytest.raises(ModelError, match="as it was after stage 3 already"):
        undo(model, to=3)
    assert [stage.learned for stage in undo(model, to=1).taken_back] == [("harbour",), ("clinic",)]
    assert files(model) == seen[0]
    with pytest.raises(ModelError, match="there is no model at"):
        undo(model.parent / "nothing")
    assert names(model.parent) == ["m"]


def test_what_was_taken_back_is_gone_from_the_disk_and_can_be_learnt_anew(model, stream, seen, way):
    undone = seen[2]["model.safetensors"]
    assert undone in tree(model.parent).values()
    undo(model)
    assert undone not in tree(model.parent).values()
    assert not any("clinic" in name or b"clinic" in content for name, content in clean(tree(model.parent)).items())
    load(model).adapt(stream["clinic"], folder=model)
    assert stored_at(model, "model.safetensors").read_bytes() == undone


def clean(found: dict[str, bytes]) -> dict[str, bytes]:
    """Without the scores: clinic was watched before it was learnt."""
    return {name: content for name, content in found.items() if not name.endswith("history.json")}


def test_an_earlier_version_can_be_loaded_and_saved_elsewhere(model, stream, seen, tmp_path, way):
    texts = list(stream[0].test)
    for version in (1, 2, 3):
        load(model, version).save(tmp_path / str(version))
        assert files(tmp_path / str(version))["model.safetensors"] == seen[version - 1]["model.safetensors"]
    assert load(model).predict(texts) == load(model, 3).predict(texts)
    with pytest.raises(ModelError, match="keeps no version after stage 4; there is stage 1 and 2 and 3"):
        load(model, 4)
    with pytest.raises(ModelError, match="no later version"):
        load(model, 1).adapt(stream[2], folder=model)


def test_undo_waits_for_no_unfinished_training_and_loses_none(model, stream):
    before = tree(model)
    learner = load(model)
    with pytest.raises(PulledPlug):
        learner.learn([stream[0]], again=True, folder=model, save_every=0.0, progress=Plug(1))
    with pytest.raises(ModelError, match=r"unfinished adaptation.*or remove .*m.adapting to give it up"):
        undo(model)
    assert tree(model) == before
    state = json.loads((model.parent / "m.adapting" / "state.json").read_text())
    (model.parent / "m.adapting" / "state.json").write_text(json.dumps({**state, "stage": 2}))  # it had ended
    undo(model)
    assert names(model.parent) == ["m"]


# How many are kept


def test_one_version_is_kept_unless_more_are_asked_for_and_that_is_remembered(stream, tmp_path):
    learner = create()
    for domain in stream:
        learner.adapt(domain, folder=tmp_path / "m")
    assert numbers(tmp_path / "m") == [3, 2]
    learner.save(tmp_path / "m", keep_versions=2)  # the same stages again: no version of its own
    assert numbers(tmp_path / "m") == [3, 2]
    learner.adapt(stream[0], folder=tmp_path / "m")
    assert numbers(tmp_path / "m") == [4, 3, 2]
    undo(tmp_path / "m")
    learner.save(tmp_path / "m")
    assert numbers(tmp_path / "m") == [4, 3, 2]
    learner.save(tmp_path / "m", keep_versions=0)
    assert numbers(tmp_path / "m") == [4]
    assert len(names(tmp_path / "m")) == 1 + len(files(tmp_path / "m"))
    with pytest.raises(SettingsError, match="-1 earlier versions cannot be kept"):
        learner.save(tmp_path / "m", keep_versions=-1)


def test_versions_of_another_model_go_with_it(model, stream):
    other = create()
    other.adapt(stream[2])
    other.save(model, overwrite=True)
    assert numbers(model) == [1]
    assert len(names(model)) == 1 + len(files(model))


def test_files_that_are_the_same_are_stored_once_or_copied_where_there_are_no_links(model, way, monkeypatch):
    large = {"history.json": stored_at(model, "history.json").read_bytes(), "config.json": b"{}", "large": b"x" * 10**6}
    for links in (True, False):
        path = model.parent / f"links {links}"
        if not links:
            monkeypatch.setattr(os, "link", lambda old, new: (_ for _ in ()).throw(OSError("no links here")))
        write_folder(path, large)
        stored_at(path, "large").chmod(0o600)
        for number in (1, 2):
            again = {name: StoredFile.open(stored_at(path, name)) for name in large}
            write_folder(path, again, earlier={number: Manifest.of(path), **Manifest.of(path).earlier})
        newest, *earlier = list_versions(path)
        assert [one.size for one in earlier] == [newest.size] * 2
        assert [one.own for one in earlier] == ([0, 0] if links else [newest.size] * 2)
        assert {file.stat().st_mode & 0o777 for file in path.rglob("large")} == {0o600}


# Killed


KILLS = [
    ("within", "undo"),
    ("within", "save"),
    # `make torture` kills saves in all ways.
    *(pytest.param(*kill, marks=pytest.mark.extras) for kill in (("beside", "undo"), ("beside", "save"))),
    pytest.param("two renames", "undo", marks=pytest.mark.extras),
]


@pytest.mark.parametrize(("way", "what"), KILLS, indirect=["way"])
def test_a_process_killed_at_any_file_operation_leaves_the_old_state_or_the_new(model, seen, way, what):
    """Versions and all: each that is named is whole."""
    (model / "NOTES.txt").write_text("mine")
    small = {name: content for name, content in seen[2].items() if name != "vocabulary.json"}

    def work() -> None:
        if what == "undo":
            undo(model)
            return
        with locking.hold(model):
            found = Manifest.of(model)
            if found.format != 7:  # the same once more, were it killed when all was done
                write_folder(model, small, 7, earlier={3: found, 2: found.earlier[2]}, keep=2)

    before, after = [None, 2, 1], ([None, 1] if what == "undo" else [None, 3, 2])
    status, number = -signal.SIGKILL, 0
    while status == -signal.SIGKILL:
        status = killed_at(number, work, reads=False)
        found = [one.number for one in look_at_versions(model, "history.json", 7)]
        assert found == before or (found == after and not find_damage(model, 7))
        assert all(not find_damage(model, 7, number=one) for one in found)
        if found == after and what == "undo":
            break
        number += 1
    assert status in (0, -signal.SIGKILL)
    assert number > 10, number
    with locking.hold(model):
        pass
    assert (model / "NOTES.txt").read_text() == "mine"
    assert names(model.parent) == ["m"]
    assert files(model) == (seen[1] if what == "undo" else small)


def test_readers_of_any_version_are_never_disturbed(model, way):
    """One reads while another saves and undoes, as fast as it can."""
    stop, done = FORK.Event(), FORK.Value("i", 0)

    def change() -> None:
        newest = load(model)
        while not stop.is_set():
            undo(model)
            newest.save(model)
            done.value += 1
        os._exit(0)

    writer = FORK.Process(target=change)
    writer.start()
    try:
        while done.value < 12:
            assert writer.is_alive()
            assert len(load(model, 1).history.stages) == 1
            assert len(load(model).history.stages) in (2, 3)
            assert numbers(model) in ([3, 2, 1], [2, 1])
    finally:
        stop.set()
        writer.join()
    assert writer.exitcode == 0


# Damaged


def test_a_damaged_version_is_found_and_not_gone_back_to(model, way):
    damage(model / Manifest.of(model).earlier[2].folder / "model.safetensors")
    before = tree(model)
    assert find_faults(model) == []
    (fault,) = find_faults(model, 2)
    assert "model.safetensors is not what was written" in fault
    with pytest.raises(ModelError, match="is not what was written"):
        undo(model)
    assert tree(model) == before
    assert len(undo(model, to=1).history.stages) == 1


def test_undo_rescues_a_model_whose_own_files_are_damaged(model, seen):
    for name in ("model.safetensors", "history.json"):
        damage(model / name)
    done = undo(model)
    assert (done.taken_back, len(done.history.stages)) == ((), 2)
    assert files(model) == seen[1]


def test_a_version_with_a_missing_file_does_not_keep_a_model_from_being_saved(model, stream):
    (model / Manifest.of(model).earlier[2].folder / "config.json").unlink()
    load(model).adapt(stream[0], folder=model)
    assert numbers(model) == [4, 3, 1]


def test_what_has_no_history_is_no_version(model, stream):
    learner = load(model)
    (model / "history.json").write_text("{")
    learner.adapt(stream[0], folder=model)  # by one who still has it in memory
    assert numbers(model) == [4, 2, 1]


def test_nor_does_one_that_nobody_may_look_into(model, stream, monkeypatch):
    """As after `chmod 600 m/*`, which closes the folders of versions to all but root."""
    closed, stat = model / Manifest.of(model).earlier[2].folder, Path.stat

    def refuse(path, **options):
        if path.parent == closed:
            raise PermissionError(13, "Permission denied")
        return stat(path, **options)

    learner = load(model)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", refuse)
        learner.adapt(stream[0], folder=model)
    assert numbers(model) == [4, 3, 1]


@pytest.mark.parametrize(
    "earlier",
    [
        {"1": {"format": 2, "sha256": {}, "folder": "."}},
        {"1": {"format": 2, "sha256": {}, "folder": ".."}},
        {"1": {"format": 2, "sha256": {"../x": ""}, "folder": "version-00000000"}},
        {"1": {"format": 2, "sha256": {}, "folder": "version-00000000/.."}},
        {str(n): {"format": 2, "sha256": {}, "folder": "version-00000000"} for n in (1, 2)},
        {"x": {"format": 2, "sha256": {}, "folder": "version-00000000"}},
        {"1": {}},
        [],
        7,
    ],
)
def test_a_version_is_never_sought_elsewhere(model, earlier):
    told = json.loads((model / MANIFEST).read_text())
    (model / MANIFEST).write_text(json.dumps({**told, "earlier": earlier}))
    with pytest.raises(ModelError, match=r"manifest.json is damaged"):
        undo(model)
    with pytest.raises(ModelError, match=r"manifest.json is damaged"):
        load(model)
