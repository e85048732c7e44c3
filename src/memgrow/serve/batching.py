"""Micro-batching: requests that arrive while a batch is computed are the next batch.

One worker thread computes. If the previous batch had several requests, the next one waits a few milliseconds for more;
a single client never waits.
"""

import asyncio
import heapq
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from starlette.exceptions import HTTPException

from memgrow.data import Example
from memgrow.serve.model import ServedModel
from memgrow.serve.settings import ServeSettings

LINGER_SECONDS = 0.002  # for more requests to arrive, if the previous batch had several


@dataclass(frozen=True)
class Answer:
    """A response body, and the model that it comes from."""

    body: bytes
    outputs: Sequence[dict[str, Any]]
    model: ServedModel


@dataclass(frozen=True)
class Request:
    """A request in the queue."""

    examples: Sequence[Example]
    explain: bool
    top_k: int | None
    answer: "Future[Answer]" = field(default_factory=Future)


class Batcher:
    """Computes requests in batches, each with the model that is current when the batch begins."""

    def __init__(
        self, current: Callable[[], ServedModel], settings: ServeSettings, on_batch: Callable[[int], None]
    ) -> None:
        """`on_batch` gets the number of requests of each batch."""
        self._current, self._settings, self._on_batch = current, settings, on_batch
        self._queue: deque[Request] = deque()
        self._pool = ThreadPoolExecutor(1, "batches")
        self._several = False  # requests in the previous batch

    def stop(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def submit(self, examples: Sequence[Example], *, explain: bool = False, top_k: int | None = None) -> Answer:
        """The response to some examples, once a batch with them has been computed."""
        if len(self._queue) >= self._settings.max_waiting:
            raise HTTPException(503, "too many requests are waiting: try again in a moment")
        request = Request(examples, explain, top_k)
        self._queue.append(request)
        self._pool.submit(self._next_batch)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(request.answer), self._settings.answer_seconds)
        except TimeoutError:
            seconds = f"{self._settings.answer_seconds:g} seconds"
            raise HTTPException(503, f"no answer within {seconds}: send less") from None

    # In the worker thread

    def _next_batch(self) -> None:
        """Compute what waits; called once for each request, so that most calls find nothing to do."""
        if self._queue and self._several:
            time.sleep(LINGER_SECONDS)
        if batch := self._take():
            self._several = len(batch) > 1
            self._on_batch(len(batch))
            self._compute(batch)

    def _take(self) -> list[Request]:
        """The next batch: either predictions or explanations. Requests that were given up are dropped."""
        batch: list[Request] = []
        texts = 0
        while self._queue and len(batch) < self._settings.max_batch:
            request = self._queue[0]
            texts += len(request.examples)
            if batch and (texts > self._settings.max_batch_texts or request.explain != batch[0].explain):
                break
            self._queue.popleft()
            if request.answer.set_running_or_notify_cancel():
                batch.append(request)
            else:
                texts -= len(request.examples)
        return batch

    def _compute(self, batch: Sequence[Request]) -> None:
        """The answer or the error of each request. One that fails spoils no other."""
        model, examples = self._current(), [example for request in batch for example in request.examples]
        try:
            outputs = map(model.explain, examples) if batch[0].explain else model.predict(examples)
            answers = [self._answer(model, request, outputs) for request in batch]
        except Exception as error:
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
            else:
                for request in batch:
                    self._compute([request])
            return
        for request, answer in zip(batch, answers, strict=True):
            request.answer.set_result(answer)

    def _answer(self, model: ServedModel, request: Request, outputs: Iterator[dict[str, Any]]) -> Answer:
        """Take the outputs of one request. JSON is made here, as it may be large, and not in the event loop."""
        limit = self._settings.max_probabilities
        top_k = max(1, min(request.top_k or limit, limit // len(request.examples)))
        own = [_most_probable(next(outputs), top_k) for _ in request.examples]
        content = own[0] if request.explain else {"predictions": own}
        return Answer(json.dumps({**model.identity, **content}).encode(), own, model)


def _most_probable(output: dict[str, Any], top_k: int) -> dict[str, Any]:
    probabilities = output.get("probabilities", {})
    if len(probabilities) <= top_k:
        return output
    best = heapq.nlargest(top_k, probabilities, key=probabilities.__getitem__)
    return {**output, "probabilities": {label: probabilities[label] for label in best}}
