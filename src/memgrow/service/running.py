"""A service as it runs: the model, the thread that answers, and what is told of both."""

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from memgrow.data import load_for_evaluation
from memgrow.drift import WINDOW
from memgrow.errors import MemgrowError, SettingsError, brief, listed
from memgrow.service.batching import Batcher
from memgrow.service.drift_watch import DriftWatch
from memgrow.service.jobs_folder import check_jobs_folder
from memgrow.service.limits import Limits
from memgrow.service.logs import Log
from memgrow.service.metrics import Labels, Metrics
from memgrow.service.published import Publisher
from memgrow.service.training_queue import TrainingQueue
from memgrow.versions import check_keep_versions

LOOK_S = 1.0  # between two looks at the folder, which another command may change


class Service:
    """All parts of a running service."""

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
        """`jobs` is the folder of trainings, beside the model unless given; a service that only reads has none.

        `watch` are files of test examples of earlier domains, which are tried before and after each training.
        `window` is the number of texts that are tested for drift together.
        """
        self.limits, self.log, self.metrics = limits or Limits(), log or Log(), Metrics()
        check_keep_versions(keep_versions)
        # What cannot be read, or would stop every training, is told now, and not when somebody waits.
        watched = [one.name for one in load_for_evaluation(watch).stream if one.test] if watch else []
        self.publisher = Publisher(folder, device, keep_versions)
        if max_forgetting is not None and not read_only:
            learned = self.publisher.current.learner.history.domains
            if learned and not watched:
                raise SettingsError(f"max_forgetting needs tests of {listed(learned)}: watch some (--watch FILE)")
        self.drift = DriftWatch(self.publisher.current, window, log=self.log)
        self.batcher = Batcher(lambda: self.publisher.current, self.limits, [self.drift.show])
        place = self.publisher.folder
        jobs = place.with_name(f"{place.name}.jobs") if jobs is None else Path(os.path.realpath(jobs))
        self.queue = None
        if not read_only:
            check_jobs_folder(jobs, place)
            self.queue = TrainingQueue(jobs, self.publisher, self.limits, self.log, watch, max_forgetting)
        self._stopped = threading.Event()
        self._looking = threading.Thread(target=self._look, name="looking", daemon=True)

    def start(self) -> None:
        self.drift.start()
        self.batcher.start()
        if self.queue is not None:
            self.queue.start()
        self._looking.start()

    def stop(self) -> None:
        """Finish what has been begun."""
        self._stopped.set()
        if self.queue is not None:
            self.queue.stop()
        self.batcher.stop()
        self.drift.stop()
        self._looking.join()

    @property
    def task(self) -> str | None:
        return self.publisher.current.learner.task

    @property
    def is_alive(self) -> bool:
        """Whether requests are answered and, unless it only reads, trainings are worked off."""
        return self.batcher.is_alive and (self.queue is None or self.queue.is_alive)

    def gauges(self) -> Mapping[str, tuple[str, Mapping[Labels, float]]]:
        """Figures that hold at this moment."""
        return {
            "memgrow_waiting_requests": ("Requests that are not being computed yet.", {(): self.batcher.waiting}),
            **self._job_gauges(),
            **self.drift.gauges(self.publisher.current),
            "memgrow_model_version": ("Version that is served.", {(): self.publisher.current.version}),
        }

    def _job_gauges(self) -> Mapping[str, tuple[str, Mapping[Labels, float]]]:
        counts = self.queue.counts() if self.queue is not None else {}
        return {"memgrow_jobs": ("Trainings by state.", {(("state", state),): n for state, n in counts.items()})}

    def _look(self) -> None:
        """Serve what another command has made of the folder; what cannot be loaded is told once and tried again."""
        told = None
        while not self._stopped.wait(LOOK_S):
            try:
                if self.publisher.refresh():
                    self.log.write("loaded", version=self.publisher.current.version)
                told = None
            except Exception as error:  # the version before is served meanwhile
                sentence = str(error) if isinstance(error, MemgrowError) else brief(error)
                if sentence != told:
                    self.log.error("not loaded", error, sentence=sentence)
                told = sentence
