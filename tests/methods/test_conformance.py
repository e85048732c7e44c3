"""What every method promises, on a network with memory, on a plain one, and on one that replies.

Each method learns three domains once on each kind of network; the tests look at what was kept on the way.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from memgrow.data import Domain, Stream
from memgrow.data.synthetic_dialogue import synthetic_dialogue
from memgrow.learner import Learner
from memgrow.methods import METHODS, MethodSettings
from memgrow.models import ModelSettings

SLOTS = 20  # for each later domain
KINDS = {
    "memory": ModelSettings(embedding=6, hidden=5, slots=4, perceptron=16, dropout=0.1),
    "plain": ModelSettings(embedding=6, hidden=5, slots=0, perceptron=16, dropout=0.1),
    "replies": ModelSettings(cell="gru", embedding=6, hidden=5, slots=4, bidirectional=False, dropout=0.1),
    "plain replies": ModelSettings(cell="gru", embedding=6, hidden=5, slots=0, bidirectional=False, dropout=0.1),
}
Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Learnt:
    """A learner after three domains, and what it was before."""

    learner: Learner
    weights: list[Weights]  # after each domain
    folders: list[Path]  # what was saved after each domain
    references: tuple[list[int], list[int]]  # to parts of the first domain, before and after it was learnt


@pytest.fixture(params=KINDS, scope="module")
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def dialogues() -> Stream:
    return synthetic_dialogue(domains=3, train=48, validation=16, test=24)


@pytest.fixture(scope="module")
def stream(kind, stream, dialogues) -> Stream:
    return dialogues if "replies" in kind else stream


@pytest.fixture(params=METHODS, scope="module")
def learnt(request, kind, stream, short, tmp_path_factory) -> Learnt:
    options = MethodSettings(slots=SLOTS, fisher_examples=10)
    learner = Learner.create(request.param, model=KINDS[kind], training=short, options=options, device="cpu")
    folder, before = tmp_path_factory.mktemp("learnt"), references(stream[0])
    kept, folders, after = [], [], []
    for number in range(3):
        adapt(learner, stream, number)
        after = after or references(stream[0])
        kept.append(weights(learner))
        folders.append(folder / str(number))
        learner.save(folders[-1])
    return Learnt(learner, kept, folders, (before, after))


def adapt(learner: Learner, stream, number: int) -> None:
    earlier = stream[:number] if learner.method.together else ()
    learner.adapt(stream[number], earlier=earlier, watch=stream)


def weights(learner: Learner) -> Weights:
    return {name: tensor.clone() for name, tensor in learner.trained().state_dict().items()}


def references(domain: Domain) -> list[int]:
    return [sys.getrefcount(part) for part in (domain.train, domain.train[0], domain.train[0].text)]


def test_three_domains_grow_the_model_as_promised(learnt, stream):
    learner, method = learnt.learner, learnt.learner.method
    first, *later = learner.history.stages
    assert first.grew.columns == 1
    for before, stage in zip((first, *later), later, strict=False):
        grew = stage.grew
        if method.afresh:
            assert grew.columns == 1
            continue
        if "column" in method.grows:
            assert (grew.slots, grew.hidden) == (learner.settings.slots, learner.settings.hidden)
        else:
            assert grew.slots == (SLOTS if "slots" in method.grows else 0)
            assert (grew.hidden > 0) == ("hidden" in method.grows)
        assert (grew.words > 0) == ("words" in method.grows)
        assert grew.columns == int("column" in method.grows)
        assert (stage.parameters > before.parameters) == bool(method.grows)
    if "slots" in method.grows:
        expected = stream.names if learner.settings.slots else stream.names[1:]
        assert learner.trained().encoder.newest.banks[0].domains == expected
    assert learner.trained().encoder.embedding.num_embeddings == len(learner.vocabulary)
    assert len(learner.history.matrix.rows) == 3
    assert set(learner.history.matrix.domains) == set(stream.names)


def test_what_must_stay_frozen_keeps_its_bits_and_the_rest_trains(learnt):
    old, new, _ = learnt.weights
    frozen = {
        "frozen+M": {name for name in old if not name.startswith("heads.")},
        "Progressive": set(old),
    }.get(learnt.learner.method.name, set())
    for name in frozen:
        kept = new[name]
        for dim, size in enumerate(old[name].shape):  # the part that was there before
            kept = kept.narrow(dim, 0, size)
        assert torch.equal(kept, old[name]), f"{name} was to stay as it is"
    for name, tensor in new.items():
        grown = name not in old or tensor.shape != old[name].shape
        if name not in frozen and not grown:
            assert not torch.equal(tensor, old[name]), f"{name} was to train"


def test_saving_and_loading_between_domains_changes_nothing(learnt, stream, tmp_path):
    learner, twin = learnt.learner, Learner.load(learnt.folders[0], device="cpu")
    for number in (1, 2):
        adapt(twin, stream, number)
        twin.save(tmp_path / "model")
        twin = Learner.load(tmp_path / "model", device="cpu")
    ours, theirs = learnt.weights[-1], weights(twin)
    assert list(ours) == list(theirs)
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name
    assert twin.vocabulary == learner.vocabulary
    assert twin.history.matrix == learner.history.matrix
    for name, tensor in learner.past.tensors().items():
        assert torch.equal(tensor, twin.past.tensors()[name])


def test_prediction_needs_no_domain(learnt, stream):
    learner = Learner.load(learnt.folders[1], device="cpu")
    mixed = [example for domain in stream for example in domain.test]
    if stream[0].has_replies:
        assert len(learner.reply(mixed, max_words=5)) == len(mixed)
        return
    predictions = learner.predict(mixed)
    for prediction in predictions:
        assert sum(prediction.probabilities.values()) == pytest.approx(1, abs=1e-5)
        assert prediction.label == max(prediction.probabilities, key=prediction.probabilities.get)
    right = [p.label == e.label for p, e in zip(predictions[:24], stream[0].test, strict=True)]
    assert sum(right) / len(right) == pytest.approx(learner.evaluate(stream[0])[stream[0].name])


def test_no_reference_to_a_domains_data_is_kept(learnt):
    before, after = learnt.references
    assert after == before
