"""TensorBoard: curves of each domain by epoch, and test scores by stage."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from memgrow.errors import MissingExtraError, SettingsError
from memgrow.evaluation.history import History
from memgrow.training.progress import NoProgress, Progress, Step


def check_tracker(name: str) -> None:
    """Refuse any tracker but an installed TensorBoard."""
    if name != "tensorboard":
        raise SettingsError(f"there is no tracker {name!r}: use tensorboard")
    if find_spec(name) is None:
        raise MissingExtraError(f"tracking by {name} needs its package: `pip install 'memgrow[tensorboard]'`")


def find_tracker(name: str, folder: str | Path, run: str) -> Any:
    """A TensorBoard writer for a run below a folder."""
    check_tracker(name)
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(Path(folder) / run))


class Tracking:
    """Writes training to a TensorBoard writer, if there is one, and passes it on to a bar. Use it in a `with`."""

    def __init__(self, tracker: Any, progress: Progress | None = None) -> None:
        self.tracker, self.progress = tracker, progress or NoProgress()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.tracker is not None:
            self.tracker.close()

    def step(self, step: Step) -> None:
        self.progress.step(step)
        if step.validated is not None:
            values = {"loss": step.loss, "training": step.accuracy, "validation": step.validated}
            self._scalars({f"{name}/{step.domain}": value for name, value in values.items()}, step.epoch)

    def note(self, sentence: str) -> None:
        self.progress.note(sentence)

    def stage(self, history: History) -> None:
        """A stage has ended: the test scores of all domains."""
        scores = {f"test/{name}": score for name, score in history.matrix.rows[-1].scores.items()}
        self._scalars({**scores, "test average": history.matrix.average()}, len(history.stages))

    def _scalars(self, values: dict[str, float | None], step: int) -> None:
        if self.tracker is None:
            return
        for name, value in values.items():
            if value is not None:
                self.tracker.add_scalar(name, value, step)
        self.tracker.flush()
