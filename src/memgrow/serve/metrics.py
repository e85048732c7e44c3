"""Metrics of a service for Prometheus."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
Gauge = tuple[str, str, float | None]  # name, help, value; None: not known, left out


class Metrics(Collector):
    """Counts requests and batches; gauges are read when somebody asks."""

    def __init__(self, gauges: Callable[[], Iterable[Gauge]], jobs: Callable[[], dict[str, int]]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._gauges, self._jobs = gauges, jobs
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "memgrow_requests", "Answered requests.", ("route", "method", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "memgrow_request_seconds",
            "Seconds from a request to its response.",
            ["route"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self.batches = Histogram(
            "memgrow_batch_requests", "Requests per batch.", buckets=SIZES, registry=self._registry
        )
        self._registry.register(self)

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        self._requests.labels(route, method if method in METHODS else "other", status).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, description, value in self._gauges():
            if value is not None:
                yield GaugeMetricFamily(name, description, value=value)
        jobs = GaugeMetricFamily("memgrow_jobs", "Trainings by state.", labels=["state"])
        for state, count in self._jobs().items():
            jobs.add_metric([state], count)
        yield jobs

    def describe(self) -> list[GaugeMetricFamily]:
        return []  # so that registering does not call the gauges of a service that is not complete yet
