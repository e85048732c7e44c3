"""A folder for the Hugging Face hub: loads anywhere, predicts the same, and has a card without any text of the data."""

import shutil
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from memgrow.data import synthetic_stream
from memgrow.data.synthetic_dialogue import synthetic_dialogue
from memgrow.data.vectors import RememberedVectors
from memgrow.errors import ModelError
from memgrow.export import export_huggingface, export_onnx, huggingface_folder
from memgrow.export.model_card import licence_of, model_card
from memgrow.learner import Learner
from memgrow.models.pretrained.files import EncoderFiles
from tests.support.canaries import leaks, planted, rare_words
from tests.test_folders import killed_at

LOAD = """
import sys, torch
torch.set_num_threads(1)
from memgrow import Learner
learner = Learner.load(sys.argv[1], device="cpu")
print([list(one.probabilities.values()) for one in learner.predict([("the soup was sharp", "the soup was thick")])])
"""


@pytest.fixture(scope="module")
def learner(tiny, short) -> Learner:
    learner = Learner.create("F+M+V", model=tiny, training=replace(short, epochs=1, min_documents=2), device="cpu")
    learner.learn(planted(synthetic_stream(domains=2, train=24, validation=8, test=8, seed=3)))
    return learner


@pytest.fixture
def folder(learner, tmp_path) -> Path:
    export_huggingface(learner, tmp_path / "soups")
    return tmp_path / "soups"


def front_matter(card: str) -> dict:
    _, front, _ = card.split("---\n", 2)
    return yaml.safe_load(front)


def linked_as_the_hub_does(folder: Path, cache: Path) -> Path:
    """A snapshot in the cache of huggingface_hub: links to files that are called by their checksums."""
    (cache / "blobs").mkdir(parents=True)
    snapshot = cache / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    for number, path in enumerate(folder.iterdir()):
        shutil.copy(path, cache / "blobs" / str(number))
        (snapshot / path.name).symlink_to(Path("../../blobs", str(number)))
    return snapshot


@pytest.mark.extras
def test_a_fresh_process_loads_it_from_the_hubs_cache_and_predicts_the_same(learner, folder, tmp_path):
    snapshot = linked_as_the_hub_does(folder, tmp_path / "cache")
    done = subprocess.run([sys.executable, "-c", LOAD, snapshot], capture_output=True, text=True, check=True)
    (expected,) = learner.predict([("the soup was sharp", "the soup was thick")])
    assert eval(done.stdout) == [list(expected.probabilities.values())]


def test_it_loads_from_the_hubs_cache_and_predicts_the_same(learner, folder, tmp_path):
    again = Learner.load(linked_as_the_hub_does(folder, tmp_path / "cache"), device="cpu")
    texts = [("the soup was sharp", "the soup was thick"), ("the boat is late", "it is not")]
    assert again.predict(texts) == learner.predict(texts)


def test_it_goes_on_learning_and_keeps_its_card(folder, learner):
    again = Learner.load(folder, device="cpu")
    assert again.history == learner.history
    third = list(synthetic_stream(domains=3, train=24, validation=8, test=8, seed=3))[2]
    again.adapt(third, folder=folder)
    assert (folder / "README.md").is_file()
    assert Learner.load(folder, device="cpu").history.domains[-1] == third.name


def test_the_card_may_be_written_on(folder):
    (folder / "README.md").write_text("mine")
    assert Learner.load(folder, device="cpu").history.domains


def test_the_card_tells_the_history(learner, folder):
    card = (folder / "README.md").read_text(encoding="utf-8")
    front = front_matter(card)
    first, second = learner.history.domains
    assert front["library_name"] == "memgrow"
    assert front["pipeline_tag"] == "text-classification"
    (index,) = front["model-index"]
    assert index["name"] == "soups"
    assert [one["dataset"]["name"] for one in index["results"]] == [first, second]
    assert f"| after learning | {first} | {second} |" in card
    for stage in learner.history.stages:
        assert f"| {stage.learned[0]} | {stage.method} |" in card
        assert f"| {stage.examples} |" in card
    assert "`entailment`" in card
    assert "F+M+V" in card


def test_the_hubs_own_client_reads_the_front_matter(folder):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    data = hub.ModelCard.load(folder / "README.md").data
    assert data.library_name == "memgrow"
    assert [one.metric_type for one in data.eval_results] == ["accuracy", "accuracy"]


def test_nothing_tells_where_word_vectors_lie(learner, monkeypatch, tmp_path):
    place = tmp_path / "secret-place" / "secret-place.txt"
    monkeypatch.setattr(learner, "vectors", RememberedVectors("secret-place.txt", "0" * 64, place))
    export_huggingface(learner, tmp_path / "out")
    assert all(b"secret-place" not in path.read_bytes() for path in (tmp_path / "out").iterdir())


def test_the_card_holds_no_text_of_the_data(folder):
    assert not list(leaks(folder, rare_words(2)))


def test_names_that_would_break_a_table_do_not(learner, monkeypatch):
    known = learner.history
    stages = [replace(stage, learned=(f"a|b\n{number}",)) for number, stage in enumerate(known.stages)]
    monkeypatch.setattr(learner, "history", type(known)(stages, known.matrix, known.baseline, known.labels))
    card = model_card(learner, "soups")
    (row,) = (line for line in card.splitlines() if line.startswith("| 1 |"))
    assert row.replace("\\|", "").count("|") == 9


def test_nothing_is_replaced_and_a_full_disk_leaves_nothing(learner, folder, tmp_path, monkeypatch):
    with pytest.raises(ModelError, match="is there already"):
        export_huggingface(learner, folder)

    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(huggingface_folder, "write_file", full)
    with pytest.raises(ModelError, match=r"could not write .*No space left on device"):
        export_huggingface(learner, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["soups"]


@pytest.mark.parametrize("export", [export_huggingface, export_onnx])
@pytest.mark.parametrize(("closed", "expected"), [(0o700, 0o700), (0o750, 0o750), (0o550, 0o750)])
def test_an_export_is_no_more_open_than_the_model(learner, request, tmp_path, export, closed, expected):
    if export is export_onnx:
        request.getfixturevalue("runtime")
    learner.save(tmp_path / "model")
    for path in (tmp_path / "model").iterdir():
        path.chmod(closed & 0o660)
    (tmp_path / "model").chmod(closed)
    export(Learner.load(tmp_path / "model", device="cpu"), tmp_path / "out")
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()}
    assert set(found.values()) == {closed & 0o640}, found
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == expected


def test_a_model_that_replies_has_a_card_of_perplexities(tiny, short, tmp_path):
    learner = Learner.create("F", model=tiny, training=replace(short, epochs=1), device="cpu")
    learner.learn(synthetic_dialogue(domains=1, train=16, validation=4, test=4))
    export_huggingface(learner, tmp_path / "replies")
    card = (tmp_path / "replies/README.md").read_text(encoding="utf-8")
    assert front_matter(card)["pipeline_tag"] == "text-generation"
    assert "perplexity" in card
    assert "ccuracy" not in card


@pytest.mark.parametrize(
    ("name", "licences", "expected"),
    [
        ("minilm", {}, "apache-2.0"),
        ("own", {"LICENSE": "                Apache License\n           Version 2.0"}, "apache-2.0"),
        ("own", {"LICENSE": "MIT License\n\nCopyright"}, "mit"),
        ("own", {"LICENSE": "Do as you like"}, None),
        ("own", {}, None),
    ],
)
def test_the_licence_of_an_encoder_is_told_where_it_is_known(name, licences, expected):
    assert licence_of(EncoderFiles(name, "{}", "{}", "", licences)) == expected


@pytest.mark.extras
def test_an_export_killed_at_any_file_operation_is_whole_or_not_there(learner, tmp_path):
    number, status = 0, -signal.SIGKILL
    while status == -signal.SIGKILL:
        place = tmp_path / str(number) / "out"
        place.parent.mkdir()
        status = killed_at(number, lambda place=place: export_huggingface(learner, place), reads=False)
        if not place.exists():  # what was left does not stand in the way
            export_huggingface(learner, place)
        assert Learner.load(place, device="cpu").history == learner.history
        assert (place / "README.md").is_file()
        assert [path.name for path in place.parent.iterdir()] == ["out"]
        number += 1
    assert status == 0
    assert 5 < number < 100
