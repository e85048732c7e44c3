"""The drift monitor of a service: it looks at what has been answered, in a thread of its own, after the answers.

Texts wait for it in memory for a moment, and none is kept. It takes at most a small share of a core: where more is
asked than it can look at in that time, it looks at some of it.
"""

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from memgrow.data import Example
from memgrow.drift import ALPHA, WINDOW, DriftMonitor, DriftReport
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


class DriftWatch:
    """Feeds the monitor of the version that is served; another version has a monitor of its own."""

    def __init__(self, published: Published, window: int = WINDOW, alpha: float = ALPHA) -> None:
        self._window, self._alpha = window, alpha
        self._published, self._monitor = published, self._new(published)
        self._waiting: deque[Seen] = deque()
        self._changed = threading.Condition()
        self._texts, self._stopped = 0, False  # texts that wait
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
        return monitor.report()

    def gauges(self, current: Published) -> dict[str, tuple[str, Mapping[Labels, float]]]:
        """Figures for Prometheus; those that are not known are left out."""
        report = self.report(current).to_json()
        return {
            f"memgrow_drift_{name}": (sentence, {(): float(value)})
            for name, sentence in GAUGES.items()
            if (value := report[name]) is not None
        }

    # In the thread

    def _work(self) -> None:
        while (seen := self._take()) is not None:
            began = time.monotonic()
            published, examples, confidences = seen
            if published is not self._published:
                with self._changed:
                    self._published, self._monitor = published, self._new(published)
            self._monitor.add(examples, confidences)
            took = time.monotonic() - began
            del seen, examples
            with self._changed:
                self._changed.wait_for(lambda: self._stopped, took * (1 / SHARE - 1))

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
