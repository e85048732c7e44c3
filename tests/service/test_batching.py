"""Requests that arrive together are one batch, and nobody's answer depends on the company."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memgrow.data import Example, Stream
from memgrow.service.batching import Batcher
from memgrow.service.limits import Limits, RefusedError
from memgrow.service.published import Published


class Model:
    """Stands for a published model; it waits for a signal, and fails on a word."""

    version = 1

    def __init__(self) -> None:
        self.go, self.begun, self.batches = threading.Event(), threading.Event(), list[list[str]]()

    def answers(self, examples: Sequence[Example]) -> list[dict[str, Any]]:
        self.begun.set()
        assert self.go.wait(10)
        self.batches.append([example.text for example in examples])
        if any(example.text == "bad" for example in examples):
            raise RuntimeError("this one cannot be answered")
        return [{"label": example.text} for example in examples]


def run(model: Any, texts: Sequence[str], limits: Limits | None = None) -> list[Any]:
    """Ask for one text, and for the others while that one is being computed."""
    batcher = Batcher(lambda: model, limits or Limits())

    async def ask(text: str) -> Any:
        return await batcher.ask([Example(text)])

    async def together() -> list[Any]:
        first = asyncio.create_task(ask(texts[0]))
        await asyncio.to_thread(model.begun.wait, 10)
        others = [asyncio.create_task(ask(text)) for text in texts[1:]]
        await asyncio.sleep(0)
        model.go.set()
        return await asyncio.gather(first, *others, return_exceptions=True)

    batcher.start()
    try:
        return asyncio.run(together())
    finally:
        batcher.stop()


def test_what_waits_is_one_batch() -> None:
    model = Model()
    answers = run(model, [str(n) for n in range(10)], Limits(together=6))
    assert [answer[1][0]["label"] for answer in answers] == [str(n) for n in range(10)]
    assert [len(batch) for batch in model.batches] == [1, 6, 3]


def test_one_by_one_is_the_naive_twin() -> None:
    model = Model()
    run(model, [str(n) for n in range(5)], Limits(together=1))
    assert [len(batch) for batch in model.batches] == [1] * 5


def test_one_that_fails_spoils_no_other() -> None:
    answers = run(Model(), ["a", "b", "bad", "c"])
    assert [type(answer) for answer in answers] == [tuple, tuple, RuntimeError, tuple]


def test_more_than_may_wait_is_refused_with_a_sentence() -> None:
    answers = run(Model(), list("abcdef"), Limits(waiting=2))
    refused = [answer for answer in answers if isinstance(answer, RefusedError)]
    assert len(refused) == 3
    assert {one.status for one in refused} == {503}
    assert "try again" in str(refused[0])


def test_who_waits_too_long_is_told() -> None:
    class Slow(Model):
        def answers(self, examples: Sequence[Example]) -> list[dict[str, Any]]:
            threading.Event().wait(0.2)
            return super().answers(examples)

    (answer,) = run(Slow(), ["a"], Limits(answer_s=0.05))
    assert isinstance(answer, RefusedError)
    assert "seconds" in str(answer)


def test_answers_in_a_batch_are_those_of_each_alone(learnt_two: Path, stream: Stream) -> None:
    published = Published.load(learnt_two, "cpu")
    examples = [example for domain in stream for example in domain.test][:40]
    together = published.answers(examples)
    for example, found in zip(examples, together, strict=True):
        (alone,) = published.answers([example])
        assert found["label"] == alone["label"]
        assert found["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-6)


def test_what_nobody_waits_for_any_longer_is_not_computed() -> None:
    model = Model()
    batcher = Batcher(lambda: model, Limits(answer_s=0.05))  # type: ignore[arg-type, return-value]

    async def flood() -> Any:
        first = asyncio.create_task(batcher.ask([Example("first")]))
        await asyncio.to_thread(model.begun.wait, 10)
        others = [asyncio.create_task(batcher.ask([Example("late")])) for _ in range(20)]
        refused = await asyncio.gather(first, *others, return_exceptions=True)
        model.go.set()
        return refused, await batcher.ask([Example("next")])

    batcher.start()
    try:
        refused, answer = asyncio.run(flood())
    finally:
        batcher.stop()
    assert {type(one) for one in refused} == {RefusedError}
    assert answer == (1, [{"label": "next"}])
    assert model.batches == [["first"], ["next"]]
