"""Each method's own mathematics, and the names of methods."""

from dataclasses import replace
from math import log, nan

import pytest
import torch

from memgrow.data import Domain, Stream, synthetic_stream
from memgrow.data.batches import collate, encode, tokenize_examples
from memgrow.errors import SettingsError
from memgrow.learner import Learner
from memgrow.methods import METHODS, FinishedDomain, Method, MethodSettings, MethodSpec, find_method
from memgrow.methods.average import Figure, choose_share, move_back
from memgrow.methods.base import old_part
from memgrow.methods.ema import EMA
from memgrow.methods.ewc import EWC, fisher_diagonal
from memgrow.methods.lora import AdditionHook
from memgrow.methods.rehearsal import draw_balanced, pack_rows, unpack_rows
from memgrow.methods.ridge import Ridge, Sums, choose_penalty, solve
from memgrow.models import PretrainedSettings
from memgrow.models.classifier import RandomFeatures
from memgrow.training.settings import TrainingSettings
from tests.support.tiny_encoder import make_encoder


def make(method, tiny, short, **options) -> Learner:
    return Learner.create(method, model=tiny, training=short, options=MethodSettings(**options), device="cpu")


def finished(model, data, seed=0) -> FinishedDomain:
    return FinishedDomain(None, model, data, (), {}, lambda _: [], seed)


# EWC


@pytest.fixture(scope="module")
def elastic(stream, tiny, short) -> Learner:
    learner = make("EWC", tiny, short, fisher_examples=8)
    learner.adapt(stream[0])
    return learner


@pytest.fixture(scope="module")
def data(elastic, stream):
    return encode(tokenize_examples(stream[0].train[:8], 50), elastic.vocabulary, elastic.labels)


@pytest.mark.parametrize("variant", ["exact", "empirical"])
def test_the_fisher_is_the_mean_squared_gradient_of_single_examples(elastic, data, variant):
    model = elastic.trained().eval()
    batch = collate(data, range(len(data)), torch.device("cpu"))
    scores = model(batch.words, batch.lengths).log_softmax(-1)
    parameters = {name: p for name, p in model.named_parameters() if p.numel()}
    expected = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for row in range(len(data)):
        for label in range(scores.shape[1]):
            weight = scores[row, label].exp().item() if variant == "exact" else float(label == data.labels[row])
            gradients = torch.autograd.grad(
                scores[row, label], list(parameters.values()), retain_graph=True, materialize_grads=True
            )
            for name, gradient in zip(parameters, gradients, strict=True):
                expected[name] += weight * gradient**2 / len(data)
    measured = fisher_diagonal(model, data, variant)
    for name, value in expected.items():
        torch.testing.assert_close(measured[name], value, rtol=1e-4, atol=1e-9)


def test_one_parabola_pulls_like_one_for_each_domain(elastic, data):
    torch.manual_seed(0)
    model, method = elastic.trained(), EWC(MethodSettings(strength=3.0, fisher_examples=8))
    separate = []
    for _ in range(3):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        method.finish_domain(finished(model, data))
        anchor = {name: p.detach().clone() for name, p in model.named_parameters()}
        separate.append((fisher_diagonal(model, data, "exact"), anchor))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.zero_grad()
    method.loss(model, None, None).backward()
    for name, parameter in model.named_parameters():
        if parameter.numel():
            expected = sum(3.0 * fisher[name] * (parameter - anchor[name]) for fisher, anchor in separate)
            torch.testing.assert_close(parameter.grad, expected, rtol=1e-3, atol=1e-7)


def test_a_strong_penalty_holds_the_weights(stream, tiny, short):
    moved = {}
    for strength in (0.0, 1e7):
        learner = make("EWC", tiny, short, strength=strength, fisher_examples=20)
        learner.adapt(stream[0])
        before = learner.trained().heads[0][3].weight.detach().clone()
        learner.adapt(stream[1])
        moved[strength] = (learner.trained().heads[0][3].weight - before).norm().item()
    assert moved[1e7] < 0.5 * moved[0.0]


# Averaging and moving average


def test_averaging_goes_halfway_and_leaves_what_grew(stream, tiny, short):
    plain, averaged = make("F+V", tiny, short), make("F+V+A", tiny, short)
    for learner in (plain, averaged):
        learner.adapt(stream[0])
    old = {name: p.detach().clone() for name, p in plain.trained().named_parameters()}
    for learner in (plain, averaged):
        learner.adapt(stream[1])
    new = dict(plain.trained().named_parameters())
    for name, parameter in averaged.trained().named_parameters():
        expected = new[name].detach().clone()
        old_part(expected, old[name].shape).lerp_(old[name], 0.5)
        torch.testing.assert_close(parameter.detach(), expected)
    assert averaged.history.stages[1].note["keep"] == 0.5


def test_the_largest_share_within_the_tolerance_is_chosen():
    figures = {0.0: Figure(0.80, 0.02), 0.5: Figure(0.795, 0.02), 0.9: Figure(0.78, 0.02), 0.6: Figure(float("nan"), 0)}
    assert choose_share(figures, tolerance=0.5) == 0.5
    assert choose_share(figures, tolerance=1.0) == 0.9
    assert choose_share({0.5: Figure(float("nan"), 0.0)}) == 0.0


def test_frozen_weights_keep_negative_zeros():
    old, new = {"w": torch.tensor([-0.0, 1.0])}, {"w": torch.tensor([-0.0, 1.0])}
    move_back(old, new, 0.5)
    assert torch.signbit(new["w"][0])


def test_auto_goes_back_no_further_than_validation_allows(stream, tiny, short):
    learner = make("F+V+A", tiny, short, keep="auto")
    learner.adapt(stream[0])
    stage = learner.adapt(stream[1])
    assert 0 <= stage.note["keep"] <= 0.9
    after = learner.evaluate(stream[1], "validation")[stream[1].name]
    assert after == pytest.approx(stage.note["validation_after_averaging"])


def test_the_moving_average_follows_its_definition():
    model = torch.nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    method = EMA(MethodSettings(smooth=0.9))
    method.start_domain(model, model, None)
    mean = None
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step()
        method.after_step(model, optimizer, batches=100)
        weight = model.weight.detach().clone()
        mean = weight if mean is None else 0.9 * mean + 0.1 * weight
    torch.testing.assert_close(method.evaluation_weights(model, optimizer)["weight"], mean)


@pytest.mark.parametrize("better", ["mean", "last"])
def test_auto_keeps_the_last_weights_only_where_validation_is_clearly_better(stream, tiny, short, better, monkeypatch):
    learner = make("F+V+E", tiny, short, smooth="auto")
    learner.adapt(stream[0])
    figures = {"mean": Figure(0.9 if better == "mean" else 0.2, 0.01), "last": Figure(0.5, 0.01)}
    told = iter(figures.values())
    monkeypatch.setattr("memgrow.methods.ema.Figure.of", lambda tally: next(told))
    assert learner.adapt(stream[1]).note["kept"] == better


# Distillation


def test_distillation_holds_the_old_outputs(stream, tiny, short):
    distance = {}
    for weight in (0.0, 100.0):
        learner = make("F+D", tiny, replace(short, epochs=4), distil=weight)
        learner.adapt(stream[0])
        texts = stream[1].train
        before = torch.tensor([list(one.probabilities.values()) for one in learner.predict(texts)])
        learner.adapt(stream[1])
        after = torch.tensor([list(one.probabilities.values()) for one in learner.predict(texts)])
        distance[weight] = (before - after).abs().mean().item()
    assert distance[100.0] < 0.7 * distance[0.0]


# On pretrained encoders


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> PretrainedSettings:
    return PretrainedSettings(encoder=str(make_encoder(tmp_path_factory.mktemp("encoder"), "bert")))


def test_lora_merges_into_weights_of_the_same_shape(encoder, stream, short):
    learner = Learner.create("LoRA", model=encoder, training=replace(short, rate=1e-2), device="cpu")
    learner.adapt(stream[0])
    names = list(learner.trained().state_dict())
    learner.adapt(stream[1])
    assert list(learner.trained().state_dict()) == names
    hooks = [hook for module in learner.trained().modules() for hook in module._forward_hooks.values()]
    assert not any(isinstance(hook, AdditionHook) for hook in hooks)


@pytest.mark.parametrize("projection", [0, 40])
def test_ridge_with_a_given_penalty_does_not_depend_on_the_order_of_domains(encoder, stream, short, projection):
    heads = []
    for order in (stream, stream[::-1]):
        options = MethodSettings(ridge=100.0, projection=projection)
        learner = Learner.create("ridge", model=encoder, training=short, options=options, device="cpu")
        learner.learn(Stream(order))
        heads.append(learner.trained().heads[0][-1].weight)
    heads = [head / head.norm() for head in heads]  # the scale of logits is the newest domain's
    torch.testing.assert_close(heads[0], heads[1], rtol=1e-3, atol=1e-5)


def test_ridge_learns_on_from_the_whole_matrix_that_earlier_versions_saved():
    torch.manual_seed(0)
    new = Sums.of(torch.randn(30, 4), torch.randint(2, (30,)), 2)
    method = Ridge(MethodSettings())
    method.load_state_dict({name: tensor.double() for name, tensor in vars(new).items()})
    packed = method.state_dict()
    assert packed["products"].shape == (10,)
    twin = Ridge(MethodSettings())
    twin.load_state_dict(packed)
    for ours, theirs in zip(twin.sums, new, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_ridge_learns_from_too_few_rows_to_hold_any_out(encoder, short):
    rows = [{"text": "a fine pan", "label": "good"}, {"text": "a dull rope", "label": "bad"}] * 2
    options = MethodSettings(projection=40)
    learner = Learner.create("ridge", model=encoder, training=short, options=options, device="cpu")
    assert learner.adapt(Domain.from_rows("few", rows, validation=rows, test=rows)).note["ridge"] == 1000.0
    assert learner.predict(["a fine pan"])[0].label == "good"


def test_the_penalty_with_the_least_error_is_chosen():
    for best in (1.0, 30.0, 1000.0, 3e4, 1e9):
        tried = []
        found = choose_penalty(lambda ridge, best=best, tried=tried: tried.append(ridge) or abs(log(ridge / best)))
        assert abs(log(found / max(1, min(best, 1e6)))) < log(10) / 4 + 1e-6
        assert len(set(tried)) == len(tried)
    assert choose_penalty(lambda ridge: nan) == 1000.0  # no row was held out


def test_random_features_separate_what_no_plane_separates():
    torch.manual_seed(0)
    x = torch.nn.functional.normalize(torch.randn(400, 6))
    labels = (x[:, 0] * x[:, 1] > 0).long()
    right = {}
    for name, layer in {"plain": torch.nn.Identity(), "random": RandomFeatures(6, 500, bias=False)}.items():
        features = layer(x).detach()
        head = solve(Sums.of(features[:300], labels[:300], 2), ridge=10.0)
        right[name] = (head.scores(features[300:]).argmax(1) == labels[300:]).double().mean()
    assert right["plain"] < 0.65
    assert right["random"] > 0.85


def test_ridge_solves_the_normal_equations():
    torch.manual_seed(0)
    x, labels = torch.randn(200, 5, dtype=torch.double), torch.randint(3, (200,))
    head = solve(Sums.of(x, labels, 3), ridge=1e-9)
    ones = torch.cat([x, torch.ones(200, 1, dtype=torch.double)], dim=1)
    expected = torch.linalg.lstsq(ones, torch.nn.functional.one_hot(labels, 3).double()).solution
    torch.testing.assert_close(head.weight, expected[:5].T, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(head.bias, expected[5], rtol=1e-5, atol=1e-7)


# Rehearsal


def test_rehearsal_mixes_rows_of_earlier_domains_and_keeps_them_with_the_model(stream, tiny, short, tmp_path):
    learner = make("rehearsal", tiny, short, rehearse=6, rehearsal_share=0.5)
    learner.adapt(stream[0], folder=tmp_path / "model")
    rows = learner.state.method_state.rows
    assert {name: len(kept) for name, kept in rows.items()} == {stream[0].name: 6}
    assert len(learner.state.method_state.extra_rows(48)) == 48
    assert Learner.load(tmp_path / "model", "cpu").state.method_state.rows == rows
    assert unpack_rows(pack_rows(rows)) == rows


def test_rows_are_drawn_equally_from_all_labels():
    labels = ["a"] * 90 + ["b"] * 8 + ["c"] * 2
    drawn = [labels[index] for index in draw_balanced(labels, 12, seed=1)]
    assert (drawn.count("a"), drawn.count("b"), drawn.count("c")) == (5, 5, 2)


# Names


def test_words_and_letters_name_the_same_methods():
    for words, letters in {
        "finetune": "F",
        "finetune+ema": "F+E",
        "finetune+slots+vocab": "F+M+V",
        "ewc+slots": "EWC+M",
        "lora+average": "LoRA+A",
        "FINETUNE+Distill": "f+d",
    }.items():
        assert find_method(words) == find_method(letters)
        assert find_method(letters).name == words.lower()
    for name in METHODS:
        assert find_method(find_method(name).letters) == find_method(name)


@pytest.mark.parametrize(
    ("name", "keyword"),
    [
        ("G", "no method"),
        ("F+X", "no method"),
        ("F+V+V", "already"),
        ("ridge+V", "takes no additions"),
        ("in-domain+A", "takes no additions"),
        ("F+H+A", "hidden"),
        ("EWC+H", "hidden"),
        ("frozen+H", "hidden"),
        ("F+M+Q", "no longer exists"),
    ],
)
def test_a_method_that_cannot_be_is_refused(name, keyword):
    with pytest.raises(SettingsError, match=keyword):
        find_method(name)


def test_models_of_retired_methods_go_on_without_them():
    assert find_method("EWC+M+V+Q", retired=True) == find_method("EWC+M+V")
    assert find_method("sparse+M", retired=True) == find_method("frozen+M")


def test_options_that_a_method_does_not_use_are_named():
    assert find_method("F+V").unread(MethodSettings(strength=1.0, slots=3)) == ["slots", "strength"]
    assert find_method("EWC+M").unread(MethodSettings(strength=1.0, slots=3)) == []


# A method from outside


class Anchor(Method):
    """Pulls every weight back to where the last domain left it."""

    def __init__(self, options):
        super().__init__(options)
        self.weights = {}

    def loss(self, model, batch, logits):
        if not self.weights:
            return None
        parameters = dict(model.named_parameters())
        moved = [(old_part(parameters[n], w.shape) - w).square().sum() for n, w in self.weights.items()]
        return self.options.strength / 2 * torch.stack(moved).sum()

    def finish_domain(self, domain):
        self.weights = {name: p.detach().clone() for name, p in domain.model.named_parameters()}
        return {"anchored": len(domain.data)}

    def state_dict(self):
        return self.weights

    def load_state_dict(self, state):
        self.weights = dict(state)


def test_a_method_of_ones_own_is_one_class(monkeypatch, tiny, tmp_path):
    monkeypatch.setitem(METHODS, "anchor", MethodSpec("anchor", "pulled back to the last weights", parts=(Anchor,)))
    stream = synthetic_stream(domains=2, train=48, validation=24, test=24)
    moved = {}
    for strength in (0.0, 1e3):
        options = MethodSettings(strength=strength)
        training = TrainingSettings(rate=0.01, epochs=2)
        learner = Learner.create("anchor+V", model=tiny, training=training, options=options, device="cpu")
        learner.adapt(stream[0], folder=tmp_path / str(strength))
        before = learner.trained().heads[0][3].weight.detach().clone()
        Learner.load(tmp_path / str(strength), "cpu")
        assert learner.adapt(stream[1]).note == {"anchored": 48}
        moved[strength] = (learner.trained().heads[0][3].weight - before).norm().item()
    assert moved[1e3] < 0.2 * moved[0.0]
