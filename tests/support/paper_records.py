"""Records that no model has made, with accuracies of the test's choosing."""

from collections.abc import Callable, Iterable, Sequence

from memgrow.experiments.grid import Failure, Outcome
from memgrow.experiments.paper.protocol import GENRES, Data, Protocol
from memgrow.experiments.paper.rows import Row, wanted
from memgrow.experiments.run import Record, Run
from memgrow.history import Stage
from memgrow.methods import Grew

EXAMPLES = 200  # of each part of each genre

Accuracy = Callable[[Run, str, str], float]
"""From the run as it stands after a stage, a genre and a part to the share of right answers."""


def half(run: Run, genre: str, part: str) -> float:
    return 0.5


def record(stage: Run, accuracy: Accuracy) -> Record:
    """The first answers are right, by the accuracy, so that better means right wherever the worse one is."""
    answers = {
        part: {genre: [k < round(EXAMPLES * accuracy(stage, genre, part)) for k in range(EXAMPLES)] for genre in GENRES}
        for part in ("validation", "test")
    }
    done = Stage(stage.learns, stage.method, Grew(), 1000 * len(stage.learns), 77, 3, 2, 0.5, 1.5, "")
    return Record("key", done, **answers)


def records(runs: Iterable[Run], accuracy: Accuracy = half) -> dict[Run, tuple[Record, ...]]:
    return {run: tuple(record(stage, accuracy) for stage in run.stages()) for run in runs}


def results(rows: Sequence[Row], protocol: Protocol, seeds: int, accuracy: Accuracy = half):
    """All that a table's rows need."""
    found: dict[Data, dict[Run, tuple[Record, ...]]] = {}
    for data, run in wanted(rows, protocol, seeds):
        found.setdefault(data, {}).update(records([run], accuracy))
    return found


class Runner:
    """Stands in for the grid: remembers what it was asked for, and fails what the test wants to fail."""

    def __init__(self, accuracy: Accuracy = half, fails: Callable[[Run], bool] = lambda run: False) -> None:
        self.accuracy, self.fails = accuracy, fails
        self.asked: list[tuple[Data, list[Run]]] = []

    def __call__(self, data: Data, runs: Sequence[Run]) -> Outcome:
        self.asked.append((data, list(runs)))
        good = [run for run in runs if not self.fails(run)]
        failures = tuple(Failure(run, 0, "the lamp went out") for run in runs if self.fails(run))
        return Outcome(records(good, self.accuracy), failures)
