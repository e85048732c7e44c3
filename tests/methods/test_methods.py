"""Each method's own mathematics, and the names of methods."""

import copy
import json
from dataclasses import replace
from math import log, nan
from types import SimpleNamespace

import pytest
import torch

from memgrow.data import Domain, Stream, synthetic_stream
from memgrow.data.batches import collate, encode, tokenize_examples
from memgrow.errors import ModelError, SettingsError
from memgrow.learner import Learner
from memgrow.methods import METHODS, FinishedDomain, Method, MethodSettings, MethodSpec, find_method
from memgrow.methods.average import Figure, choose_share, move_back
from memgrow.methods.base import old_part
from memgrow.methods.distill import Distillation
from memgrow.methods.ema import EMA
from memgrow.methods.ewc import EWC, ModeIMM, fisher_diagonal
from memgrow.methods.gem import correction
from memgrow.methods.icarl import herd
from memgrow.methods.lora import AdditionHook
from memgrow.methods.rehearsal import draw_balanced, pack_rows, unpack_rows
from memgrow.methods.ridge import Ridge, Sums, _vectors, choose_penalty, solve
from memgrow.methods.si import SynapticIntelligence
from memgrow.models import PretrainedSettings
from memgrow.models.classifier import RandomFeatures
from memgrow.training.settings import TrainingSettings
from tests.support.stored import change, stored
from tests.support.tiny_encoder import make_encoder


def make(method, tiny, short, **options) -> Learner:
    return Learner.create(method, model=tiny, training=short, options=MethodSettings(**options), device="cpu")


def finished(model, data, seed=0) -> FinishedDomain:
    return FinishedDomain(None, model, data, data, (), {}, lambda _: [], seed)


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
    first, moved = make("EWC", tiny, short, fisher_examples=10), {}
    first.adapt(stream[0])
    before = first.trained().heads[0][3].weight.detach().clone()
    for strength in (0.0, 1e7):
        learner = copy.deepcopy(first)
        learner.use("EWC", MethodSettings(strength=strength, fisher_examples=1))
        learner.adapt(stream[1])
        moved[strength] = (learner.trained().heads[0][3].weight - before).norm().item()
    assert moved[1e7] < 0.5 * moved[0.0]


# Synaptic intelligence, moment matching, progress & compress


def test_the_path_integral_of_a_quadratic_is_the_loss_that_each_weight_has_taken_away():
    curvature, model = torch.tensor([4.0, 1.0, 0.0]), torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    optimizer, method = torch.optim.SGD(model.parameters(), lr=0.001), SynapticIntelligence(MethodSettings())
    method.start_domain(None, model, None)
    start = model.weight.detach().clone()
    for _ in range(700):
        assert method.loss(model, None, None) is None
        optimizer.zero_grad()
        (curvature * model.weight.square()).sum().div(2).backward()
        optimizer.step()
        method.after_step(model, optimizer, 1)
    (path,) = model.path.buffers()
    lost = curvature * (start.square() - model.weight.detach().square()) / 2
    torch.testing.assert_close(path, lost, rtol=5e-3, atol=1e-6)
    method.finish_domain(finished(model, ()))
    expected = lost / ((model.weight.detach() - start).square() + 1e-3)
    torch.testing.assert_close(method.fisher["weight"], expected, rtol=5e-3, atol=1e-6)
    with torch.no_grad():
        model.weight += 1
    assert method.loss(model, None, None).item() == pytest.approx(method.fisher["weight"].sum().item())
    assert not list(model.children())


def test_the_penalty_is_no_part_of_the_path():
    integrals = []
    for strength in (0.0, 5.0):
        model = torch.nn.Module()
        model.weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
        method = SynapticIntelligence(MethodSettings(si_strength=strength))
        method.load_state_dict({"fisher/weight": torch.ones(2), "centre/weight": torch.zeros(2)})
        method.start_domain(model, model, None)
        (model.weight.square().sum() + method.loss(model, None, None)).backward()
        with torch.no_grad():
            model.weight -= 0.1
        method.after_step(model, None, 1)
        integrals.append(next(model.path.buffers()))
    torch.testing.assert_close(*integrals)


def test_the_path_takes_gradients_before_they_are_clipped_and_no_importance_is_negative():
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.tensor([3.0, -4.0]))
    method = SynapticIntelligence(MethodSettings(si_strength=2.0))
    method.load_state_dict({"fisher/weight": torch.zeros(2), "centre/weight": torch.zeros(2)})
    method.fisher["weight"] += 5.0
    method.start_domain(model, model, None)
    (model.weight.square().sum() + method.loss(model, None, None)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    with torch.no_grad():
        model.weight += torch.tensor([-0.5, -0.5])
    method.after_step(model, None, 1)
    torch.testing.assert_close(next(model.path.buffers()), torch.tensor([3.0, -4.0]))  # 2 * weight * 0.5
    method.finish_domain(finished(model, ()))
    torch.testing.assert_close(method.fisher["weight"], torch.tensor([5 + 3.0 / (0.25 + 1e-3), 5.0]))
    assert not model.weight._post_accumulate_grad_hooks


def test_moments_are_matched_at_the_mode_of_the_product_of_gaussians(elastic, data):
    """Of N(m, 1/f) and N(n, 1/g) it is (f m + g n) / (f + g)."""
    torch.manual_seed(0)
    model, method = copy.deepcopy(elastic.trained()), ModeIMM(MethodSettings(fisher_examples=8))
    sums, weighted = {}, {}
    for _ in range(3):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        assert method.loss(model, None, None) is None
        learned = {name: p.detach().clone() for name, p in model.named_parameters()}
        for name, fisher in fisher_diagonal(model, data, "exact").items():
            sums[name] = sums.get(name, 0) + fisher
            weighted[name] = weighted.get(name, 0) + fisher * learned[name]
        method.finish_domain(finished(model, data))
    for name, parameter in model.named_parameters():
        if parameter.numel() and (known := sums[name] > 1e-9).any():
            expected = weighted[name][known] / sums[name][known]
            torch.testing.assert_close(parameter.detach()[known], expected, rtol=1e-3, atol=1e-4)


def test_compression_stays_near_the_old_weights_and_answers_like_the_new_ones(stream, tiny, short):
    moved, agreement = {}, {}
    options = MethodSettings(compress_epochs=20, fisher_decay=1.0, fisher_examples=10)
    first = Learner.create("progress-compress", model=tiny, training=replace(short, epochs=4), options=options)
    first.adapt(stream[0])
    before = first.trained().heads[0][3].weight.detach().clone()
    plain = copy.deepcopy(first)
    plain.use("finetune")
    plain.adapt(stream[1])
    for strength in (0.0, 1e7):
        learner = copy.deepcopy(first)
        learner.use("progress-compress", replace(options, strength=strength))
        note = learner.adapt(stream[1]).note
        assert note["validation_after_compression"] == learner.evaluate(stream[1], "validation")[stream[1].name]
        moved[strength] = (learner.trained().heads[0][3].weight - before).norm().item()
        active, kept = ([one.label for one in each.predict(stream[1].train)] for each in (plain, learner))
        agreement[strength] = sum(map(str.__eq__, active, kept)) / len(kept)
    assert moved[1e7] < 0.5 * moved[0.0]
    assert agreement[0.0] > 0.8


def test_compression_starts_from_the_old_weights_and_its_penalty_is_around_the_latest_ones(stream, tiny, short):
    learner = make("progress-compress", tiny, short, compress_rate=1e-12, compress_epochs=1, fisher_examples=8)
    learner.adapt(stream[0])
    before = {name: p.detach().clone() for name, p in learner.trained().named_parameters()}
    learner.adapt(stream[1])
    after, method = dict(learner.trained().named_parameters()), learner.state.method_state.parts[0]
    for name, weight in before.items():
        torch.testing.assert_close(old_part(after[name].detach(), weight.shape), weight)
    with torch.no_grad():
        for parameter in after.values():
            parameter.add_(0.1)
    torch.manual_seed(0)
    model, data = learner.trained(), learner.encode(stream[2].train[:8])
    total = {name: 0.9 * one for name, one in method.fisher.items()}
    method.finish_domain(replace(finished(model, data), domains=(stream[2],)))
    for name, one in fisher_diagonal(model, data, "exact").items():
        torch.testing.assert_close(method.fisher[name], one + total[name], rtol=1e-4, atol=1e-9)
        assert torch.equal(method.center[name], after[name])


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


def test_entropy_pulls_outputs_towards_equal_probabilities():
    logits = torch.tensor([[2.0, 0.0, -1.0]], requires_grad=True)
    method = Distillation(MethodSettings(entropy=0.5))
    method.loss(None, None, logits).backward()
    probabilities = logits.detach().softmax(-1)
    entropy = -(probabilities * probabilities.log()).sum()
    expected = 0.5 * probabilities * (probabilities.log() + entropy)  # of - entropy
    torch.testing.assert_close(logits.grad, expected)
    assert Distillation(MethodSettings()).loss(None, None, logits) is None


def test_distillation_is_the_divergence_at_the_temperature_over_old_labels():
    torch.manual_seed(0)
    old, new = torch.randn(2, 2), torch.randn(2, 3)
    method = Distillation(MethodSettings(distil=3.0, temperature=2.0))
    method.targets = (old / 2).softmax(-1)
    wanted, found = method.targets[[1, 0]], (new[:, :2] / 2).softmax(-1)
    expected = 3 * 4 * (wanted * (wanted / found).log()).sum(-1).mean()
    torch.testing.assert_close(method.loss(None, SimpleNamespace(examples=torch.tensor([1, 0])), new), expected)


def test_distillation_holds_the_old_outputs(stream, tiny, short):
    first, texts, distance = make("F+D", tiny, replace(short, epochs=4)), stream[1].train, {}
    first.adapt(stream[0])
    before = torch.tensor([list(one.probabilities.values()) for one in first.predict(texts)])
    for weight in (0.0, 100.0):
        learner = copy.deepcopy(first)
        learner.use("F+D", MethodSettings(distil=weight))
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


def test_a_folder_with_another_number_of_random_features_is_refused(encoder, stream, short, tmp_path):
    learner = Learner.create("ridge", model=encoder, training=short, options=MethodSettings(projection=9), device="cpu")
    learner.adapt(stream[0], folder=tmp_path / "model")
    config = json.loads((stored(tmp_path / "model") / "config.json").read_text())
    for projection in (10**12, 8, "9"):
        config["shape"]["projection"] = projection
        change(tmp_path / "model", "config.json", config)
        with pytest.raises(ModelError, match="random features"):
            Learner.load(tmp_path / "model", "cpu")


def test_a_penalty_is_judged_by_rows_that_are_held_out_and_features_are_random(encoder, stream, short, monkeypatch):
    judges = []
    monkeypatch.setattr("memgrow.methods.ridge.choose_penalty", lambda error: judges.append(error) or 7.0)
    learner = make("ridge", encoder, short, projection=40)
    assert learner.adapt(stream[0]).note == {"ridge": 7.0, "projection": 40}
    assert MethodSettings().projection == 5000
    model, data = learner.classifier(), learner.encode(stream[0].train)
    with torch.no_grad():
        x = model.heads[0][:-1](_vectors(model, data, lambda done, total: None))
    held_out, labels = torch.arange(len(x)) % 5 == 4, torch.tensor(data.labels)
    head = solve(Sums.of(x[~held_out], labels[~held_out], model.labels), 7.0)
    right = torch.nn.functional.one_hot(labels[held_out], model.labels)
    expected = (head.scores(x[held_out]) - right).square().mean().item()
    assert judges[0](7.0) == pytest.approx(expected, rel=1e-4)
    weight = solve(Sums.of(x, labels, model.labels), 7.0).weight  # of all rows
    found = model.heads[0][-1].weight
    torch.testing.assert_close(found / found.norm(), weight / weight.norm(), rtol=1e-3, atol=1e-5)


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
    torch.testing.assert_close(layer(3 * x), layer(x))  # of the direction alone
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


def test_a_corrected_gradient_raises_no_old_loss_and_is_the_nearest_such():
    torch.manual_seed(0)
    for count in (1, 2, 5, 5, 5):
        old, new = torch.randn(count, 8, dtype=torch.double), torch.randn(8, dtype=torch.double)
        old -= new  # so that most constraints are active, and alike
        turn = correction(new, old)
        assert (old @ (new + turn)).min() > -1e-9
        # Optimal: orthogonal to itself, so that what is left is a projection onto a convex cone.
        assert abs(float(turn @ (new + turn))) < 1e-9
        agrees = new + correction(new, old)
        assert correction(agrees + 1e-6 * turn, old).norm() < 1e-6


@pytest.mark.parametrize(("method", "constraints"), [("gem", 2), ("a-gem", 1)])
def test_steps_never_go_against_rows_of_earlier_domains(stream, tiny, short, method, constraints):
    learner = make(method, replace(tiny, dropout=0.0), short, rehearse=6)
    for domain in stream[:2]:
        learner.adapt(domain)
    part, model = copy.deepcopy(learner.state.method_state.parts[0]), copy.deepcopy(learner.trained()).train()
    rows = part.extra_rows(len(stream[2].train))
    assert [*rows] == [row for kept in part.rows.values() for row in kept]
    data = learner.encode([*stream[2].train, *rows])
    part.start_domain(model, model, data)
    assert len(data) == len(stream[2].train), "rows are not trained on"
    kept = [*part.rows.values()] if method == "gem" else [part.kept]
    assert len(part.constraints) == constraints
    assert [[*one.texts] for one in part.constraints] == [[*learner.encode(rows).texts] for rows in kept]
    parameters = [p for p in model.parameters() if p.numel()]
    turned = 0
    for first in range(0, 48, 12):  # as many as there are rows, so that all of these are read
        batch = collate(data, range(first, first + 12), model.device)
        output = model.training_step(batch)
        extra = part.loss(model, batch, output.logits)
        turned += extra is not None
        found = torch.autograd.grad(output.loss if extra is None else output.loss + extra, parameters)
        for group in part.constraints:
            old = model.training_step(collate(group, range(len(group)), model.device)).loss
            products = zip(found, torch.autograd.grad(old, parameters), strict=True)
            assert sum(float((ours * theirs).sum()) for ours, theirs in products) > -1e-6
    assert turned


@pytest.mark.parametrize("method", ["gem", "a-gem", "rehearsal"])
def test_a_model_may_begin_to_keep_rows_later(stream, tiny, short, method):
    learner = make("finetune", tiny, short, rehearse=6)
    learner.adapt(stream[0])
    learner.use(method)
    for domain in stream[1:]:
        learner.adapt(domain)
    assert [*learner.state.method_state.rows] == [domain.name for domain in stream[1:]]


def test_herding_picks_what_keeps_the_mean():
    """Around the mean 0: first the nearest, then what balances it."""
    features = torch.tensor([[3.0, 0], [1, 0], [-1.5, 0], [-2.5, 0], [0, 0.1], [0, -0.1]])
    features -= features.mean(0)
    assert herd(features, 2) == [4, 5]
    assert herd(features, 4)[2:] == [1, 2]
    assert sorted(herd(features, 99)) == [0, 1, 2, 3, 4, 5]
    features = features + torch.tensor([5.0, 0.0])
    chosen = herd(features, 6)
    for count in range(6):
        means = {one: features[[*chosen[:count], one]].mean(0) for one in range(6) if one not in chosen[:count]}
        assert chosen[count] == min(means, key=lambda one, means=means: (means[one] - features.mean(0)).norm())


def test_icarl_answers_with_the_nearest_mean_of_its_rows(stream, tiny, short):
    learner = make("icarl", replace(tiny, dropout=0.0), short, rehearse=6)
    for domain in stream[:2]:
        learner.adapt(domain)
    model, kept = learner.trained().eval(), learner.state.method_state.rows
    assert {name: len(rows) for name, rows in kept.items()} == {domain.name: 6 for domain in stream[:2]}

    def features(examples):
        batch = collate(learner.encode(examples), range(len(examples)), model.device)
        return torch.nn.functional.normalize(
            model.heads[0][:-1](model.features(model.encoder(batch.words, batch.lengths)))
        )

    rows = [row for examples in kept.values() for row in examples]
    with torch.no_grad():
        vectors, asked = features(rows), features(stream[1].test)
        means = torch.stack([vectors[[row.label == label for row in rows]].mean(0) for label in learner.labels])
    nearest = torch.cdist(asked, torch.nn.functional.normalize(means)).argmin(1).tolist()
    assert [one.label for one in learner.predict(stream[1].test)] == [learner.labels[one] for one in nearest]
    herded = []
    for label in learner.labels:
        same = [row for row in stream[1].train if row.label == label]
        herded += [same[one] for one in herd(features(same).detach(), 6 // len(learner.labels))]
    assert [row.texts for row in kept[stream[1].name]] == [row.texts for row in herded]


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
