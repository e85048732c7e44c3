"""Figures about a running service in the text format of Prometheus."""

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
TEXT = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[tuple[str, str], ...]


class Histogram:
    """Counts of values up to each of some bounds."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float, count: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += count
        self._sum += value * count

    def lines(self, name: str, labels: Labels = ()) -> Iterable[str]:
        so_far = 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            so_far += count
            yield sample(f"{name}_bucket", so_far, (*labels, ("le", str(bound))))
        yield sample(f"{name}_sum", self._sum, labels)
        yield sample(f"{name}_count", so_far, labels)


class Metrics:
    """Counts requests as they end; all other figures are asked for when somebody looks."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, str, int], int] = {}
        self._seconds: dict[str, Histogram] = {}
        self._lock = threading.Lock()

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        with self._lock:
            key = (route, method if method.isalpha() and len(method) <= 7 else "other", status)
            self._requests[key] = self._requests.get(key, 0) + 1
            self._seconds.setdefault(route, Histogram(SECONDS)).add(seconds)

    def text(self, batches: Mapping[int, int], gauges: Mapping[str, tuple[str, Mapping[Labels, float]]]) -> str:
        """The whole page; `batches` are counts by size, a gauge has a sentence and values by labels."""
        sizes = Histogram(SIZES)
        for size, count in dict(batches).items():
            sizes.add(size, count)
        lines = head("memgrow_requests_total", "counter", "Requests that have been answered.")
        with self._lock:
            for (route, method, status), count in self._requests.items():
                labels = (("route", route), ("method", method), ("status", str(status)))
                lines.append(sample("memgrow_requests_total", count, labels))
            lines += head("memgrow_request_seconds", "histogram", "Seconds from a request to its answer.")
            for route, histogram in self._seconds.items():
                lines += histogram.lines("memgrow_request_seconds", (("route", route),))
        lines += head("memgrow_batch_requests", "histogram", "Requests that were computed as one batch.")
        lines += sizes.lines("memgrow_batch_requests")
        for name, (sentence, values) in gauges.items():
            lines += head(name, "gauge", sentence)
            lines += [sample(name, value, labels) for labels, value in values.items()]
        return "\n".join(lines) + "\n"


def head(name: str, kind: str, sentence: str) -> list[str]:
    return [f"# HELP {name} {sentence}", f"# TYPE {name} {kind}"]


def sample(name: str, value: float, labels: Labels = ()) -> str:
    shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{name}{{{shown}}} {value!r}" if shown else f"{name} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
