"""A service as it runs: the model, the thread that answers, and what is told of both."""

import threading
from collections.abc import Mapping
from pathlib import Path

from memgrow.errors import MemgrowError
from memgrow.service.batching import Batcher
from memgrow.service.limits import Limits
from memgrow.service.logs import Log
from memgrow.service.metrics import Labels, Metrics
from memgrow.service.published import Publisher

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
    ) -> None:
        self.limits, self.log, self.metrics = limits or Limits(), log or Log(), Metrics()
        self.publisher = Publisher(folder, device, keep_versions)
        self.batcher = Batcher(lambda: self.publisher.current, self.limits)
        self._stopped = threading.Event()
        self._looking = threading.Thread(target=self._look, name="looking", daemon=True)

    def start(self) -> None:
        self.batcher.start()
        self._looking.start()

    def stop(self) -> None:
        """Finish what has been begun."""
        self._stopped.set()
        self.batcher.stop()
        self._looking.join()

    @property
    def task(self) -> str | None:
        return self.publisher.current.learner.task

    @property
    def is_alive(self) -> bool:
        return self.batcher.is_alive

    def gauges(self) -> Mapping[str, tuple[str, Mapping[Labels, float]]]:
        """Figures that hold at this moment."""
        return {
            "memgrow_waiting_requests": ("Requests that are not being computed yet.", {(): self.batcher.waiting}),
            "memgrow_model_version": ("Version that is served.", {(): self.publisher.current.version}),
        }

    def _look(self) -> None:
        """Serve what another command has made of the folder."""
        while not self._stopped.wait(LOOK_S):
            try:
                if self.publisher.refresh():
                    self.log.write("loaded", version=self.publisher.current.version)
            except MemgrowError as error:
                self.log.write("not loaded", sentence=str(error))
