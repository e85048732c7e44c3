"""A model's folder with right checksums that lies about its sizes is refused in a moment, with a sentence."""

import hashlib
import json
import os
import time
from contextlib import contextmanager

import pytest

from memgrow import Learner
from memgrow.errors import ModelError
from memgrow.tensor_files import check_size


@pytest.fixture(scope="module")
def saved(tmp_path_factory, stream, tiny, short):
    folder = tmp_path_factory.mktemp("saved") / "model"
    learner = Learner.create("F+M+V", model=tiny, training=short)
    learner.adapt(stream[stream.names[0]])
    learner.save(folder)
    return folder


@pytest.fixture
def lie(saved, tmp_path):
    """Copies the model with a changed file and the right checksum for it."""

    def make(change, name="config.json"):
        folder = tmp_path / "model"
        folder.mkdir()
        for file in saved.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        value = json.loads((folder / name).read_text())
        change(value)
        text = json.dumps(value)
        (folder / name).write_text(text)
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["sha256"][name] = hashlib.sha256(text.encode()).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return folder

    return make


@contextmanager
def refused(part: str, seconds: float = 5.0):
    began = time.monotonic()
    with pytest.raises(ModelError, match=part) as caught:
        yield
    assert time.monotonic() - began < seconds
    assert len(str(caught.value)) < 400


def segments(count):
    return [{"domain": str(number), "count": 1, "quiet": False} for number in range(count)]


LIES = {
    "layers": (lambda config: config["model"].update(layers=100_000), "100,000 layers for"),
    "segments": (lambda config: config["shape"]["columns"][0].update(slots=segments(20_000)), "20,000 growths"),
    "columns": (lambda config: config["shape"].update(columns=config["shape"]["columns"] * 1_000), "1,000 columns"),
    "words": (
        lambda config: config["shape"].update(words=2_000_000_000),
        "embedding.weight is .* and should be 2000000",
    ),
    "hidden": (lambda config: config["shape"]["columns"][0].update(hidden=1_000_000), "and should be"),
    "perceptron": (lambda config: config["model"].update(perceptron=100_000_000), "and should be"),
    "labels": (lambda config: config.update(labels=["a"] * 50_000), "and should be"),
    "slots": (lambda config: config["shape"]["columns"][0].update(slots=[]), "and should be"),
    "direction": (lambda config: config["model"].update(bidirectional=False), "is one too many|and should be"),
    "labels of another kind": (lambda config: config.update(labels=5), "not a model that this memgrow understands"),
    "no shape": (lambda config: config.update(shape=[]), "not a model that this memgrow understands"),
    "long name": (lambda config: config["model"].update({"x" * 9_000: 1}), "not a model that this memgrow understands"),
    "a number as a label": (lambda config: config.update(labels=["a", 5]), "labels.1 is not of the kind"),
    "half a word": (lambda config: config["training"].update(max_words=1.5), "training.max_words is not of the kind"),
    "cell": (lambda config: config["model"].update(cell="gru"), "and should be"),
}


@pytest.mark.parametrize("name", LIES)
def test_sizes_are_held_against_the_weights_before_anything_is_built(lie, name):
    change, says = LIES[name]
    folder = lie(change)
    with refused(says):
        Learner.load(folder)


HISTORIES = {
    "method": lambda history: history["stages"][0].update(method=5),
    "learned": lambda history: history["stages"][0].update(learned=[5]),
    "validation": lambda history: history["stages"][0].update(validation="high"),
    "grew.slots": lambda history: history["stages"][0]["grew"].update(slots="many"),
    "seconds": lambda history: history["stages"][0].update(seconds=None),
    "scores": lambda history: history["matrix"][0].update(scores={"kitchen": "high"}),
    "matrix": lambda history: history.update(matrix=[]),
    "baseline": lambda history: history.update(baseline={"kitchen": []}),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_of_other_kinds_is_refused(lie, name):
    folder = lie(HISTORIES[name], "history.json")
    with refused(f"history.json.*{name}.* is not of the kind"):
        Learner.load(folder)


def test_a_huge_file_is_refused_by_its_size_and_not_read(saved, lie):
    folder = lie(lambda config: None)
    for name in ("model.safetensors", "vocabulary.json"):
        content = (folder / name).read_bytes()
        os.truncate(folder / name, 1 << 40)  # sparse: it takes no room
        with refused("bytes, and its header tells of|MB, which is no file of a model"):
            Learner.load(folder)
        (folder / name).write_bytes(content)
    assert Learner.load(folder).labels


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "manifest.json"])
def test_a_pipe_or_a_device_in_the_place_of_a_file_is_refused_at_once(lie, name):
    folder = lie(lambda config: None)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with refused(name):
        Learner.load(folder)
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    with refused(name):
        Learner.load(folder)


@pytest.mark.parametrize(
    "start", [b"", b"\x00" * 8, b"\xff" * 8, b"\x02\0\0\0\0\0\0\0[]", b"\x09\0\0\0\0\0\0\0" + b'{"a": {}}']
)
def test_what_is_no_header_is_told(tmp_path, start):
    (path := tmp_path / "model.safetensors").write_bytes(start)
    with path.open("rb") as file, refused("is not what was written"):
        check_size(file, path)
