"""Progress of training: bars by rich (where the output is no terminal, a line every half minute), and TensorBoard."""

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import rich.progress
from rich.console import Console, RenderableType
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from memgrow.errors import MissingExtraError, SettingsError
from memgrow.evaluation.history import History
from memgrow.evaluation.tables import measure_of_task
from memgrow.training.progress import NoProgress, Progress, Step

LOG_EVERY_S = 30.0
NAME_WIDTH = 20


class ProgressBar:
    """One bar at a time, with messages above it. Use it in a `with`."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bars = rich.progress.Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, max_width=NAME_WIDTH)),
            BarColumn(bar_width=None, complete_style="cyan", finished_style="cyan", pulse_style="cyan"),
            TextColumn("{task.fields[state]}", markup=False, table_column=Column(no_wrap=True)),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            expand=True,
        )
        self._task = self._bars.add_task("", visible=False, state="")
        self._logged = time.monotonic()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        if not self._bars.disable:  # a disabled bar would write an empty line
            self._bars.stop()

    def show(self, name: str, done: float, total: float | None, state: str) -> None:
        """Move the bar, or start one for a new name."""
        if not self.console.is_terminal:
            if time.monotonic() - self._logged >= LOG_EVERY_S:
                self.say(Text(f"{name}: {state}"))
            return
        if self._bars.tasks[0].description != name:
            self._bars.reset(self._task, description=name)  # with another estimate of the time left
        self._bars.update(self._task, completed=done, total=total, state=state, visible=True)

    def clear(self) -> None:
        """Hide the bar until the next step."""
        self._bars.reset(self._task, visible=False, description="")

    def say(self, what: RenderableType) -> None:
        """Print above the bar."""
        self._logged = time.monotonic()
        self.console.print(what, highlight=False)

    def note(self, sentence: str) -> None:
        self.say(Text(sentence, "dim"))


class TrainingBar(ProgressBar):
    """The progress of training: epoch, loss, accuracy, best validation score, and the time left at most."""

    replies = False  # whether validation scores are 1 / perplexity

    def step(self, step: Step) -> None:
        if step.loss is None or step.accuracy is None:
            state = f"texts read {step.batch / max(step.batches, 1):.0%}"
        else:
            state = f"epoch {step.epoch}/{step.epochs} loss {step.loss:.3f} acc {step.accuracy:.1%}"
        if step.validation is not None:
            measure = measure_of_task("reply" if self.replies else None)
            state += f" best {measure.named(step.validation)}"
        self.show(step.domain, (step.epoch - 1) * step.batches + step.batch, step.epochs * step.batches, state)


# TensorBoard: curves of each domain by epoch, and test scores by stage


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
        if self.tracker is not None:
            for name, value in values.items():
                if value is not None:
                    self.tracker.add_scalar(name, value, step)
            self.tracker.flush()
