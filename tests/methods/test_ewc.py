"""Elastic weight consolidation: an exact Fisher, and one parabola for any number of domains."""

import pytest
import torch

from memgrow.data.batches import collate, encode, tokenize_examples
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.methods.ewc import ElasticWeights, fisher_diagonal

CPU = torch.device("cpu")


@pytest.fixture
def learner(stream, tiny, short) -> Learner:
    learner = Learner.create("EWC", model=tiny, training=short, options=MethodSettings(fisher_examples=8), device="cpu")
    learner.adapt(stream[0])
    return learner


@pytest.fixture
def data(learner, stream):
    return encode(tokenize_examples(stream[0].train[:8], 50), learner.vocabulary, learner.labels)


def per_example_gradients(learner, data):
    """The gradients of the log-probability of every label for every example, from one padded batch."""
    batch = collate(data, range(len(data)), CPU)
    model = learner.trained().eval()
    scores = model(batch.words, batch.lengths).log_softmax(-1)
    parameters = {name: p for name, p in model.named_parameters() if p.numel()}
    for row, label in ((r, y) for r in range(len(data)) for y in range(scores.shape[1])):
        gradients = torch.autograd.grad(
            scores[row, label], parameters.values(), retain_graph=True, materialize_grads=True
        )
        yield row, label, scores[row, label].exp().item(), dict(zip(parameters, gradients, strict=True))


@pytest.mark.parametrize("variant", ["exact", "empirical"])
def test_the_fisher_is_the_mean_of_squared_gradients_of_single_examples(learner, data, variant):
    expected: dict[str, torch.Tensor] = {}
    for row, label, probability, gradients in per_example_gradients(learner, data):
        weight = probability if variant == "exact" else float(label == data.labels[row])
        for name, gradient in gradients.items():
            expected[name] = expected.get(name, 0) + weight * gradient**2 / len(data)
    measured = fisher_diagonal(learner.trained(), data, variant, CPU)
    assert measured.keys() == expected.keys()
    for name, value in measured.items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-9)


@pytest.mark.slow
def test_the_sampled_fisher_comes_near_the_exact_one(learner, data):
    torch.manual_seed(0)
    name = "heads.0.3.weight"
    draws = [fisher_diagonal(learner.trained(), data, "sampled", CPU)[name] for _ in range(60)]
    exact = fisher_diagonal(learner.trained(), data, "exact", CPU)[name]
    torch.testing.assert_close(torch.stack(draws).mean(0).sum(), exact.sum(), rtol=0.15, atol=0)


def test_the_squared_gradient_of_a_batch_is_another_thing(learner, data):
    batch = collate(data, range(len(data)), CPU)
    model = learner.trained()
    torch.nn.functional.cross_entropy(model(batch.words, batch.lengths), batch.labels).backward()
    measured = fisher_diagonal(model, data, "empirical", CPU)
    wrong = model.encoder.newest.weight_hh_l0.grad**2
    assert measured["encoder.columns.0.weight_hh_l0"].sum() > 2 * wrong.sum()


def test_one_parabola_pulls_like_the_sum_of_one_for_each_domain(learner, data):
    torch.manual_seed(0)
    model = learner.trained()
    plugin = ElasticWeights(MethodSettings(strength=3.0, fisher_examples=8))
    separate = []
    for _ in range(3):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        torch.manual_seed(1)
        plugin.after_domain(model, data, CPU)
        torch.manual_seed(1)
        torch.randperm(len(data))
        anchors = {name: p.detach().clone() for name, p in model.named_parameters()}
        separate.append((fisher_diagonal(model, data, "exact", CPU), anchors))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.zero_grad()
    plugin.weight_loss(dict(model.named_parameters())).backward()
    for name, parameter in model.named_parameters():
        if parameter.numel():
            expected = sum(3.0 * fisher[name] * (parameter - anchor[name]) for fisher, anchor in separate)
            torch.testing.assert_close(parameter.grad, expected, rtol=1e-3, atol=1e-7)


def test_the_record_names_the_variant(learner):
    assert learner.history.stages[0].note == {"fisher": "exact", "fisher_examples": 8, "strength": 1000.0}


def test_a_strong_pull_holds_the_weights_and_none_lets_them_go(stream, tiny, short):
    moved = {}
    for strength in (0.0, 1e7):
        options = MethodSettings(strength=strength, fisher_examples=20)
        learner = Learner.create("EWC", model=tiny, training=short, options=options, device="cpu")
        learner.adapt(stream[0])
        before = learner.trained().heads[0][3].weight.detach().clone()
        learner.adapt(stream[1])
        moved[strength] = (learner.trained().heads[0][3].weight - before).norm().item()
    assert moved[1e7] < 0.5 * moved[0.0]
