"""Damaged and foreign folders are refused with one line, by `load` and by `inspect --verify`."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save

from memgrow.errors import ModelError
from memgrow.storage.checkpoint import find_faults
from memgrow.storage.folder import CHECKSUMS, MANIFEST
from tests.storage.conftest import load
from tests.support.stored import change, read_stored, stored


def write(name: str, content: bytes) -> Callable[[Path], object]:
    """A file with another content, and the checksum of before."""
    return lambda model: (stored(model) / name).write_bytes(content)


def fit(name: str, value: Any) -> Callable[[Path], object]:
    """A file with another content and the right checksum, as somebody who means harm would make it."""
    return lambda model: change(model, name, value)


def manifest(**values: Any) -> Callable[[Path], object]:
    def make(model: Path) -> None:
        path = model / MANIFEST
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return make


def tensors(**replaced: Any) -> Callable[[Path], object]:
    """Other weights; None: one is missing."""

    def make(model: Path) -> None:
        found = load_file(stored(model) / "model.safetensors")
        first = sorted(found)[0]
        found[first] = replaced["to"](found[first])
        change(model, "model.safetensors", save({n: t for n, t in found.items() if t is not None}))

    return make


def grow(name: str) -> Callable[[Path], object]:
    """A file of two gigabytes, on a disk that has room for nothing."""
    return lambda model: os.truncate(stored(model) / name, 1 << 31)


def pipe(model: Path) -> None:
    (stored(model) / "history.json").unlink()
    os.mkfifo(stored(model) / "history.json")


def sums(**values: Any) -> Callable[[Path], object]:
    def make(model: Path) -> None:
        path = stored(model) / CHECKSUMS
        path.write_text(json.dumps({"sha256": json.loads(path.read_text())["sha256"] | values}))

    return make


def older(**values: Any) -> Callable[[Path], object]:
    return lambda model: (model / MANIFEST).write_text(json.dumps({"format": 2, "sha256": {}} | values))


BAD = {
    "no manifest": (lambda model: (model / MANIFEST).unlink(), MANIFEST),
    "a manifest that is not JSON": (lambda model: (model / MANIFEST).write_bytes(b"{"), MANIFEST),
    "a manifest that is deep": (lambda model: (model / MANIFEST).write_bytes(b"[" * 100_000), MANIFEST),
    "a manifest that is large": (lambda model: os.truncate(model / MANIFEST, 1 << 31), "MB"),
    "a manifest that is a list": (lambda model: (model / MANIFEST).write_bytes(b"[]"), MANIFEST),
    "a newer format": (manifest(format=4), "update memgrow"),
    "no format": (manifest(format="3"), MANIFEST),
    "a version elsewhere": (manifest(version="../../other"), MANIFEST),
    "a version that is a number": (manifest(version=3), MANIFEST),
    "a version that is not there": (manifest(version="0009", last=9), "0009"),
    "an older format that leads elsewhere": (older(folder="../other"), MANIFEST),
    "an older format with a path": (older(sha256={"../x": "0" * 64}), MANIFEST),
    "checksums with a path": (sums(**{"../../x.json": "0" * 64}), CHECKSUMS),
    "checksums that are none": (sums(x="no"), CHECKSUMS),
    "a file that is missing": (lambda model: (stored(model) / "vocabulary.json").unlink(), "vocabulary.json"),
    "a file that is none of the checksums'": (fit("history.json", None), "history.json"),
    "a changed file": (write("vocabulary.json", b"{}"), "checksum"),
    "changed weights": (write("model.safetensors", b"\0" * 100), "model.safetensors"),
    "weights that are none": (fit("model.safetensors", b"\0" * 100), "model.safetensors"),
    "weights of two gigabytes": (grow("model.safetensors"), "model.safetensors"),
    "a history of two gigabytes": (grow("history.json"), "MB"),
    "a pipe": (pipe, "history.json"),
    "a weight of another shape": (tensors(to=lambda tensor: tensor[..., :-1].contiguous()), "should be"),
    "a weight of another type": (tensors(to=lambda tensor: tensor.double()), "float64"),
    "a weight that is infinite": (tensors(to=lambda tensor: tensor / 0), "finite"),
    "a weight that is missing": (tensors(to=lambda tensor: None), "missing"),
    "no JSON": (fit("config.json", b"\xff\xfe"), "config.json"),
    "a list for an object": (fit("config.json", b"[]"), "understands"),
    "a method that there is not": (fit("config.json", {"method": "sorcery"}), "sorcery"),
    "a task that there is not": (fit("config.json", {"task": "sorcery"}), "understands"),
    "labels that are numbers": (fit("config.json", {"labels": [1, 2]}), "understands"),
    "a label twice": (fit("config.json", {"labels": ["a", "a", "b"]}), "understands"),
    "a seed that is a word": (fit("config.json", {"seed": "x"}), "understands"),
    "more words than weights": (fit("vocabulary.json", b'["<pad>", "<unk>"]'), "words"),
    "a history without its matrix": (fit("history.json", {"matrix": {}}), "understands"),
    "a history of another kind": (fit("history.json", {"stages": "none"}), "understands"),
    "a summary of another kind": (fit("calibration.json", {"domains": 3}), "understands"),
    "a summary that is lost": (fit("calibration.json", None), "calibration.json"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_damaged_model_is_refused_with_one_line(model, case) -> None:
    make, mentions = BAD[case]
    make(model)
    with pytest.raises(ModelError) as refused:
        load(model)
    assert mentions in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert find_faults(model)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_a_byte_or_value_is_found(model, data) -> None:
    """A flipped byte is found by its checksum; a value of another type, with its checksum, is refused or harmless."""
    name = data.draw(st.sampled_from(["config.json", "history.json", "vocabulary.json", "model.safetensors"]))
    path = stored(model) / name
    before, sums_before = path.read_bytes(), (path.parent / CHECKSUMS).read_bytes()
    place = data.draw(st.integers(0, len(before) - 1))
    path.write_bytes(before[:place] + bytes([before[place] ^ data.draw(st.integers(1, 255))]) + before[place + 1 :])
    with pytest.raises(ModelError):
        load(model)
    path.write_bytes(before)
    if name == "config.json":
        value = read_stored(model, name)
        key = data.draw(st.sampled_from(sorted(value)))
        change(model, name, {key: data.draw(st.sampled_from([None, [], {}, "x", -1, 2**70, [[]], True]))})
        with suppress(ModelError):  # and nothing else
            load(model)
        path.unlink()
        path.write_bytes(before)
        (path.parent / CHECKSUMS).write_bytes(sums_before)


def test_all_faults_of_all_versions_are_listed(model) -> None:
    (stored(model) / "vocabulary.json").write_bytes(b"")
    (stored(model) / "config.json").unlink()
    (model / "versions" / "0001" / "history.json").write_bytes(b"{}")
    found = find_faults(model)
    assert len(found) == 3
    assert "earlier version" in found[-1]
