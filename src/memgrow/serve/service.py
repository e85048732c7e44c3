"""A running service: the model, batches, the training queue and the drift monitor."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from memgrow.data import load_for_evaluation
from memgrow.errors import MemgrowError, SettingsError, brief, listed
from memgrow.evaluation.drift import WINDOW
from memgrow.serve.batching import Batcher
from memgrow.serve.drift import DriftWatch
from memgrow.serve.jobs import JobQueue
from memgrow.serve.limits import Limits
from memgrow.serve.logs import Log
from memgrow.serve.metrics import Gauge, Metrics
from memgrow.serve.model import Publisher
from memgrow.storage.versions import check_keep_versions

POLL_S = 1.0  # between two looks at the model's folder, which another command may change


class Service:
    """All parts of a service. `running` starts and stops them."""

    def __init__(
        self,
        folder: Path,
        *,
        device: str = "auto",
        limits: Limits | None = None,
        log: Log | None = None,
        keep_versions: int | None = None,
        jobs: Path | None = None,
        read_only: bool = False,
        watch: Sequence[Path] = (),
        max_forgetting: float | None = None,
        window: int = WINDOW,
    ) -> None:
        """`jobs` is the folder of trainings, by default MODEL.jobs. `watch` are files with test examples of earlier
        domains, evaluated before and after each training. `window` is the number of texts per drift test.
        """
        self.limits, self.log = limits or Limits(), log or Log()
        check_keep_versions(keep_versions)
        # Settings that would stop every training are refused now.
        watched = [one.name for one in load_for_evaluation(watch).stream if one.test] if watch else []
        self.publisher = Publisher(folder, device, keep_versions)
        if max_forgetting is not None and not read_only:
            learned = self.publisher.current.learner.history.domains
            if learned and not watched:
                raise SettingsError(f"max_forgetting needs tests of {listed(learned)}: watch some (--watch FILE)")
        model = self.publisher.folder
        jobs = model.with_name(f"{model.name}.jobs") if jobs is None else Path(os.path.realpath(jobs))
        self.queue = None
        if not read_only:
            self.queue = JobQueue(
                jobs, self.publisher, limits=self.limits, log=self.log, watch=watch, max_forgetting=max_forgetting
            )
        self.metrics = Metrics(self._gauges, lambda: self.queue.counts() if self.queue else {})
        self.drift = DriftWatch(self.publisher.current, window, self.log)
        self.batcher = Batcher(
            lambda: self.publisher.current, self.limits, self.metrics.batches.observe, self.drift.show
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.drift.start()
        self.batcher.start()
        if self.queue is not None:
            self.queue.start()
        polling = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            polling.cancel()
            await self.batcher.stop()
            if self.queue is not None:
                await asyncio.to_thread(self.queue.stop)
            await asyncio.to_thread(self.drift.stop)

    @property
    def task(self) -> str | None:
        return self.publisher.current.learner.task

    @property
    def is_alive(self) -> bool:
        """Whether requests are answered and, unless it is read-only, trainings run."""
        return self.batcher.is_alive and (self.queue is None or self.queue.is_alive)

    def _gauges(self) -> list[Gauge]:
        current = self.publisher.current
        return [
            ("memgrow_waiting_requests", "Requests in the queue.", self.batcher.waiting),
            *self.drift.gauges(current),
            ("memgrow_model_version", "Served version.", current.version),
        ]

    async def _poll(self) -> None:
        """Load what another command has made of the folder; on an error the version before stays."""
        logged = None
        while True:
            await asyncio.sleep(POLL_S)
            try:
                if await asyncio.to_thread(self.publisher.refresh):
                    current = self.publisher.current
                    self.log.write("loaded", version=current.version, digest=current.digest)
                logged = None
            except Exception as error:
                message = str(error) if isinstance(error, MemgrowError) else brief(error)
                if message != logged:
                    self.log.error("not loaded", error, sentence=message)
                logged = message
