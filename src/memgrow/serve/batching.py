"""Micro-batching: requests that arrive while a batch is computed are the next batch.

One worker thread computes, all else happens in the event loop. After a batch of several requests the next one waits a
few milliseconds for more; a single client never waits.
"""

import asyncio
import heapq
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
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
    answer: "asyncio.Future[Answer]"


class Batcher:
    """Computes requests in batches, each with the model that is current when the batch begins."""

    def __init__(
        self, current: Callable[[], ServedModel], settings: ServeSettings, on_batch: Callable[[int], None]
    ) -> None:
        """`on_batch` gets the number of requests of each batch."""
        self._current, self._settings, self._on_batch = current, settings, on_batch
        self._queue: deque[Request] = deque()
        self._pool = ThreadPoolExecutor(1, "batches")
        self._is_busy = False

    def stop(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def submit(self, examples: Sequence[Example], *, explain: bool = False, top_k: int | None = None) -> Answer:
        """The response to some examples, once a batch with them has been computed."""
        if len(self._queue) >= self._settings.max_waiting:
            raise HTTPException(503, "too many requests are waiting: try again in a moment")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._queue.append(Request(examples, explain, top_k, answer))
        if not self._is_busy:
            self._next_batch()
        try:
            return await asyncio.wait_for(answer, self._settings.answer_seconds)
        except TimeoutError:
            seconds = f"{self._settings.answer_seconds:g} seconds"
            raise HTTPException(503, f"no answer within {seconds}: send less") from None

    async def stream(self, example: Example, **sampling: Any) -> AsyncIterator[str]:
        """The reply to a message as events, while it is written. It takes its turn with the batches."""
        loop, pieces = asyncio.get_running_loop(), asyncio.Queue[str | None]()

        def put(piece: str | None) -> None:
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

        model = self._current()
        work = loop.run_in_executor(self._pool, model.stream, example, put, sampling)
        while (piece := await pieces.get()) is not None:
            yield f"data: {json.dumps({'text': piece})}\n\n"
        yield f"data: {json.dumps({**model.identity, **await work})}\n\n"

    def _next_batch(self) -> None:
        self._is_busy = bool(batch := self._take())
        if batch:
            self._on_batch(len(batch))
            computed = asyncio.get_running_loop().run_in_executor(self._pool, self._compute, batch)
            computed.add_done_callback(partial(self._deliver, batch))

    def _deliver(self, batch: Sequence[Request], computed: "asyncio.Future[list[Answer | Exception]]") -> None:
        if computed.cancelled():
            return  # the service ends
        for request, answer in zip(batch, computed.result(), strict=True):
            if request.answer.done():  # given up meanwhile
                continue
            if isinstance(answer, Exception):
                request.answer.set_exception(answer)
            else:
                request.answer.set_result(answer)
        asyncio.get_running_loop().call_later(LINGER_SECONDS if len(batch) > 1 else 0, self._next_batch)

    def _take(self) -> list[Request]:
        """The next batch: either predictions or explanations. Requests that were given up are dropped."""
        batch: list[Request] = []
        texts = 0
        while self._queue and len(batch) < self._settings.max_batch:
            request = self._queue[0]
            if not request.answer.done():
                texts += len(request.examples)
                if batch and (texts > self._settings.max_batch_texts or request.explain != batch[0].explain):
                    break
                batch.append(request)
            self._queue.popleft()
        return batch

    def _compute(self, batch: Sequence[Request]) -> list[Answer | Exception]:
        """In the worker thread: the answer or the error of each request. One that fails spoils no other."""
        model, examples = self._current(), [example for request in batch for example in request.examples]
        try:
            outputs = map(model.explain, examples) if batch[0].explain else model.predict(examples)
            return [self._answer(model, request, outputs) for request in batch]
        except Exception as error:
            if len(batch) == 1:
                return [error]
            return [answer for request in batch for answer in self._compute([request])]

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
