"""Requests that arrive together are computed as one batch.

One thread owns the model. It takes all that waits, up to a bound, as one batch, and while it computes, the next
requests gather. If the batch before had several, more are on their way: then it lingers for as long as they keep
coming, and for some milliseconds at most. Who asks alone never waits for company. With `together=1` each request is
computed by itself, which is the naive twin that the benchmark compares with.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from memgrow.data import Example
from memgrow.service.limits import Limits, RefusedError
from memgrow.service.published import Published

Answered = tuple[int, list[dict[str, Any]]]  # by which version, and the answer to each example
Observer = Callable[[Published, Sequence[Example], Sequence[dict[str, Any]]], None]
LINGER_S, GAP_S = 0.01, 0.001  # how long a batch is waited for at most, and for the next request of it
BUSY = "more requests wait than this service takes on: try again in a moment"


@dataclass(frozen=True)
class Asked:
    """A request that waits for its answer."""

    examples: Sequence[Example]
    explain: bool
    future: "asyncio.Future[Answered]"


class Batcher:
    """Answers requests by one thread, in batches, with whichever model is current when a batch begins."""

    def __init__(self, current: Callable[[], Published], limits: Limits, observers: Sequence[Observer] = ()) -> None:
        """`observers` are shown each batch and its answers, by the thread that has computed them."""
        self.sizes: dict[int, int] = {}  # how many batches there were of so many requests
        self._current, self._limits, self._observers = current, limits, observers
        self._waiting: deque[Asked] = deque()
        self._changed = threading.Condition()
        self._idle, self._stopped = False, False
        self._several = False  # requests in the batch before
        self._thread = threading.Thread(target=self._work, name="batches", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Answer what waits, and no more."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    async def ask(self, examples: Sequence[Example], explain: bool = False) -> Answered:
        """The answers to some examples, once a batch with them has been computed."""
        if len(self._waiting) >= self._limits.waiting or self._stopped:
            raise RefusedError(503, BUSY)
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting.append(Asked(examples, explain, future))
        if self._idle:  # else the thread looks by itself before it rests
            with self._changed:
                self._changed.notify()
        try:
            async with asyncio.timeout(self._limits.answer_s):
                return await future
        except TimeoutError:
            raise RefusedError(
                503, f"there was no answer within {self._limits.answer_s:g} seconds: ask for less"
            ) from None

    # In the thread

    def _work(self) -> None:
        while batch := self._take():
            published = self._current()
            if batch[0].explain:
                answers = [self._alone(published, one) for one in batch]
            else:
                answers = self._together(published, batch)
            self.sizes[len(batch)] = self.sizes.get(len(batch), 0) + 1
            loop = batch[0].future.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_deliver, list(zip(batch, answers, strict=True)))
            answered = [(one, found[1]) for one, found in zip(batch, answers, strict=True) if isinstance(found, tuple)]
            for observe in self._observers if answered else ():
                examples = [example for one, _ in answered for example in one.examples]
                observe(published, examples, [answer for _, found in answered for answer in found])

    def _take(self) -> list[Asked]:
        """The next batch: requests of one kind, those that came first; none at the end."""
        while True:
            with self._changed:
                self._idle = True
                self._changed.wait_for(lambda: self._waiting or self._stopped)
                self._idle = False
            if self._several and not self._stopped:
                self._linger()
            batch = self._first_of_a_kind()
            self._several = len(batch) > 1
            if batch or (self._stopped and not self._waiting):
                return batch

    def _first_of_a_kind(self) -> list[Asked]:
        batch: list[Asked] = []
        texts = 0
        while self._waiting and len(batch) < self._limits.together:
            one = self._waiting[0]
            if one.future.done():  # nobody waits any longer: after a flood the next one is not late because of it
                self._waiting.popleft()
                continue
            texts += len(one.examples)
            if batch and (one.explain != batch[0].explain or texts > self._limits.texts):
                break
            batch.append(self._waiting.popleft())
        return batch

    def _linger(self) -> None:
        """Wait for as long as requests keep coming."""
        until, before = time.monotonic() + LINGER_S, 0
        while before < len(self._waiting) < self._limits.together and time.monotonic() < until:
            before = len(self._waiting)
            time.sleep(GAP_S)

    def _together(self, published: Published, batch: Sequence[Asked]) -> list[Answered | Exception]:
        """One forward pass for all; where that fails each is tried by itself, so that one cannot spoil the others."""
        examples = [example for one in batch for example in one.examples]
        try:
            answers = iter(published.answers(examples))
        except Exception as error:
            return [error] if len(batch) == 1 else [self._alone(published, one) for one in batch]
        found: list[Answered | Exception] = [
            (published.version, [next(answers) for _ in one.examples]) for one in batch
        ]
        return found

    def _alone(self, published: Published, one: Asked) -> Answered | Exception:
        try:
            if one.explain:
                return published.version, [published.explain(example) for example in one.examples]
            return published.version, published.answers(one.examples)
        except Exception as error:
            return error


def _deliver(answers: Iterable[tuple[Asked, Answered | Exception]]) -> None:
    """Wake who waits: in the event loop, once for a whole batch."""
    for one, answer in answers:
        if one.future.done():  # nobody waits any longer
            continue
        if isinstance(answer, Exception):
            one.future.set_exception(answer)
        else:
            one.future.set_result(answer)
