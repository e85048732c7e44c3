"""`memgrow verify`: a whole folder is whole, and all that is wrong with another is said."""

import json
import re

import pytest
from memgrow.manifest import MANIFEST, Manifest


def verify(memgrow, model) -> tuple[int, str]:
    result = memgrow("verify", model)
    assert result.stderr == ""
    return result.exit_code, " ".join(result.stdout.split())


def damage(path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_whole_model_is_whole_and_its_owners_files_are_no_fault(memgrow, untouched):
    (untouched / "NOTES.txt").write_text("mine")
    code, out = verify(memgrow, untouched)
    assert code == 0
    assert f"is whole: {len(Manifest.of(untouched).sha256)} files" in out
    assert "not of the model, and left alone: NOTES.txt" in out
    (untouched / "NOTES.txt").unlink()


def test_all_that_is_wrong_is_said_at_once(memgrow, model):
    damage(model / "vocabulary.json")
    (model / "config.json").unlink()
    code, out = verify(memgrow, model)
    assert code == 1
    assert "vocabulary.json is not what was written (its checksum differs)" in out
    assert "config.json is missing" in out
    assert "history.json" not in out


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [(None, "has no manifest.json"), ("{", "is damaged"), ({"format": 99, "sha256": {}}, "newer memgrow (format 99")],
)
def test_a_manifest_that_is_no_use_is_said(memgrow, model, manifest, sentence):
    (model / MANIFEST).unlink()
    if manifest is not None:
        (model / MANIFEST).write_text(manifest if isinstance(manifest, str) else json.dumps(manifest))
    code, out = verify(memgrow, model)
    assert code == 1
    assert sentence in out


def test_files_that_are_whole_but_make_no_model_are_said(memgrow, model):
    told = json.loads((model / MANIFEST).read_text())
    del told["sha256"]["model.safetensors"]
    (model / MANIFEST).write_text(json.dumps(told))
    code, _ = verify(memgrow, model)
    assert code == 1


def test_undo_is_advised_while_one_earlier_version_is_whole(memgrow, model, data):
    memgrow.done("adapt", model, data["clinic"], "--keep-versions", 2)
    earlier = Manifest.of(model).earlier
    assert sorted(earlier) == [1, 2]
    for name in ("vocabulary.json", "config.json"):  # two faults in one version
        damage(model / name)
        damage(model / earlier[1].folder / name)
    code, out = verify(memgrow, model)
    assert code == 1
    assert out.count("its version after stage 1: ") == 2
    assert "`memgrow undo` goes back to an earlier version, if that is whole." in out
    damage(model / earlier[2].folder / "config.json")
    assert "`memgrow undo`" not in verify(memgrow, model)[1]


def test_a_name_that_is_not_there_is_a_mistake(memgrow, never_made):
    assert re.match("there is no model at .*: check the name", memgrow.refused("verify", never_made))
