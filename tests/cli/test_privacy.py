"""What commands write and print by default holds no word of a single document."""

import shutil
from pathlib import Path

import pytest

from memgrow.cli.compare import _settings
from memgrow.cli.recipe import read_recipe
from memgrow.data import Stream, synthetic_stream, write_jsonl
from memgrow.data.synthetic_dialogue import synthetic_dialogue
from memgrow.learner import Learner
from memgrow.training.defaults import SMALL
from tests.support.canaries import found_in, leaks, planted, rare_words
from tests.support.tiny_encoder import make_encoder

SAVED_BY_0_1_0 = Path(__file__).parents[1] / "golden" / "models" / "0.1.0-classifier"
SIZES = ("--set", "epochs=1", "--set", "batch=16")
TINY = ("--set", "hidden=3", "--set", "embedding=4", "--set", "model.slots=2", "--set", "perceptron=4")


@pytest.fixture(scope="module")
def secrets() -> set[str]:
    return rare_words(2)


def files_of(stream: Stream, folder):
    return write_jsonl(planted(stream), folder)


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Files of each kind of data, and the options for it."""
    folder = tmp_path_factory.mktemp("given")
    labels = files_of(synthetic_stream(domains=2, train=16, validation=6, test=6, seed=3), folder / "labels")
    replies = files_of(synthetic_dialogue(domains=2, train=16, validation=6, test=6), folder / "replies")
    encoder = ("--encoder", make_encoder(folder / "tiny"))
    return {"labels": (labels, TINY), "replies": (replies, TINY), "encoder": (labels, encoder)}


@pytest.mark.parametrize("kind", ["labels", "replies", "encoder"])
def test_adapt_and_what_looks_at_a_model(kind, given, secrets, memgrow, tmp_path):
    (files, options), model = given[kind], tmp_path / "m"
    said = memgrow.done("adapt", model, *files, *SIZES, *options)
    assert ("each found in at least 2 documents" in " ".join(said.split())) == (kind != "encoder")
    for command in (("inspect", model), ("inspect", model, "--json"), ("verify", model), ("evaluate", model, *files)):
        said += memgrow.done(*command)
    assert not found_in(said, secrets)
    assert not list(leaks(tmp_path, secrets))


@pytest.mark.parametrize("kind", ["labels", "replies", "encoder"])
def test_compare(kind, given, secrets, memgrow, tmp_path):
    files, options = given[kind]
    out, method = tmp_path / "out", "F+A" if kind == "encoder" else "F+V"
    said = memgrow.done(
        "compare", *files, *SIZES, *options, "--methods", method, "--seeds", "1", "--out", out, "--workers", "1"
    )
    assert list(out.rglob("*.json"))
    assert not found_in(said, secrets)
    assert not list(leaks(out, secrets))


def test_a_model_of_memgrow_0_1_0_stores_every_word_until_it_is_told_not_to(given, memgrow, tmp_path):
    model = shutil.copytree(SAVED_BY_0_1_0, tmp_path / "m")
    (first, second), _ = given["labels"]
    said = memgrow.done("adapt", model, first, "--set", "epochs=1")
    assert "also those that a single document has (min_documents=1)" in " ".join(said.split())
    said = memgrow.done("adapt", model, second, "--set", "min_documents=2")
    assert "each found in at least 2 documents" in " ".join(said.split())
    assert Learner.load(model, "cpu").training.min_documents == 2


def test_public_corpora_are_compared_as_their_recorded_results_were():
    own, public = (_settings(read_recipe(None), None, "cpu", False, is_public) for is_public in (False, True))
    assert (own.model, own.training) == (SMALL.model, SMALL.training)
    assert (public.training.min_documents, public.training.patience, public.model.lowercase) == (1, 2, False)
    assert SMALL.training.min_documents == 2
