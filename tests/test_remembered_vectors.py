"""The word vectors that a model began with are known by name and checksum, and never found by a path."""

import hashlib
import shutil

import pytest
import torch

from memgrow.data import Domain
from memgrow.data.vectors import RememberedVectors
from memgrow.learner import Learner
from memgrow.training.progress import NoProgress
from memgrow.training.settings import TrainingSettings
from tests.support.stored import change

UNTRAINED = TrainingSettings(rate=1e-12, epochs=1)


class Told(NoProgress):
    """Takes what a training has to say."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def make(tiny, training) -> Learner:
    return Learner.create("F+M+V", model=tiny, training=training, device="cpu")


@pytest.fixture
def vectors_file(stream, tmp_path):
    """A file with a vector for each word of the second domain, all of them the same."""
    words = sorted({word for example in stream[1].train for word in example.text.split()})
    (file := tmp_path / "of mine" / "vectors.txt").parent.mkdir()
    file.write_text("".join(f"{word} {' '.join(['0.5'] * 6)}\n" for word in words))
    return file


def new_rows(learner: Learner, domain: Domain, told: Told) -> torch.Tensor:
    """The vectors of the words that join with a domain, which nothing is trained on."""
    known = len(learner.vocabulary)
    learner.adapt(domain, progress=told)
    return learner.trained().encoder.embedding.weight[known:]


def test_word_vectors_are_given_with_each_domain_and_asked_for_where_they_are_not(tiny, stream, vectors_file):
    learner, told = make(tiny, UNTRAINED), Told()
    learner.adapt(stream[0], vectors=vectors_file)
    assert not (new_rows(learner, stream[1], told) == 0.5).all(1).any()
    assert any("vectors.txt" in note for note in told.notes)


def test_a_models_folder_cannot_name_a_file_to_read_vectors_from(tiny, stream, vectors_file, tmp_path):
    learner = make(tiny, UNTRAINED)
    learner.adapt(stream[0], folder=tmp_path / "model")
    checksum = hashlib.sha256(vectors_file.read_bytes()).hexdigest()
    by_path = {"vectors": str(vectors_file)}  # as earlier memgrows wrote it
    by_checksum = {"word_vectors": {"name": str(vectors_file), "sha256": checksum}}
    for number, said in enumerate((by_path, by_checksum)):
        place = tmp_path / f"stranger {number}"
        shutil.copytree(tmp_path / "model", place)
        change(place, "config.json", said)
        told = Told()
        assert not (new_rows(Learner.load(place, "cpu"), stream[1], told) == 0.5).all(1).any()
        assert any("--vectors" in note for note in told.notes)


@pytest.mark.parametrize(
    "said",
    [
        {"vectors": 5},
        {"word_vectors": "vectors.txt"},
        {"word_vectors": {"name": "vectors.txt"}},
        {"word_vectors": {"name": ["vectors.txt"], "sha256": "0" * 64}},
        {"word_vectors": {"name": "vectors.txt", "sha256": "../" + "0" * 61}},
        {"word_vectors": {"name": "vectors.txt", "sha256": 0}},
    ],
)
def test_what_a_stranger_wrote_in_their_place_is_refused(said):
    with pytest.raises((ValueError, LookupError, TypeError)):
        RememberedVectors.from_json(said)
