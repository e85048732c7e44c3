"""Progress in the terminal: a bar with loss, accuracy and time left; plain lines where there is no terminal."""

from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from memgrow.progress import Step


class Bar:
    """Shows one training after another. Use it in a `with`."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bars = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            expand=True,
        )
        self._task: TaskID | None = None
        self._domain = ""

    def __enter__(self) -> "Bar":
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bars.stop()

    def step(self, step: Step) -> None:
        if self._task is None or step.domain != self._domain:
            self.done()
            self._domain = step.domain
            self._task = self._bars.add_task(escape(step.domain), state="")
        best = "" if step.validation is None else f" best {step.validation:.1%}"
        # The time left is that of all epochs: training may stop earlier, when validation no longer rises.
        self._bars.update(
            self._task,
            total=step.epochs * step.batches,
            completed=(step.epoch - 1) * step.batches + step.batch,
            state=f"epoch {step.epoch}/{step.epochs} loss {step.loss:.3f} acc {step.accuracy:.1%}{best}",
        )

    def note(self, sentence: str) -> None:
        self.console.print(f"[dim]{escape(sentence)}[/dim]", highlight=False)

    def done(self) -> None:
        """The training under way has ended: take its bar away."""
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None
