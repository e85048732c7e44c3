"""A model folder that cannot be used: one sentence, exit code 2, and the folder as it was."""

import json
import shutil
from pathlib import Path

import pytest
from memgrow.checkpoint import FORMAT


def newer(model: Path) -> None:
    manifest = json.loads((model / "manifest.json").read_text())
    (model / "manifest.json").write_text(json.dumps(manifest | {"format": FORMAT + 1}))


def changed_byte(model: Path) -> None:
    content = bytearray((model / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (model / "model.safetensors").write_bytes(content)


def half_copied(model: Path) -> None:
    (model / "vocabulary.json").unlink()


def without_manifest(model: Path) -> None:
    (model / "manifest.json").unlink()


def a_file(model: Path) -> None:
    shutil.rmtree(model)
    model.write_text("dear diary")


def other_things(model: Path) -> None:
    shutil.rmtree(model)
    model.mkdir()
    (model / "photo.png").write_bytes(b"dear")


BROKEN = {
    newer: (f"was written by a newer memgrow (format {FORMAT + 1}", "update memgrow"),
    changed_byte: ("model.safetensors is not what was written", "copy it again"),
    half_copied: ("vocabulary.json is missing", "copy it again"),
    without_manifest: ("has no manifest.json", "copy it again"),
    a_file: ("model", ""),
    other_things: ("is not a memgrow model", ""),
}
COMMANDS = {
    "adapt": lambda model, data: ("adapt", model, data["clinic"]),
    "evaluate": lambda model, data: ("evaluate", model, data["clinic"]),
    "predict": lambda model, data: ("predict", model, "a", "b"),
    "inspect": lambda model, data: ("inspect", model),
}


@pytest.fixture(params=BROKEN, ids=lambda broken: broken.__name__)
def broken(request, model):
    request.param(model)
    return request.param


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_is_wrong_and_changes_nothing(memgrow, data, broken, untouched, command):
    sentence = memgrow.refused(*COMMANDS[command](untouched, data))
    for part in (str(untouched), *BROKEN[broken]):
        assert part in sentence


@pytest.mark.parametrize("break_it", [a_file, other_things])
def test_adapting_in_place_of_something_else_asks_for_another_name(memgrow, data, model, break_it):
    break_it(model)
    assert "choose another name" in memgrow.refused("adapt", model, data["clinic"])


@pytest.mark.parametrize("command", ["evaluate", "predict", "inspect"])
def test_a_model_that_is_not_there_is_not_created(memgrow, data, never_made, command):
    sentence = memgrow.refused(*COMMANDS[command](never_made, data))
    assert sentence.startswith(f"there is no model at {never_made}")


def test_a_place_below_a_file_is_refused_before_the_work_begins(memgrow, data, tmp_path, monkeypatch):
    monkeypatch.setattr("memgrow.data.load_stream", lambda *_, **__: pytest.fail("the data was read"))
    (tmp_path / "file").write_text("dear")
    sentence = memgrow.refused("adapt", tmp_path / "file" / "model", data["kitchen"], *memgrow.tiny)
    assert f"as {tmp_path / 'file'} is a file: choose another place" in sentence


def test_an_unfinished_adaptation_to_other_data_is_not_mixed_up_with_this_one(memgrow, data, model, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("memgrow.learner.write_checkpoint", stop)
        assert memgrow("adapt", model, data["clinic"]).exit_code == 130
    (other := model.parent / "attic.jsonl").write_text(data["clinic"].read_text().replace("wound", "trunk"))
    assert "holds an unfinished adaptation with another data" in memgrow.refused("adapt", model, other)
    memgrow.done("adapt", model, data["clinic"])
    memgrow.done("adapt", model, other)
