"""Drift monitoring of a service: a thread looks at inputs after they have been answered.

Texts wait in memory for a moment and are not kept. The thread takes at most a twentieth of a core: under heavy load it
looks at a sample.
"""

import queue
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from memgrow.data import Example
from memgrow.errors import counted
from memgrow.evaluation.drift import WINDOW, DriftMonitor, DriftReport
from memgrow.serve.logs import Log
from memgrow.serve.metrics import Gauge
from memgrow.serve.model import ServedModel

WAITING = 64  # requests that wait to be looked at; others are skipped
SHARE = 0.05  # of a core, at most
Seen = tuple[ServedModel, Sequence[Example], list[float] | None]  # texts, and the confidence of their predictions

GAUGES = ("texts", "windows", "alarms", "due", "distance", "p", "unknown_words", "confidence")  # of GET /drift


class DriftWatch:
    """Feeds the drift monitor of the served version; each version starts a new one."""

    def __init__(self, model: ServedModel, window: int = WINDOW, log: Log | None = None) -> None:
        self._window, self._log = window, log or Log()
        self._model, self._monitor, self._failed = model, self._new(model), 0
        self._queue: queue.Queue[Seen | None] = queue.Queue(WAITING)
        self._changing = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="drift", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        with suppress(queue.Full):  # then the thread is awake
            self._queue.put_nowait(None)
        self._thread.join()

    def show(self, model: ServedModel, examples: Sequence[Example], outputs: Sequence[dict[str, Any]]) -> None:
        """Hand texts and their predictions to the monitor, without waiting."""
        sure = [one["probabilities"][one["label"]] for one in outputs if "probabilities" in one]
        with suppress(queue.Full):
            self._queue.put_nowait((model, examples, sure if len(sure) == len(examples) else None))

    def report(self, current: ServedModel) -> DriftReport:
        """The report on the served version."""
        with self._changing:
            same = current is self._model
            monitor, failed = (self._monitor, self._failed) if same else (self._new(current), 0)
        report = monitor.report()
        if failed:
            report = replace(report, sentence=f"{report.sentence}; {counted(failed, 'text')} failed: see the log")
        return report

    def gauges(self, current: ServedModel) -> list[Gauge]:
        report = self.report(current).to_json()
        failed = self._failed if current is self._model else 0
        return [
            *((f"memgrow_drift_{name}", f"The field {name} of GET /drift.", report[name]) for name in GAUGES),
            ("memgrow_drift_failed", "Texts on which the drift monitor failed: see the log.", failed),
        ]

    def _work(self) -> None:
        while (seen := self._queue.get()) is not None and not self._stopped.is_set():
            model, examples, confidences = seen
            started = time.monotonic()
            try:
                if model is not self._model:
                    monitor = self._new(model)
                    with self._changing:
                        self._model, self._monitor, self._failed = model, monitor, 0
                self._monitor.add(examples, confidences)
            except Exception as error:  # go on with the next
                self._log.error("drift not watched", error, texts=len(examples))
                self._failed += len(examples)
            del seen, model, examples
            self._stopped.wait((time.monotonic() - started) * (1 / SHARE - 1))

    def _new(self, model: ServedModel) -> DriftMonitor:
        return model.learner.drift_monitor(self._window)
