"""LoRA: low-rank additions beside the layers of a pretrained encoder, merged when a domain has been learnt."""

import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from memgrow.methods.trains import new_names
from torch import nn

from memgrow.data import Stream
from memgrow.errors import SettingsError
from memgrow.learner import Learner
from memgrow.methods import METHODS, MethodSettings
from memgrow.methods.lora import ADDITIONS, SCALE, LowRank, LowRankAdditions, adapted_layers
from memgrow.models import PretrainedEncoder, PretrainedSettings
from memgrow.models.pretrained.files import read_encoder
from tests.support.breaking import LAST, Plug, PulledPlug, keep_epoch
from tests.support.tiny_encoder import FAMILIES, HIDDEN, LAYERS, make_encoder

RANK = 3
LAYERS_ADAPTED = {"bert": 4, "distilbert": 4, "roberta": 4, "modernbert": 3}  # in each layer of the Transformer


@pytest.fixture(scope="module", params=FAMILIES)
def family(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def encoder(family, tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp(family), family)


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("bert"))


def create(method: str, encoder: Path, short, **changes) -> Learner:
    return Learner.create(
        method,
        model=PretrainedSettings(encoder=str(encoder)),
        training=replace(short, new_rate=0.05, **changes),
        options=MethodSettings(rank=RANK, keep="auto"),
        device="cpu",
    )


@pytest.fixture
def learnt(encoder, short, stream) -> Learner:
    learner = create("LoRA", encoder, short)
    learner.adapt(stream[0])
    return learner


def train_additions(model: nn.Module) -> None:
    """As if they had been trained: `up` is no longer zero."""
    for addition in getattr(model, ADDITIONS):
        nn.init.normal_(addition.up, std=0.1)


def logits(learner: Learner, model, stream: Stream) -> torch.Tensor:
    return model.logits(learner.encode(stream[0].test))


def test_additions_change_no_bit_until_they_are_trained(learnt, family, stream):
    model = copy.deepcopy(learnt.classifier())
    before = logits(learnt, model, stream)
    LowRankAdditions(MethodSettings(rank=RANK)).before_training(model)
    assert len(getattr(model, ADDITIONS)) == LAYERS_ADAPTED[family] * LAYERS
    assert torch.equal(logits(learnt, model, stream), before)
    train_additions(model)
    assert not torch.allclose(logits(learnt, model, stream), before, atol=1e-3)


def test_merged_weights_are_the_old_ones_and_the_product_of_both_matrices(learnt, stream):
    model, plugin = copy.deepcopy(learnt.classifier()), LowRankAdditions(MethodSettings(rank=RANK))
    old = [layer.weight.detach().clone() for layer in adapted_layers(model)]
    names = list(model.state_dict())
    plugin.before_training(model)
    train_additions(model)
    additions, before = list(getattr(model, ADDITIONS)), logits(learnt, model, stream)
    plugin.after_training(learnt.classifier(), model)
    for weight, layer, one in zip(old, adapted_layers(model), additions, strict=True):
        assert isinstance(one, LowRank)
        expected = weight.double() + SCALE * one.up.double() @ one.down.double()
        torch.testing.assert_close(layer.weight.double(), expected, rtol=0, atol=1e-6)
    assert list(model.state_dict()) == names
    torch.testing.assert_close(logits(learnt, model, stream), before, rtol=1e-4, atol=1e-5)
    assert not any(module._forward_hooks for module in adapted_layers(model))


def test_only_weights_of_a_low_rank_move_and_the_head(learnt, stream):
    before = {name: tensor.clone() for name, tensor in learnt.classifier().state_dict().items()}
    layers = {id(layer.weight) for layer in adapted_layers(learnt.classifier())}
    adapted = {name for name, parameter in learnt.classifier().named_parameters() if id(parameter) in layers}
    stage = learnt.adapt(stream[1])
    for name, tensor in learnt.classifier().state_dict().items():
        moved = tensor - before[name]
        assert bool(moved.any()) == (name in adapted or name.startswith("heads.")), name
        if name in adapted:
            assert torch.linalg.matrix_rank(moved, rtol=1e-3) <= RANK < HIDDEN
    additions = sum(RANK * sum(layer.weight.shape) for layer in adapted_layers(learnt.classifier()))
    assert stage.trained == additions + sum(p.numel() for p in learnt.classifier().head_parameters())
    assert stage.note == {"rank": RANK}


def test_additions_move_at_the_new_rate(learnt):
    model = copy.deepcopy(learnt.classifier())
    LowRankAdditions(MethodSettings(rank=RANK)).before_training(model)
    names = {name for name, _ in model.named_parameters() if name.startswith((f"{ADDITIONS}.", "heads."))}
    assert set(METHODS["LoRA"].trains(learnt.classifier(), model).since) == names
    assert names <= new_names(learnt.classifier(), model)


def test_the_first_domain_is_learnt_as_by_f(bert, short, stream):
    learners = [create(method, bert, short) for method in ("F", "LoRA")]
    for learner in learners:
        learner.adapt(stream[0])
    for (name, ours), theirs in zip(
        learners[0].classifier().state_dict().items(), learners[1].classifier().state_dict().values(), strict=True
    ):
        assert torch.equal(ours, theirs), name


@pytest.mark.parametrize("method", ["LoRA", "LoRA+A", "LoRA+E", "LoRA+M"])
def test_a_killed_and_resumed_run_ends_with_the_same_bits(method, bert, short, stream, tmp_path, monkeypatch):
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", 0.0)
    whole, broken = (create(method, bert, short, epochs=3) for _ in range(2))
    for learner, folder in ((whole, "whole"), (broken, "broken")):
        learner.adapt(stream[0], folder=tmp_path / folder)
    keep_epoch(LAST, monkeypatch)
    whole.adapt(stream[1], folder=tmp_path / "whole")
    monkeypatch.undo()
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", 0.0)
    keep_epoch(LAST, monkeypatch)
    kills = 0
    while True:
        try:
            learner = Learner.load(tmp_path / "broken", device="cpu")
            learner.adapt(stream[1], folder=tmp_path / "broken", save_every=0.0, progress=Plug(2))
            break
        except PulledPlug:
            kills += 1
    assert kills > 2
    ours, theirs = Learner.load(tmp_path / "whole").classifier(), Learner.load(tmp_path / "broken").classifier()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for (name, one), other in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        assert torch.equal(one, other), name


def test_a_training_that_breaks_leaves_the_model_as_it_was(learnt, stream):
    names = list(learnt.classifier().state_dict())
    with pytest.raises(PulledPlug):
        learnt.adapt(stream[1], progress=Plug(0))
    assert list(learnt.classifier().state_dict()) == names
    assert not any(module._forward_hooks for module in adapted_layers(learnt.classifier()))


def test_recurrent_networks_and_no_rank_are_refused(tiny):
    with pytest.raises(SettingsError, match="give a pretrained encoder"):
        Learner.create("LoRA", model=tiny)
    with pytest.raises(SettingsError, match="rank must be at least 1"):
        MethodSettings(rank=0)


def test_additions_go_with_an_encoder_that_computes_in_bfloat16(bert, short, stream):
    learner = Learner.create(
        "LoRA",
        model=PretrainedSettings(encoder=str(bert), precision="bfloat16"),
        training=replace(short, new_rate=0.05),
        device="cpu",
    )
    learner.learn(stream[:2])  # weights are cast for the validation set, while the additions are still beside them
    assert learner.history.domains == stream.names[:2]


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta", "modernbert", "mpnet", "deberta-v2", "electra"])
def test_attention_and_perceptron_of_every_layer_get_additions(kind, tmp_path):
    made = PretrainedEncoder.create(PretrainedSettings(), 0, files=read_encoder(make_encoder(tmp_path / kind, kind)))
    holder = SimpleNamespace(encoder=made)
    names = {module: name for name, module in made.named_modules()}
    adapted = [names[layer] for layer in adapted_layers(holder)]
    assert sum(".att" in name and not name.endswith("output.dense") for name in adapted) in (
        len(made.layers),  # query, key and value are one
        2 * len(made.layers),
    )
    assert sum(".att" not in name for name in adapted) == 2 * len(made.layers)
