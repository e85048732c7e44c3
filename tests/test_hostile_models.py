"""A model's folder with right checksums that lies about its sizes is refused in a moment, with a sentence."""

import hashlib
import json
import os
import re
import shutil
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save

from memgrow import Learner
from memgrow.calibration import Calibration
from memgrow.checkpoint import find_faults
from memgrow.errors import ModelError, SettingsError
from memgrow.manifest import strangers
from memgrow.methods import find_method
from memgrow.models import TASKS, ModelSettings, build
from memgrow.models.fit import check_fits
from memgrow.storage import load_json
from memgrow.tensor_files import check_size
from memgrow.training.settings import TrainingSettings


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
    began = time.process_time()  # a busy machine is no fault of the model's
    with pytest.raises(ModelError, match=part) as caught:
        yield
    assert time.process_time() - began < seconds
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
    "labels": (lambda config: config.update(labels=[str(number) for number in range(50_000)]), "and should be"),
    "slots": (lambda config: config["shape"]["columns"][0].update(slots=[]), "and should be"),
    "direction": (lambda config: config["model"].update(bidirectional=False), "is one too many|and should be"),
    "labels by domain": (lambda config: config.update(labels_by_domain={"a": [5]}), "labels.a.0 is not of the kind"),
    "labels that joined": (lambda config: config["shape"].update(labels=[1, 1]), "do not add up to the 3 of the model"),
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


# Folders with right checksums that are no model all the same


@pytest.fixture
def old(tmp_path):
    """A model whose method remembers earlier domains."""
    return Path(shutil.copytree(Path(__file__).parent / "golden/models/0.1.0-classifier", tmp_path / "old"))


def rewrite(folder, name, content):
    """Another content for a file, and the checksum that goes with it; None takes the file away."""
    told = json.loads((folder / "manifest.json").read_text())
    if content is None:
        (folder / name).unlink()
        del told["sha256"][name]
    else:
        (folder / name).write_bytes(content)
        told["sha256"][name] = hashlib.sha256(content).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(told))


def assert_refused(folder, says):
    """Loading and verifying say the same."""
    with refused(says):
        Learner.load(folder)
    assert re.search(says, " ".join(find_faults(folder)))


def spoilt(folder, change):
    """The weights of a folder, each changed."""
    tensors = load_file(folder / "model.safetensors")
    return save({name: change(tensor) for name, tensor in tensors.items()})


def with_nan(tensor):
    tensor.view(-1)[0] = float("nan")
    return tensor


def test_weights_that_are_no_finite_numbers_are_refused(old):
    rewrite(old, "model.safetensors", spoilt(old, with_nan))
    assert_refused(old, "has a weight that is no finite number")


def test_weights_of_another_kind_of_number_are_refused(old):
    rewrite(old, "model.safetensors", spoilt(old, lambda tensor: tensor.view(torch.int32)))
    assert_refused(old, "is of torch.int32 and should be of torch.float32")


def test_a_model_with_weights_that_are_no_numbers_does_not_take_the_place_of_a_good_one(old):
    learner = Learner.load(old, device="cpu")
    with torch.no_grad():
        next(learner.trained().parameters()).view(-1)[0] = float("inf")
    with pytest.raises(ModelError, match="no finite number"):
        learner.save(old)
    assert Learner.load(old, device="cpu").history.domains


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (None, "remembers of earlier domains is missing"),
        (lambda tensors: {**tensors, "fisher/x": torch.ones(3)}, "is of another model"),
        (lambda tensors: {name: with_nan(tensor) for name, tensor in tensors.items()}, "no finite number"),
    ],
)
def test_what_the_method_remembers_is_there_and_of_this_model(old, change, says):
    remembered = old / "remembered.safetensors"
    rewrite(old, remembered.name, None if change is None else save(change(load_file(remembered))))
    assert_refused(old, says)


def test_words_and_labels_are_as_many_as_the_model_knows(old):
    words = json.loads((old / "vocabulary.json").read_text())
    rewrite(old, "vocabulary.json", json.dumps(words[:-1]).encode())
    assert_refused(old, "vocabulary.json has 73 words, and config.json tells of 74")
    rewrite(old, "vocabulary.json", json.dumps(words).encode())
    config = json.loads((old / "config.json").read_text())
    rewrite(old, "config.json", json.dumps({**config, "labels": ["a", "b", "a"]}).encode())
    assert_refused(old, "labels is not of the kind")


@pytest.mark.parametrize("name", ["config.json", "history.json"])
def test_a_key_that_stands_twice_is_refused(old, name):
    content = (old / name).read_bytes()
    rewrite(old, name, content.replace(b"{", b'{"task": 1, "task": 2,', 1))
    assert_refused(old, f"{name} cannot be read.*a key stands twice")


MANIFESTS = {
    "a null byte": lambda told: told["sha256"].update({"a\0b": "0" * 64}),
    "half a character": lambda told: told["sha256"].update({"\ud800": "0" * 64}),
    "a name of many letters": lambda told: told["sha256"].update({"a" * 5000: "0" * 64}),
    "the folder above": lambda told: told["sha256"].update({"..": "0" * 64}),
    "no checksum": lambda told: told["sha256"].update({"config.json": "0"}),
    "half a format": lambda told: told.update(format=1.5),
    "no format": lambda told: told.update(format=True),
    "a format below the first": lambda told: told.update(format=-1),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_that_makes_no_sense_is_damaged(old, name):
    told = json.loads((old / "manifest.json").read_text())
    MANIFESTS[name](told)
    (old / "manifest.json").write_text(json.dumps(told))
    assert_refused(old, "manifest.json is damaged")


def test_a_manifest_with_a_key_twice_or_of_many_megabytes_is_refused(old):
    content = (old / "manifest.json").read_bytes()
    (old / "manifest.json").write_bytes(content.replace(b"{", b'{"format": 1,', 1))
    assert_refused(old, "manifest.json is damaged")
    (old / "manifest.json").write_bytes(b"[" + b"[]," * 500_000 + b"0]")
    assert_refused(old, "MB, which is no file of a model")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_else_is_in_a_folder_is_told_without_waiting_for_a_pipe(old):
    (old / "manifest.json").unlink()
    os.mkfifo(old / "manifest.json")
    assert "config.json" in strangers(old)


@pytest.mark.parametrize("end", ["Infinity", "1e400", "-1", "1" + "0" * 4000, '"9"'])
def test_a_header_with_a_place_that_cannot_be_is_refused(old, end):
    header = f'{{"a": {{"dtype": "F32", "shape": [1], "data_offsets": [0, {end}]}}}}'.encode()
    rewrite(old, "model.safetensors", len(header).to_bytes(8, "little") + header + bytes(4))
    assert_refused(old, "model.safetensors is not what was written")


def test_a_method_of_very_many_letters_is_no_method(old):
    with pytest.raises(SettingsError, match="there is no method") as caught:
        find_method("F" + "+M" * 100_000)
    assert len(str(caught.value)) < 400


def test_a_shape_of_thousands_of_sizes_is_told_in_a_sentence():
    model = build(next(iter(TASKS)), ModelSettings(embedding=2, hidden=2, slots=0, perceptron=2), 3, labels=2)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    name = next(iter(shapes))
    with pytest.raises(ModelError, match=re.escape(name)) as told:
        check_fits(model, {**shapes, name: (1,) * 10_000})
    assert len(str(told.value)) < 400


@pytest.mark.parametrize("part", [b"[],", b"{},"])
def test_millions_of_empty_lists_are_refused_before_they_are_made(part):
    with pytest.raises(ModelError, match="has 8,000,000 lists and objects"):
        load_json({"history.json": b"[" + part * 7_999_999 + b"0]"}, "history.json")


def test_lists_are_not_hidden_from_who_counts_them_by_another_encoding():
    hidden = '{"\u2200": [' + "[]," * 600_000 + "0]}"  # in UTF-16, one byte of that sign is a quotation mark
    for encoding in ("utf-16-le", "utf-16", "utf-32-be"):
        with pytest.raises(ModelError, match=r"^history\.json cannot be read"):
            load_json({"history.json": hidden.encode(encoding)}, "history.json")


def test_half_a_character_is_refused_before_it_cannot_be_written_again():
    for half in (b'["\\ud800"]', b'{"\\uDFFF": 1}', b'["\\ud83d \\ude00"]'):
        with pytest.raises(ModelError, match=r"^history\.json cannot be read .*surrogates"):
            load_json({"history.json": half}, "history.json")
    assert load_json({"words.json": b'["\\ud83d\\ude00", "\\\\ud800"]'}, "words.json") == ["\U0001f600", "\\ud800"]


def test_a_whole_number_that_no_float_can_hold_is_refused_where_it_is_read():
    with pytest.raises(ModelError, match=r"history.json cannot be read .*a whole number has 400 digits"):
        load_json({"history.json": b'{"matrix": 1' + b"0" * 399 + b"}"}, "history.json")
    assert load_json({"seeds.json": str(2**127).encode()}, "seeds.json") == 2**127
    assert load_json({"words.json": b'["' + b"7" * 400 + b'", 7]'}, "words.json")[1] == 7  # a word may be that long


def test_millions_of_numbers_are_not_looked_at_one_by_one(monkeypatch):
    monkeypatch.setattr("memgrow.storage._integer", lambda digits: pytest.fail("one by one"))
    assert len(load_json({"calibration.json": b"[" + b"0," * 999_999 + b"0]"}, "calibration.json")) == 1_000_000


@pytest.mark.parametrize("name", ["batch", "epochs", "patience", "min_count", "max_words", "min_documents"])
def test_a_count_that_is_past_all_use_is_refused(name):
    with pytest.raises(SettingsError, match=f"{name} must be at most 2,147,483,647"):
        TrainingSettings(**{name: 10**19})


@pytest.mark.parametrize("value", [[0] * 9, {"temperature": 1.0, "domains": {"a": {"stage": [0] * 9}}}])
def test_endless_numbers_in_a_calibration_are_not_gone_through(value, monkeypatch):
    monkeypatch.setattr("memgrow.calibration.finite", lambda numbers: pytest.fail("gone through"))
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        Calibration.from_json(value)
