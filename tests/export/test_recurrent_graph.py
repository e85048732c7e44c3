"""The ONNX graph of a recurrent classifier gives the model's probabilities, whatever the model has grown to."""

import copy

import numpy as np
import pytest
import torch

from memgrow.export.recurrent_graph import recurrent_graph
from tests.export.conftest import LABELS, classifier, sharpened

TEMPERATURE = 1.7
NEAR = 1e-5
KINDS = {
    "lstm": {},
    "gru": {"cell": "gru"},
    "rnn": {"cell": "rnn"},
    "two layers, last state": {"layers": 2, "pooling": "last"},
    "one direction": {"bidirectional": False, "slot_size": 3},
    "one direction, last state": {"bidirectional": False, "pooling": "last", "cell": "gru"},
    "no slots": {"slots": 0},
    "one domain read": {"domains_read": 1},
}


def drawn(model, longest: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.tensor([longest, 1, min(3, longest), longest - 1] * model.texts)
    words = torch.randint(1, model.vocabulary_size, (len(lengths), longest))
    return words * (torch.arange(longest) < lengths.unsqueeze(1)), lengths


def check(runtime, model) -> None:
    """Several batches, of one row and of several, each also with more padding than it needs."""
    session = runtime.InferenceSession(recurrent_graph(model, TEMPERATURE).SerializeToString())
    for longest in (7, 2):
        words, lengths = drawn(model, longest)
        with torch.no_grad():
            expected = (model(words, lengths) / TEMPERATURE).softmax(-1).numpy()
        assert expected.std(0).max() > 0.01  # not the same for all
        padded = torch.nn.functional.pad(words, (0, 3))
        for given in (words, padded):
            (found,) = session.run(None, {"words": given.numpy()})
            assert np.abs(found - expected).max() < NEAR
        first = words.view(model.texts, -1, longest)[:, :1].reshape(model.texts, longest)
        (alone,) = session.run(None, {"words": first.numpy()})
        assert np.abs(alone - expected[:1]).max() < NEAR


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_are_those_of_the_model_for_any_batch_and_length(runtime, kind):
    check(runtime, sharpened(classifier("pair" if kind == "lstm" else "text", **KINDS[kind])))


@pytest.mark.parametrize("kind", ["lstm", "two layers, last state", "one domain read"])
def test_what_has_grown_is_in_the_graph(runtime, kind):
    model = classifier("text", **KINDS[kind])
    vectors = torch.randn(2, 6)
    model.grow(slots=3, domain="two", quiet=1.0, words=vectors, labels=2)
    model.grow(slots=2, domain="three", hidden=0 if kind == "one domain read" else 2)
    if model.encoder.router is not None:
        for number in range(3):
            model.encoder.router.fit(number, torch.randn(5, 6) + number)
    assert model.labels == LABELS + 2
    check(runtime, sharpened(model))


def test_a_progressive_network_is_a_graph_of_all_its_columns(runtime):
    model = classifier("pair")
    model.add_column(4, slots=2, domain="two")
    check(runtime, sharpened(model))


def test_each_text_reads_the_slots_of_its_own_nearest_domain(runtime):
    """If all texts read the same ones, another router would change nothing."""
    model = classifier("text", domains_read=1)
    model.grow(slots=4, domain="two")
    sharpened(model)
    for number in range(2):
        model.encoder.router.fit(number, torch.randn(5, 6) + (-1) ** number)
    check(runtime, model)
    swapped = copy.deepcopy(model)
    swapped.encoder.router.means.copy_(model.encoder.router.means.flip(0))
    words, _ = drawn(model)
    one, other = (
        runtime.InferenceSession(recurrent_graph(each, 1.0).SerializeToString()).run(None, {"words": words.numpy()})[0]
        for each in (model, swapped)
    )
    assert np.abs(one - other).max() > 1e-3
