"""Training in bfloat16 with all weights cast at once, against each of them cast by itself."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.func import functional_call

from memgrow.models import PretrainedEncoder, PretrainedSettings
from memgrow.models.hub import read_encoder
from memgrow.models.transformer import FrozenCopies, load_backbone, trained_in_bfloat16
from tests.support.tiny_encoder import FAMILIES, make_encoder

WORDS = torch.arange(2 * 6).view(2, 6)


@pytest.fixture(params=FAMILIES)
def backbone(request, tmp_path) -> nn.Module:
    files = read_encoder(make_encoder(tmp_path / "encoder", request.param))
    made = load_backbone(files, PretrainedSettings(encoder=files.name, dropout=0.0))
    next(made.parameters()).requires_grad_(False)  # of a model, some weights may be frozen
    return made


def gradients(backbone: nn.Module, states: torch.Tensor) -> dict[str, torch.Tensor | None]:
    moving = {name: parameter for name, parameter in backbone.named_parameters() if parameter.requires_grad}
    loss = states.float().square().sum()
    return dict(zip(moving, torch.autograd.grad(loss, list(moving.values()), allow_unused=True), strict=True))


def test_states_and_gradients_are_those_of_weights_cast_one_by_one(backbone):
    with trained_in_bfloat16(backbone):
        ours = backbone(input_ids=WORDS)[0]
    cast = {name: parameter.to(torch.bfloat16) for name, parameter in backbone.named_parameters()}
    theirs = functional_call(backbone, cast, kwargs={"input_ids": WORDS})[0]
    assert ours.dtype == torch.bfloat16
    assert torch.equal(ours, theirs)
    found, expected = gradients(backbone, ours), gradients(backbone, theirs)
    assert any(gradient is not None and gradient.any() for gradient in found.values())
    for name, gradient in found.items():
        if (other := expected[name]) is None:
            assert gradient is None, name
        else:
            assert gradient.dtype == torch.float32
            assert torch.equal(gradient, other), name


def test_a_weight_that_stands_in_two_places_gets_the_gradient_of_both():
    first, second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    second.weight = first.weight
    both, x = nn.Sequential(first, second), torch.randn(2, 3)
    with trained_in_bfloat16(both):
        both(x.bfloat16()).sum().backward()
    cast = first.weight.detach().bfloat16().requires_grad_()
    nn.functional.linear(nn.functional.linear(x.bfloat16(), cast), cast).sum().backward()
    assert torch.equal(first.weight.grad, cast.grad.float())


def test_a_table_whose_rows_are_cast_gives_the_same_states_and_the_gradients_in_float32(backbone):
    table = backbone.get_input_embeddings()
    table.weight.requires_grad_(True)
    with trained_in_bfloat16(backbone):
        whole = backbone(input_ids=WORDS % 3)[0]  # so that gradients of a row are summed
    with trained_in_bfloat16(backbone, table):
        rows = backbone(input_ids=WORDS % 3)[0]
    assert torch.equal(rows, whole)
    expected, found = gradients(backbone, whole), gradients(backbone, rows)
    name = next(name for name, parameter in backbone.named_parameters() if parameter is table.weight)
    of_table, other = found.pop(name), expected.pop(name)
    assert of_table.dtype == torch.float32
    assert not torch.equal(of_table, other)
    assert torch.allclose(of_table, other, rtol=0.05, atol=0.02 * float(other.abs().max()))
    for name, gradient in found.items():
        assert gradient is expected[name] is None or torch.equal(gradient, expected[name]), name
    assert backbone(input_ids=WORDS)[0].dtype == torch.float32


def test_copies_of_what_is_frozen_are_made_once_and_anew_after_a_write(backbone):
    copies = FrozenCopies()
    first = next(backbone.parameters())
    for number in range(3):
        with trained_in_bfloat16(backbone, frozen=copies):
            ours = backbone(input_ids=WORDS)[0]
        assert copies.of(first) is copies.of(first)
        with trained_in_bfloat16(backbone):
            assert torch.equal(ours, backbone(input_ids=WORDS)[0])
        with torch.no_grad():
            if number:
                first.data = first.data * 2
            else:
                first.add_(1)
    assert torch.equal(copies.of(first), first.detach().bfloat16())


def test_a_copied_model_has_no_copies_of_frozen_weights():
    copies, parameter = FrozenCopies(), nn.Parameter(torch.ones(1000), requires_grad=False)
    copies.of(parameter)
    assert len(pickle.dumps(copies)) < 1000
    copied = copy.deepcopy(copies)
    parameter.data.fill_(4)  # which torch does not count
    assert (copied.of(parameter) == 4).all()


def test_weights_written_past_torch_are_read_by_inference_at_once_and_by_steps_after_a_change_of_mode(tmp_path):
    files = read_encoder(make_encoder(tmp_path / "encoder"))
    encoder = PretrainedEncoder.create(PretrainedSettings(precision="bfloat16", dropout=0.0), files).train()
    encoder.backbone.requires_grad_(False)
    words, lengths = torch.arange(5, 17).view(2, 6), torch.tensor([6, 4])
    before = encoder(words, lengths).detach()
    with torch.no_grad():
        answers = encoder(words, lengths)
    encoder.backbone.get_input_embeddings().weight.data.mul_(3)
    with torch.no_grad():
        assert not torch.equal(encoder(words, lengths), answers)
    assert not torch.equal(encoder.eval().train()(words, lengths), before)
