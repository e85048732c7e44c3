"""Predictions, explanations, the model card, and batches."""

import asyncio
import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from memgrow.data import Example, Stream
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import PretrainedSettings
from memgrow.serve.batching import Batcher
from memgrow.serve.model import ServedModel
from memgrow.serve.settings import ServeSettings
from memgrow.training.settings import TrainingSettings
from tests.serve.conftest import PAIR, Serve, upload, wait
from tests.support.tiny_encoder import make_encoder


def test_predictions_are_those_of_the_learner(serve: Serve) -> None:
    served = serve()
    (expected,) = served.service.publisher.current.learner.predict([(PAIR["premise"], PAIR["hypothesis"])])
    answer = served.client.post("/predict", json={"inputs": [PAIR, "\t".join(PAIR.values())]}).json()
    assert answer["version"] == 2
    assert len(answer["digest"]) == 16
    for found in answer["predictions"]:
        assert found["label"] == expected.label
        assert found["probabilities"] == pytest.approx(expected.probabilities, abs=1e-6)


@pytest.mark.parametrize("independent", [False, True])
def test_a_domain_memory_is_served_and_extended(
    serve: Serve, folder: Path, stream: Stream, third: bytes, in_process: None, tmp_path: Path, independent: bool
) -> None:
    shutil.rmtree(folder)
    options = MethodSettings(independent=independent, read_entries="always")
    model = PretrainedSettings(encoder=str(make_encoder(tmp_path / "encoder")))
    learner = Learner.create("lora+memory", model=model, training=TrainingSettings(epochs=1), options=options)
    learner.learn(list(stream)[:2], folder=folder)
    served = serve()
    (expected,) = learner.predict([(PAIR["premise"], PAIR["hypothesis"])])
    (found,) = served.client.post("/predict", json={"inputs": [PAIR]}).json()["predictions"]
    assert found["probabilities"] == pytest.approx(expected.probabilities, abs=1e-6)
    job = upload(served.client, third).json()
    assert wait(served.client, job["job"])["state"] == "published"
    card = served.client.get("/model")
    assert card.json()["domains"] == [*learner.history.domains, "new"]
    assert (card.json()["encoder"], str(tmp_path) in card.text) == ("encoder", False)


def test_an_explanation_shares_the_attention_of_each_word_among_domains(serve: Serve) -> None:
    answer = serve().client.post("/explain", json={"input": PAIR}).json()
    assert [word["word"] for word in answer["words"]] == " ".join(PAIR.values()).split()
    assert {word["text"] for word in answer["words"]} == {0, 1}
    for word in answer["words"]:
        assert sum(word["shares"]) == pytest.approx(1.0, abs=1e-5)
        assert len(word["shares"]) == len(answer["domains"])
    assert answer["label"] in answer["probabilities"]


def test_card_and_health(serve: Serve, two_domains: str) -> None:
    client = serve().client
    card, history = client.get("/model").json(), Learner.load(two_domains, "cpu").history
    assert (card["kind"], card["task"], card["method"], card["version"]) == (
        "classifier",
        "pair",
        "finetune+slots+vocab",
        2,
    )
    assert card["domains"] == list(history.domains)
    assert [one["number"] for one in card["versions"]] == [2, 1]
    assert card["matrix"] == history.matrix.to_json()
    assert client.get("/health").json() == {"status": "ok", "version": 2, "digest": card["digest"]}
    assert "/predict" in client.get("/openapi.json").json()["paths"]


def test_probabilities_in_a_response_are_limited(serve: Serve) -> None:
    client = serve(max_probabilities=4).client

    def probabilities(**body: Any) -> list[dict[str, float]]:
        return [one["probabilities"] for one in client.post("/predict", json=body).json()["predictions"]]

    (whole,) = probabilities(inputs=[PAIR])
    assert len(whole) == 3
    best = sorted(whole.values(), reverse=True)
    assert [list(one.values()) for one in probabilities(inputs=[PAIR] * 2)] == [pytest.approx(best[:2])] * 2
    assert [len(one) for one in probabilities(inputs=[PAIR] * 9)] == [1] * 9
    assert [len(one) for one in probabilities(inputs=[PAIR], top_k=2)] == [2]
    assert len(client.post("/explain", json={"input": PAIR, "top_k": 1}).json()["probabilities"]) == 1


class Model:
    """In place of a served model: it waits for a signal, and fails on a word."""

    def __init__(self) -> None:
        self.identity = {"version": 1, "digest": "d"}
        self.go, self.begun, self.batches = threading.Event(), threading.Event(), list[list[str]]()

    def predict(self, examples: Sequence[Example]) -> Iterator[dict[str, Any]]:
        if not examples:
            return
        self.begun.set()
        assert self.go.wait(10)
        self.batches.append([example.text for example in examples])
        if any(example.text == "bad" for example in examples):
            raise RuntimeError("this one cannot be answered")
        yield from ({"label": example.text} for example in examples)

    def explain(self, example: Example) -> dict[str, Any]:
        return {"label": f"why {example.text}"}


def run(model: Any, texts: Sequence[str], **limits: Any) -> list[Any]:
    """Submit one text, and the others while it is being computed; labels or exceptions come back."""

    async def main() -> list[Any]:
        batcher = Batcher(lambda: model, ServeSettings(**limits), lambda size: None)

        async def submit(text: str) -> str:
            answer = await batcher.submit([Example(text)], explain=text == "explain")
            found = json.loads(answer.body)
            return str(found["label"] if "label" in found else found["predictions"][0]["label"])

        try:
            first = asyncio.create_task(submit(texts[0]))
            await asyncio.to_thread(model.begun.wait, 10)
            others = [asyncio.create_task(submit(text)) for text in texts[1:]]
            await asyncio.sleep(0.15)
            model.go.set()
            return await asyncio.gather(first, *others, return_exceptions=True)
        finally:
            batcher.stop()

    return asyncio.run(main())


@pytest.mark.parametrize(("together", "sizes"), [(6, [1, 6, 3]), (1, [1] * 10)])
def test_waiting_requests_are_one_batch(together: int, sizes: list[int]) -> None:
    model, texts = Model(), [str(number) for number in range(10)]
    assert run(model, texts, max_batch=together) == texts
    assert [len(batch) for batch in model.batches] == sizes


def test_a_request_that_fails_spoils_no_other() -> None:
    answers = run(Model(), ["a", "b", "bad", "explain", "c"])
    assert isinstance(answers.pop(2), RuntimeError)
    assert answers == ["a", "b", "why explain", "c"]


def test_requests_beyond_the_queue_are_refused() -> None:
    refused = [one for one in run(Model(), list("abcdef"), max_waiting=2) if isinstance(one, HTTPException)]
    assert [one.status_code for one in refused] == [503] * 3


def test_requests_that_were_given_up_are_not_computed() -> None:
    model = Model()
    answers = run(model, list("abcdef"), answer_seconds=0.05)
    assert {type(one) for one in answers} == {HTTPException}
    assert model.batches == [["a"]]


def test_a_batch_gives_the_same_as_single_requests(two_domains: Any, stream: Stream) -> None:
    model = ServedModel.load(two_domains, ServeSettings(device="cpu"))
    examples = [example for domain in stream for example in domain.test][:40]
    for example, found in zip(examples, model.predict(examples), strict=True):
        (alone,) = model.predict([example])
        assert found["label"] == alone["label"]
        assert found["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-6)


def test_responses_are_serialized_off_the_event_loop(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def dumps(value: Any) -> str:
        threads.append(threading.current_thread().name)
        return json.dumps(value)

    monkeypatch.setattr("memgrow.serve.batching.json", SimpleNamespace(dumps=dumps))
    assert serve().client.post("/predict", json={"inputs": [PAIR]}).status_code == 200
    assert [name.startswith("batches") for name in threads] == [True]
