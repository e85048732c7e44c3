"""Progress of a grid: a bar on a terminal, a line for each job elsewhere."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from memgrow.experiments.plan import Job, Result, Task
from memgrow.experiments.run import Record, Run
from memgrow.history import Stage
from memgrow.methods import Grew
from memgrow.progress import Step
from memgrow.report import grid_bar
from memgrow.report.grid_bar import GridBar, duration, job_line

NAMES = ("[books]", "dvds")


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(grid_bar.time, "monotonic", lambda: now[0])
    return now


def result(method: str, learns=NAMES, seeds=(0,), reason: str | None = None) -> Result:
    tasks = tuple(Task(Run(method, learns, seed), f"{seed}", None, True, False) for seed in seeds)
    stage = Stage(learns[-1:], method, Grew(), 1, 2, 3, 3, 0.5, 30.0, "")
    records = () if reason else tuple(Record(task.key, stage, {}, {}) for task in tasks)
    return Result(Job(tasks, 100.0), records, reason)


@pytest.mark.parametrize(
    ("ended", "line"),
    [
        (result("F", NAMES[:1]), "[books], seed 0: validation 50.0%, 30 s"),
        (result("F+V", seeds=(0, 1, 2)), "dvds by F+V, seeds 0 to 2: validation 50.0%, 30 s"),
        (result("F+V", seeds=(0, 2)), "dvds by F+V, seeds 0, 2: validation 50.0%, 30 s"),
        (result("multi-task"), "all by multi-task, seed 0: validation 50.0%, 30 s"),
        (result("F", reason="no [memory]"), "dvds by F, seed 0: failed: no [memory]"),
    ],
)
def test_a_line_says_what_was_done_and_how_it_went(ended, line):
    assert job_line(ended).plain == line


@pytest.mark.parametrize(
    ("validation", "told"), [(0.25, "4.00"), (1 / 2000, "2,000"), (1e-250, "1.0e+250"), (5e-324, "inf"), (0.0, "inf")]
)
def test_of_replies_the_perplexity_is_told_however_large_it_is(validation, told):
    ended = result("F")
    (record,) = ended.records
    replied = replace(record, stage=replace(record.stage, validation=validation), replies={"test": {"dvds": None}})
    assert (
        job_line(replace(ended, records=(replied,))).plain == f"dvds by F, seed 0: validation perplexity {told}, 30 s"
    )


def test_a_log_gets_a_line_for_each_job_with_the_time_left(clock):
    file = io.StringIO()
    with GridBar(Console(file=file, width=80)) as bar:
        bar.begin(4, 400.0)
        for number in range(4):
            clock[0] += 60.0
            ended = result("F", seeds=(number,))
            bar.step(ended.job, Step("dvds", 1, 2, 1, 2, 0.5, 0.5))
            bar.end(ended)
    lines = file.getvalue().splitlines()
    assert [line.partition(" (")[2] for line in lines] == [
        "1 of 4, 3 min left)",
        "2 of 4, 2 min left)",
        "3 of 4, 60 s left)",
        "4 of 4)",
    ]


def test_a_terminal_shows_a_bar_that_moves_within_a_job(clock):
    file = io.StringIO()
    console = Console(file=file, width=80, force_terminal=True, color_system=None, legacy_windows=False)
    with GridBar(console) as bar:
        bar.begin(2, 200.0)
        clock[0] = 50.0
        job = result("F").job
        bar.step(job, Step("dvds", 2, 2, 5, 10, 0.5, 0.5))
        (task,) = bar._bars.tasks
        assert task.completed == pytest.approx(75)
        assert (task.description, task.fields["left"]) == ("stage 1 of 2", "83 s left")
        bar.end(result("F"))
        assert task.completed == pytest.approx(100)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.12, "0.1 s"), (30, "30 s"), (119, "119 s"), (150, "2 min"), (9000, "2.5 h")]
)
def test_times_are_told_as_people_say_them(seconds, said):
    assert duration(seconds) == said
