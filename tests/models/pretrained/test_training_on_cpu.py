"""What makes training on a CPU faster, against the plain way: the same bits where no weight of a table trains."""

import copy
import pickle
from dataclasses import replace

import pytest
import torch

from memgrow.data import synthetic_stream
from memgrow.learner import Learner
from memgrow.models import PretrainedSettings
from memgrow.models.pretrained import encoder
from memgrow.training.settings import TrainingSettings
from tests.support.tiny_encoder import make_encoder

TRAINING = TrainingSettings(epochs=2, batch=4, rate=1e-3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("encoder") / "bert")


def learnt(folder, method: str = "frozen+M") -> dict[str, torch.Tensor]:
    settings = PretrainedSettings(encoder=str(folder), precision="bfloat16")
    learner = Learner.create(method, model=settings, training=TRAINING, device="cpu")
    learner.learn([replace(domain, test=()) for domain in synthetic_stream(train=12, validation=4, test=0)][:2])
    return {name: tensor.clone() for name, tensor in learner.trained().state_dict().items()}


def test_frozen_weights_that_are_cast_once_give_the_bits_of_those_cast_in_each_step(folder, monkeypatch):
    expected = learnt(folder)
    monkeypatch.setattr(encoder.FrozenCopies, "of", lambda copies, parameter: parameter.detach().to(torch.bfloat16))
    for name, tensor in learnt(folder).items():
        assert torch.equal(tensor, expected[name]), name


def test_a_copy_of_frozen_numbers_is_made_anew_when_they_change_and_is_sent_to_nobody():
    copies, parameter = encoder.FrozenCopies(), torch.nn.Parameter(torch.ones(1000), requires_grad=False)
    first = copies.of(parameter)
    assert copies.of(parameter) is first
    with torch.no_grad():
        parameter.add_(1)
    assert (copies.of(parameter) == 2).all()
    parameter.data = torch.full((1000,), 3.0)
    assert (copies.of(parameter) == 3).all()
    assert len(pickle.dumps(copies)) < 1000
    copied = copy.deepcopy(copies)
    parameter.data.fill_(4)  # which nobody is told of
    assert (copied.of(parameter) == 4).all()


def test_what_is_written_past_torch_is_read_by_answers_at_once_and_by_steps_after_a_change_of_mode(folder):
    settings = PretrainedSettings(encoder=str(folder), precision="bfloat16", dropout=0.0)
    learner = Learner.create("frozen+M", model=settings, training=TRAINING, device="cpu")
    domain = replace(synthetic_stream(domains=1, train=12, validation=4, test=0)[0], test=())
    learner.adapt(domain)
    reader, texts = learner.trained().encoder, domain.train
    table = reader.backbone.get_input_embeddings().weight
    reader.backbone.requires_grad_(False)
    words, lengths = torch.arange(5, 17).view(2, 6), torch.tensor([6, 4])

    def stepped():
        return reader.train()(words, lengths).detach()

    before, answers = stepped(), [one.probabilities for one in learner.predict(texts)]
    assert torch.equal(stepped(), before)
    table.data.mul_(3)
    assert [one.probabilities for one in learner.predict(texts)] != answers
    assert not torch.equal(stepped(), before)
