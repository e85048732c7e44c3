"""Answers to many texts at once, in batches of so many pieces, are those to each text by itself."""

import pytest
import torch

from memgrow.data.batches import collate
from memgrow.learner import Learner
from memgrow.models import PretrainedSettings
from memgrow.models.pretrained import encoder
from memgrow.training.settings import TrainingSettings
from tests.support.tiny_encoder import FAMILIES, make_encoder

TOLERANCE = {"float32": 1e-5, "bfloat16": 2e-2}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("precision", TOLERANCE)
def test_all_texts_at_once_answer_as_each_by_itself(family, precision, stream, tmp_path, monkeypatch):
    settings = PretrainedSettings(
        encoder=str(make_encoder(tmp_path / family, family)), slots=4, best=4, precision=precision
    )
    learner = Learner.create("F", model=settings, training=TrainingSettings(epochs=1, rate=1e-3), device="cpu")
    learner.adapt(stream[0])
    model, data = learner.classifier().eval(), learner.encode(stream[0].test)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        batches = [collate(data, [index], learner.device) for index in range(len(data))]
        alone = torch.cat([model(batch.words, batch.lengths) for batch in batches])
    tolerance = TOLERANCE[precision]
    for pieces in (50, 1 << 10):
        monkeypatch.setitem(encoder.AT_ONCE, "cpu", pieces)
        together = model.logits(data)
        assert together.dtype == torch.float32
        torch.testing.assert_close(together, alone, rtol=tolerance, atol=tolerance)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), f"{name} was cast for an answer and not put back"


def test_no_texts_have_no_answers(stream, tmp_path):
    learner = Learner.create("F", encoder=make_encoder(tmp_path), training=TrainingSettings(epochs=1), device="cpu")
    learner.adapt(stream[0])
    assert learner.predict([]) == []
