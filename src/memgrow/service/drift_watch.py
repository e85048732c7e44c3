"""The drift monitor of a service: it looks at what has been answered, in a thread of its own, after the answers.

Texts wait for it in memory for a moment, and none is kept. It takes at most a small share of a core: where more is
asked than it can look at in that time, it looks at some of it. What it fails at is told, and it goes on with the next.
"""

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memgrow.data import Example
from memgrow.drift import ALPHA, WINDOW, DriftMonitor, DriftReport
from memgrow.errors import counted
from memgrow.service.logs import Log
from memgrow.service.metrics import Labels
from memgrow.service.published import Published

MOST = 1024  # texts that wait to be looked at; others are passed over
SHARE = 0.05  # of a core that looking takes, at most
Seen = tuple[Published, Sequence[Example], list[float] | None]  # texts, and how sure their answers were


GAUGES = {
    "texts": "Texts that the drift monitor has looked at.",
    "windows": "Windows of texts that have been tested.",
    "alarms": "Windows that were unlike what was learnt.",
    "due": "1 if adapting seems due, by the last full window.",
    "distance": "Distance of the last window from the domains learnt, where 1 is what chance gives.",
    "p": "Probability of such a window of known domains.",
    "unknown_words": "Share of unknown words in the last window.",
    "confidence": "Mean probability of the answers in the last window.",
}
FAILED = "Texts of batches that the drift monitor failed at: the log says why."


class DriftWatch:
    """Feeds the monitor of the version that is served; another version has a monitor of its own."""

    def __init__(
        self, published: Published, window: int = WINDOW, alpha: float = ALPHA, log: Log | None = None
    ) -> None:
        self._window, self._alpha, self._log = window, alpha, log or Log()
        self._published, self._monitor = published, self._new(published)
        self._waiting: deque[Seen] = deque()
        self._changed = threading.Condition()
        self._texts, self._stopped = 0, False  # texts that wait
        self._failed = 0  # texts of this version that the monitor failed at
        self._thread = threading.Thread(target=self._work, name="drift", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def show(self, published: Published, examples: Sequence[Example], answers: Sequence[Mapping[str, Any]]) -> None:
        """Let the monitor look at texts and their answers, some time; whoever shows them does not wait."""
        with self._changed:
            if self._texts and self._texts + len(examples) > MOST:
                return
            self._texts += len(examples)
            self._waiting.append((published, examples, _confidences(answers)))
            self._changed.notify()

    def report(self, current: Published) -> DriftReport:
        """What is to be said of the version that is served; nothing yet, if nobody has asked it."""
        with self._changed:
            monitor = self._monitor if current is self._published else self._new(current)
        report, failed = monitor.report(), self._failed_at(current)
        if not failed:
            return report
        missed = f"{counted(failed, 'text')} could not be looked at: the log says why"
        return replace(report, sentence=f"{report.sentence}; {missed}")

    def gauges(self, current: Published) -> dict[str, tuple[str, Mapping[Labels, float]]]:
        """Figures for Prometheus; those that are not known are left out."""
        report = self.report(current).to_json()
        known: dict[str, tuple[str, Mapping[Labels, float]]] = {
            f"memgrow_drift_{name}": (sentence, {(): float(value)})
            for name, sentence in GAUGES.items()
            if (value := report[name]) is not None
        }
        return {**known, "memgrow_drift_failed": (FAILED, {(): float(self._failed_at(current))})}

    def _failed_at(self, current: Published) -> int:
        with self._changed:
            return self._failed if current is self._published else 0

    # In the thread

    def _work(self) -> None:
        while (seen := self._take()) is not None:
            began = time.monotonic()
            try:
                self._look_at(*seen)
            except Exception as error:  # a batch that it fails at, whatever the reason, does not end the watching
                self._log.error("drift not watched", error, texts=len(seen[1]))
                with self._changed:
                    self._failed += len(seen[1])
            took = time.monotonic() - began
            del seen
            with self._changed:
                self._changed.wait_for(lambda: self._stopped, took * (1 / SHARE - 1))

    def _look_at(self, published: Published, examples: Sequence[Example], confidences: list[float] | None) -> None:
        if published is not self._published:
            with self._changed:
                self._published, self._monitor, self._failed = published, self._new(published), 0
        self._monitor.add(examples, confidences)

    def _take(self) -> Seen | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopped)
            if self._stopped:
                return None
            seen = self._waiting.popleft()
            self._texts -= len(seen[1])
            return seen

    def _new(self, published: Published) -> DriftMonitor:
        return published.learner.drift_monitor(self._window, self._alpha)


def _confidences(answers: Sequence[Mapping[str, Any]]) -> list[float] | None:
    """None of replies."""
    if not all("probabilities" in one for one in answers):
        return None
    return [one["probabilities"][one["label"]] for one in answers]
