"""A folder for onnxruntime: complete, without memgrow, and refused in sentences."""

import json
import os
import runpy
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memgrow.data import Domain, Example, Stream
from memgrow.errors import MissingExtraError, ModelError
from memgrow.export import export_onnx, onnx_folder
from memgrow.learner import Learner
from tests.export.conftest import example, run_alone, sharpened
from tests.test_folders import killed_at

ODD = [
    "",
    "   ",
    "A MOVING Book",
    "<pad> <unk>",
    "shouldn't've, e.g. the U.S. 3,000.50",
    "“É” 中文 \U0001f600",
    "a book " * 300,
]


@pytest.fixture(scope="module")
def reviews() -> Stream:
    def domain(name: str, thing: str) -> Domain:
        rows = tuple(
            Example(f"{opening} {word} {thing}", None, label)
            for opening, label in (("a moving", "good"), ("a boring", "bad"))
            for word in ("quiet", "slow", "rich")
        )
        return Domain(name, rows, rows, rows)

    return Stream([domain("books", "book"), domain("films", "film")])


@pytest.fixture(scope="module")
def learner(reviews, tiny, short) -> Learner:
    learner = Learner.create("F+M+V", model=replace(tiny, lowercase=True), training=short, device="cpu")
    learner.learn(reviews)
    sharpened(learner.classifier())
    return learner


def probabilities_of(folder: Path, texts: list[str], runtime) -> np.ndarray:
    about, number = (json.loads((folder / name).read_bytes()) for name in ("memgrow-export.json", "vocabulary.json"))
    module = runpy.run_path(str(folder / about["tokenizer"]))
    split = [module["words_of"](text)[: about["longest"]] for text in texts]
    rows = [[number.get(word, about["unknown"]) for word in words] for words in split]
    rows = [row or [about["unknown"]] for row in rows]
    words = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for row, numbers in zip(words, rows, strict=True):
        row[: len(numbers)] = numbers
    return runtime.InferenceSession(str(folder / "model.onnx")).run(None, {"words": words})[0]


def test_a_thousand_texts_get_the_labels_and_probabilities_of_predict(runtime, learner, tmp_path):
    export_onnx(learner, tmp_path / "out")
    chance = np.random.default_rng(0)
    words = [*learner.vocabulary.words, "Book", "MOVING", "stew", "n't", "..."]
    texts = [" ".join(chance.choice(words, int(chance.integers(1, 30)))) for _ in range(1000)] + ODD[2:]
    answers = learner.predict(texts)
    found = probabilities_of(tmp_path / "out", texts, runtime)
    assert np.abs(found - np.array([list(one.probabilities.values()) for one in answers])).max() < 1e-4
    assert [learner.labels[best] for best in found.argmax(1)] == [one.label for one in answers]
    assert found.std(0).max() > 0.01


def test_a_process_without_memgrow_and_torch_gives_the_same_labels(runtime, learner, reviews, tmp_path):
    """The very code of docs/leaving.md."""
    export_onnx(learner, tmp_path / "books-onnx")
    texts = [one.text for domain in reviews for one in domain.test] + ODD
    path = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    printed = run_alone(f"{example('python')}\nprint(predict({texts!r}))\n", tmp_path, path)
    labels = [one.label for one in learner.predict([text for text in texts if text.strip()])]
    found = eval(printed.splitlines()[-1])
    assert [label for label, text in zip(found, texts, strict=True) if text.strip()] == labels


def test_the_folder_says_what_it_is(learner, tmp_path, runtime):
    export_onnx(learner, tmp_path / "out")
    about = json.loads((tmp_path / "out/memgrow-export.json").read_bytes())
    assert about["labels"] == list(learner.labels)
    assert about["domains"] == ["books", "films"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "memgrow-export.json",
        "model.onnx",
        "tokenise.py",
        "vocabulary.json",
    }


def test_weights_that_are_too_large_for_one_file_stand_beside_it(runtime, learner, reviews, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_folder, "LARGEST", 1000)
    monkeypatch.setattr(onnx_folder, "SMALLEST_APART", 64)
    export_onnx(learner, tmp_path / "out")
    assert (tmp_path / "out/model.onnx.data").stat().st_size > 1000
    texts = ["a moving quiet book", "a boring film"]
    expected = [list(one.probabilities.values()) for one in learner.predict(texts)]
    assert np.abs(probabilities_of(tmp_path / "out", texts, runtime) - np.array(expected)).max() < 1e-4


def test_nothing_is_replaced(learner, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("out", "file"):
        with pytest.raises(ModelError, match="is there already"):
            export_onnx(learner, tmp_path / name)
    assert {path.name for path in tmp_path.rglob("*")} == {"out", "mine.txt", "file", "link"}


def test_a_folder_within_a_model_is_refused(learner, tmp_path):
    learner.save(tmp_path / "model")
    before = {path.name for path in (tmp_path / "model").iterdir()}
    with pytest.raises(ModelError, match="within the model"):
        export_onnx(learner, tmp_path / "model" / "onnx")
    assert {path.name for path in (tmp_path / "model").iterdir()} == before


def test_what_somebody_else_put_there_meanwhile_is_not_replaced(runtime, learner, tmp_path, monkeypatch):
    write = onnx_folder.write_file

    def write_slowly(path, data):
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out/theirs").write_text("theirs")
        return write(path, data)

    monkeypatch.setattr(onnx_folder, "write_file", write_slowly)
    with pytest.raises(ModelError, match="is there already"):
        export_onnx(learner, tmp_path / "out")
    assert {path.name for path in tmp_path.rglob("*")} == {"out", "theirs"}


def test_a_full_disk_leaves_nothing(runtime, learner, tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(onnx_folder, "write_file", full)
    with pytest.raises(ModelError, match=r"could not write .*No space left on device"):
        export_onnx(learner, tmp_path / "new" / "place" / "out")
    assert not list(tmp_path.iterdir())


def test_all_files_have_reached_the_disk_before_the_folder_has_its_name(runtime, learner, tmp_path, monkeypatch):
    flushed, fsync = set[int](), os.fsync

    def noted(number: int) -> None:
        if not (tmp_path / "out").exists():
            flushed.add(os.fstat(number).st_ino)
        fsync(number)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(onnx_folder, "LARGEST", 1000)  # so that weights stand beside the graph
    monkeypatch.setattr(onnx_folder, "SMALLEST_APART", 64)
    export_onnx(learner, tmp_path / "out")
    files = {path.name: path.stat().st_ino for path in (tmp_path / "out").iterdir()}
    assert {onnx_folder.MODEL, onnx_folder.WEIGHTS} < files.keys()
    assert {name for name, number in files.items() if number not in flushed} == set()


@pytest.mark.extras
def test_an_export_killed_at_any_file_operation_is_whole_or_not_there(runtime, learner, reviews, tmp_path):
    texts = [one.text for one in reviews[0].test]
    expected = np.array([list(one.probabilities.values()) for one in learner.predict(texts)])
    number, status = 0, -signal.SIGKILL
    while status == -signal.SIGKILL:
        place = tmp_path / str(number) / "out"
        place.parent.mkdir()
        status = killed_at(number, lambda place=place: export_onnx(learner, place), reads=False)
        if not place.exists():
            for left in place.parent.iterdir():  # it is no model, and no folder of that name
                assert left.name.startswith(".out.")
                with pytest.raises(ModelError):
                    Learner.load(left, device="cpu")
            export_onnx(learner, place)  # what was left does not stand in the way, and is cleared
        assert np.abs(probabilities_of(place, texts, runtime) - expected).max() < 1e-4
        assert [path.name for path in place.parent.iterdir()] == ["out"]
        number += 1
    assert status == 0
    assert 5 < number < 100


def test_a_graph_that_answers_otherwise_is_not_written(runtime, learner, tmp_path, monkeypatch):
    right = onnx_folder.recurrent_graph
    monkeypatch.setattr(onnx_folder, "recurrent_graph", lambda model, temperature: right(model, 3 * temperature))
    with pytest.raises(ModelError, match="other probabilities than the model"):
        export_onnx(learner, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_who_lacks_the_extra_is_told_what_to_install(learner, tmp_path, monkeypatch):
    def nowhere(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(onnx_folder, "import_module", nowhere)
    with pytest.raises(MissingExtraError, match=r"pip install 'memgrow\[onnx\]'"):
        export_onnx(learner, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_words_that_are_made_by_somebody_elses_function_are_refused(runtime, learner, tmp_path, monkeypatch):
    kind = learner.settings.kind
    monkeypatch.setattr(kind, "tokenizer", classmethod(lambda cls, settings: lambda text: text.split()))
    with pytest.raises(ModelError, match="a function of its own"):
        export_onnx(learner, tmp_path / "out")
