"""Watching training by a tracker: curves of each domain by epoch, test scores by stage, and the matrix as an image.

A tracker is named in `TRACKERS`. Its package is an extra, and is imported when it is asked for. None needs an account.
"""

import io
import os
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from memgrow.errors import MissingExtraError, SettingsError, printable
from memgrow.evaluation.history import History
from memgrow.report.matrix import is_readable
from memgrow.report.measures import measure_of_task
from memgrow.report.plots import draw_matrices
from memgrow.training.progress import NoProgress, Progress, Step

PROJECT = "memgrow"


class Tracker(Protocol):
    """Anything that keeps figures by step: to add one, write these three and name it in `TRACKERS`."""

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Keep figures of a step, counted from 1; their names have a slash between figure and domain."""

    def picture(self, name: str, png: bytes, step: int) -> None:
        """Keep a picture."""

    def close(self) -> None:
        """Nothing more will come."""


class TensorBoard:
    """Event files that `tensorboard --logdir FOLDER` shows."""

    def __init__(self, folder: Path, name: str) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder / name))

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()  # somebody may be watching

    def picture(self, name: str, png: bytes, step: int) -> None:
        from matplotlib.image import imread

        self._writer.add_image(name, imread(io.BytesIO(png), format="png"), step, dataformats="HWC")

    def close(self) -> None:
        self._writer.close()


class Trackio:
    """A project of trackio in a folder, which `TRACKIO_DIR=FOLDER trackio show` shows.

    It stays on this machine, unless trackio's own settings say otherwise.
    """

    def __init__(self, folder: Path, name: str) -> None:
        os.environ["TRACKIO_DIR"] = str(folder.absolute())
        import trackio

        self._trackio: Any = trackio
        with redirect_stdout(io.StringIO()):  # it would tell to look elsewhere, as it does not name the folder
            self._run: Any = trackio.init(
                project=PROJECT, name=name, resume="allow", embed=False, auto_log_gpu=False, auto_log_cpu=False
            )

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def picture(self, name: str, png: bytes, step: int) -> None:
        from PIL import Image

        self._run.log({name: self._trackio.Image(Image.open(io.BytesIO(png)))}, step=step)

    def close(self) -> None:
        with redirect_stdout(io.StringIO()):  # it speaks of uploads, though nothing leaves this machine
            self._trackio.finish()  # the run's own would leave it to be finished again as Python ends


TRACKERS: Mapping[str, Callable[[Path, str], Tracker]] = {"tensorboard": TensorBoard, "trackio": Trackio}
SHOWN: Mapping[str, str] = {"tensorboard": "tensorboard --logdir {}", "trackio": "TRACKIO_DIR={} trackio show"}


def check_tracker(name: str) -> None:
    """Refuse a tracker that there is not, or whose package, which has its name, is not installed."""
    if name not in TRACKERS:
        raise SettingsError(f"there is no tracker {name!r}; there are {', '.join(TRACKERS)}")
    if find_spec(name) is None:
        raise MissingExtraError(
            f"tracking by {name} needs its package: install it with `pip install 'memgrow[{name}]'`"
        )


def find_tracker(name: str, folder: str | Path, run: str) -> Tracker:
    """The tracker of that name, which keeps a run in a folder."""
    check_tracker(name)
    return TRACKERS[name](Path(folder), run)


class Tracking:
    """Tells a tracker how training goes, and passes all on to a bar. Use it in a `with`, as the progress of `learn`."""

    def __init__(self, tracker: Tracker, progress: Progress | None = None) -> None:
        self.tracker, self.progress = tracker, progress or NoProgress()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tracker.close()

    def step(self, step: Step) -> None:
        self.progress.step(step)
        if step.validated is not None:
            known = {"loss": step.loss, "training": step.accuracy, "validation": step.validated}
            values = {f"{name}/{plain(step.domain)}": value for name, value in known.items() if value is not None}
            self.tracker.scalars(values, step.epoch)

    def note(self, sentence: str) -> None:
        self.progress.note(sentence)

    def stage(self, history: History, task: str | None = None) -> None:
        """A domain has been learnt: the scores of all domains, and the matrix."""
        number, row = len(history.stages), history.matrix.rows[-1]
        scores = {f"test/{plain(name)}": score for name, score in row.scores.items()}
        average = history.matrix.average()
        self.tracker.scalars(scores | ({} if average is None else {"test average": average}), number)
        if not scores or not is_readable(history.matrix):
            return
        picture = io.BytesIO()
        try:
            name = history.stages[-1].method
            draw_matrices({name: history.matrix}, picture, "", measure=measure_of_task(task))
        except SettingsError as error:
            self.progress.note(f"The tracker gets no picture of the matrix: {error}")
        else:
            self.tracker.picture("matrix", picture.getvalue(), number)


def plain(domain: str) -> str:
    r"""A domain's name as a part of a figure's name, in which a slash would begin another part: it is written as \x2f.

    A backslash is doubled, so that no two domains have one name.
    """
    return printable(domain.replace("\\", r"\\")).replace("/", r"\x2f")
