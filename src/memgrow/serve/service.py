"""A running service: the model, batches, the training queue, the drift monitor and metrics."""

import asyncio
import threading
import time
from collections import Counter as Counts
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from memgrow.data import Example, load_for_evaluation
from memgrow.errors import MemgrowError, SettingsError, brief, listed
from memgrow.serve.batching import Answer, Batcher
from memgrow.serve.jobs import STATES, JobQueue
from memgrow.serve.logs import log
from memgrow.serve.model import Publisher
from memgrow.serve.settings import ServeSettings
from memgrow.storage.versions import check_keep_versions

POLL_SECONDS = 1.0  # between two looks at the model's folder, which another command may change
DRIFT_SHARE = 0.05  # of a core, at most; under load a sample of the texts is tested
DRIFT_FIELDS = ("texts", "windows", "alarms", "due", "distance", "p", "unknown_words", "confidence")  # of GET /drift
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Service(Collector):
    """All parts of a service. `running` starts and stops them."""

    def __init__(self, folder: Path, settings: ServeSettings | None = None) -> None:
        self.settings = settings = settings or ServeSettings()
        check_keep_versions(settings.keep_versions)
        # Settings that would stop every training are refused now.
        watched = load_for_evaluation(settings.watch, model=folder).stream if settings.watch else ()
        self.publisher = Publisher(folder, settings)
        learned = self.publisher.current.learner.history.domains
        if (
            settings.max_forgetting is not None
            and not settings.read_only
            and learned
            and not any(one.test for one in watched)
        ):
            raise SettingsError(f"max_forgetting needs tests of {listed(learned)}: watch some (--watch FILE)")
        self.queue = None if settings.read_only else JobQueue(self.publisher, settings)
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        names = ("route", "method", "status")
        self.requests = Counter("memgrow_requests", "Answered requests.", names, registry=registry)
        self.seconds = Histogram(
            "memgrow_request_seconds", "Seconds to a response.", ["route"], buckets=SECONDS, registry=registry
        )
        batches = Histogram("memgrow_batch_requests", "Requests per batch.", buckets=SIZES, registry=registry)
        self.batcher = Batcher(lambda: self.publisher.current, settings, batches.observe)
        self._is_running = False
        self._testing = threading.Lock()  # one drift test at a time
        self._test_next = 0.0
        registry.register(self)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        if self.queue is not None:
            self.queue.start()
        polling = asyncio.create_task(self._poll())
        self._is_running = True
        try:
            yield
        finally:
            self._is_running = False
            polling.cancel()
            self.batcher.stop()
            if self.queue is not None:
                await asyncio.to_thread(self.queue.stop)

    @property
    def is_alive(self) -> bool:
        """Whether requests are answered and, unless it is read-only, trainings run."""
        return self._is_running and (self.queue is None or self.queue.is_alive)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Gauges for Prometheus, read when they are requested."""
        current = self.publisher.current
        yield GaugeMetricFamily("memgrow_waiting_requests", "Requests in the queue.", value=self.batcher.waiting)
        yield GaugeMetricFamily("memgrow_model_version", "Served version.", value=current.identity["version"])
        drift = current.monitor.report().to_json()
        for name in DRIFT_FIELDS:
            if drift[name] is not None:
                yield GaugeMetricFamily(f"memgrow_drift_{name}", f"{name} of GET /drift.", value=drift[name])
        jobs = GaugeMetricFamily("memgrow_jobs", "Trainings by state.", labels=["state"])
        counts = Counts(job["state"] for job in self.queue.list()) if self.queue else {}
        for state in STATES:
            jobs.add_metric([state], counts.get(state, 0))
        yield jobs

    def test_drift(self, examples: list[Example], answer: Answer) -> None:
        """Show texts and their predictions to the drift monitor; skips them while it is busy or has had its share."""
        if time.monotonic() < self._test_next or not self._testing.acquire(blocking=False):
            return
        started = time.monotonic()
        try:
            sure = [one["probabilities"][one["label"]] for one in answer.outputs if "probabilities" in one]
            answer.model.monitor.add(examples, sure if len(sure) == len(examples) else None)
        except Exception as error:
            log("drift not tested", error, texts=len(examples))
        finally:
            now = time.monotonic()
            self._test_next = now + (now - started) * (1 / DRIFT_SHARE - 1)
            self._testing.release()

    async def _poll(self) -> None:
        """Load what another command has made of the folder; on an error the version before stays."""
        logged = None
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                if await asyncio.to_thread(self.publisher.refresh):
                    log("loaded", **self.publisher.current.identity)
                logged = None
            except Exception as error:
                message = str(error) if isinstance(error, MemgrowError) else brief(error)
                if message != logged:
                    log("not loaded", error, message=message)
                logged = message
