"""Replies of a causal language model while they are written."""

import json

from starlette.testclient import TestClient

from memgrow.learner import Learner
from memgrow.models import CausalSettings
from memgrow.serve.app import create_app
from memgrow.serve.service import Service
from memgrow.serve.settings import ServeSettings
from memgrow.training.settings import TrainingSettings
from research.common.dialogues import synthetic_dialogue
from tests.support.tiny_causal import make_causal


def test_a_reply_is_streamed_in_pieces(tmp_path):
    settings = CausalSettings(encoder=str(make_causal(tmp_path / "tiny")))
    learner = Learner.create("lora", model=settings, training=TrainingSettings(epochs=1), device="cpu", task="reply")
    learner.adapt(synthetic_dialogue(domains=1, train=24, validation=8, test=8)[0], folder=tmp_path / "served")
    service = Service(tmp_path / "served", ServeSettings(device="cpu"))
    with TestClient(create_app(service), "http://127.0.0.1") as client:
        check_stream(client)


def check_stream(client):
    body = {"input": "where is the lamp", "max_tokens": 8}
    answer = client.post("/stream", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *pieces, last = [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line]
    (whole,) = client.post("/predict", json={"inputs": ["where is the lamp"]}).json()["predictions"]
    assert whole["reply"].startswith(last["reply"][:3])
    assert last["reply"].startswith("".join(piece["text"] for piece in pieces))
    assert len(pieces) > 1
    assert client.post("/stream", json={**body, "top_p": 2}).status_code == 422
    assert client.post("/stream", json={"input": " "}).status_code == 422


def test_models_of_labels_do_not_stream(serve):
    answer = serve().client.post("/stream", json={"input": "a"})
    assert (answer.status_code, "stream" in answer.json()["detail"]) == (400, True)
