"""Progress: a bar on a terminal that fits and goes away, now and then a line elsewhere."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from memgrow.experiments.plan import Job, Result, Task
from memgrow.experiments.run import Record, Run
from memgrow.history import Stage
from memgrow.methods import Grew
from memgrow.progress import Step
from memgrow.report.pace import Pace, duration
from memgrow.report.progress_bars import (
    LOG_EVERY_S,
    DownloadBar,
    GridBar,
    PartsBar,
    TrainingBar,
    job_line,
)

NAMES = ("[books]", "dvds")
WIDTH = 80
CONTROL = re.compile(r"\x1b\[[0-9?]*[A-Za-z]")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def log() -> Console:
    return Console(file=io.StringIO(), width=WIDTH, highlight=False)


def terminal() -> Console:
    return Console(file=io.StringIO(), width=WIDTH, force_terminal=True, color_system=None, legacy_windows=False)


def frames(bar) -> list[str]:
    """The lines of a terminal, the bar each time that it was drawn."""
    bar.refresh()
    lines = CONTROL.sub("\n", bar.console.file.getvalue()).splitlines()
    return [line.rstrip() for line in lines if line.strip()]


# Training


def test_a_log_gets_a_line_now_and_then_and_no_bar():
    console, clock = log(), Clock()
    with TrainingBar(console, clock) as bar:
        for second in range(0, 100, 5):
            clock.now = float(second)
            bar.step(Step("[books]", 2, 20, second, 100, 0.5, 0.25, 0.75))
    said, *lines = console.file.getvalue().splitlines()
    assert said == "[books]: at most about 33 min for 20 epochs"  # 2,000 batches of a second
    state = "[books]: epoch 2/20 loss 0.500 acc 25.0% best 75.0%"
    assert lines == [f"{state}, {left} min left" for left in (31, 31, 30)]


def test_a_short_training_leaves_a_log_alone():
    console = log()
    with TrainingBar(console, Clock()) as bar:
        bar.step(Step("books", 1, 1, 1, 1, 0.5, 0.25))
    assert console.file.getvalue() == ""


@pytest.mark.parametrize("name", ["books", "[/bold]", "a name that has no room in a bar of eighty columns"])
def test_a_terminal_gets_a_bar_that_fits_on_one_line_and_goes_away(name):
    console = terminal()
    with TrainingBar(console) as bar:
        bar.step(Step(name, 20, 20, 99, 100, 12.3456, 1.0, 1.0))
        drawn, shown = frames(bar), console.file.getvalue()
        bar.note("a [note]")
    assert drawn
    assert all(len(frame) <= WIDTH and name[:4] in frame and "best 100.0%" in frame for frame in drawn)
    assert "a [note]" in console.file.getvalue()
    assert "\x1b[2K" in console.file.getvalue()[len(shown) :]


@pytest.mark.parametrize(
    ("seconds", "steps", "each"), [(0.9, 90, None), (1.0, 8, None), (2.0, 16, 0.125), (3.0, 4, None), (3.0, 5, 0.6)]
)
def test_a_few_short_steps_do_not_tell_how_long_all_take(seconds, steps, each):
    assert Pace(10.0, 3).each(10.0 + seconds, 3 + steps) == each


def test_one_bar_at_a_time():
    with TrainingBar(terminal()) as bar:
        for domain in ("books", "dvds"):
            bar.step(Step(domain, 1, 2, 1, 2, 0.5, 0.5))
        assert frames(bar)[-1].startswith("dvds")
        assert not any("books" in frame and "dvds" in frame for frame in frames(bar))
        before = len(frames(bar))
        bar.clear()
        assert len(frames(bar)) == before


def test_the_first_steps_tell_once_how_long_all_domains_take_and_the_bar_agrees():
    console, clock = terminal(), Clock()
    with TrainingBar(console, clock) as bar:
        bar.coming = {"books": 40, "dvds": 80}  # steps
        for done in range(1, 10):
            clock.now += 4.0 if done == 1 else 0.5  # the first step of all takes longer
            bar.step(Step("books", 1, 4, done, 10, 0.5, 0.5))
        said = [line for line in frames(bar) if "at most" in line]
        assert said == ["books: at most about 20 s for 4 epochs, 60 s for all 2 domains"]
        assert frames(bar)[-1].endswith(", 16 s left")  # 31 of 40 batches
        del bar.coming["books"]
        for done in range(1, 10):
            clock.now += 1.0
            bar.step(Step("dvds", 1, 4, done, 20, 0.5, 0.5))
        assert frames(bar)[-1].endswith(", 71 s left")
    assert "dvds: at most about 80 s for 4 epochs" in console.file.getvalue()
    assert console.file.getvalue().count("at most") == 2


def test_a_training_that_goes_on_where_it_was_is_measured_from_there():
    console, clock = terminal(), Clock()
    with TrainingBar(console, clock) as bar:
        for done in range(50, 60):
            clock.now += 1.0
            bar.step(Step("books", 1, 1, done, 100, 0.5, 0.5))
        assert frames(bar)[-1].endswith(", 41 s left")


def test_of_replies_the_bar_tells_the_perplexity():
    with TrainingBar(terminal()) as bar:
        bar.replies = True
        bar.step(Step("films", 2, 4, 1, 2, 0.5, 0.5, 0.02))
        assert "best perplexity 50.00" in frames(bar)[-1]


# Parts, and what is fetched


def test_parts_are_counted_from_the_beginning():
    with PartsBar(terminal(), "Theorem 1", 3) as bar:
        assert "Theorem 1" in frames(bar)[-1]
        assert "0/3" in frames(bar)[-1]
        bar.tick("draws of [slots]")
        assert "draws of [slots]" in frames(bar)[-1]
        assert "1/3" in frames(bar)[-1]


def test_parts_in_a_log():
    console, clock = log(), Clock()
    with PartsBar(console, "Theorem 1", 3, clock) as bar:
        for part in ("one", "two", "three"):
            clock.now += LOG_EVERY_S / 2
            bar.tick(part)
    assert console.file.getvalue() == "Theorem 1: 2 of 3 parts done (two)\n"


def test_what_is_fetched_has_its_share_where_its_size_is_known():
    with DownloadBar(terminal(), "ubuntu") as bar:
        bar.watch("downloading", 10, None)
        assert "%" not in frames(bar)[-1]
        bar.watch("unpacking", 10, 40)
        assert frames(bar)[-1].startswith("unpacking")
        assert "25%" in frames(bar)[-1]


def test_what_is_fetched_in_a_log():
    console, clock = log(), Clock()
    with DownloadBar(console, "ubuntu", clock) as bar:
        for doing, total in (("downloading", None), ("unpacking", 40)):
            clock.now += LOG_EVERY_S
            bar.watch(doing, 10, total)
    assert console.file.getvalue() == "ubuntu: downloading\nubuntu: unpacking, 25%\n"


# A grid


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


def test_shares_that_validation_chose_are_told_as_their_mean():
    ended = result("F+A", seeds=(0, 1))
    notes = [{"keep": keep, "keep_chosen": "auto"} for keep in (0.2, 0.4)]
    records = [
        replace(one, stage=replace(one.stage, note=note)) for one, note in zip(ended.records, notes, strict=True)
    ]
    told = job_line(replace(ended, records=tuple(records))).plain
    assert told == "dvds by F+A, seeds 0 to 1: validation 50.0%, 30 s, went 30% back"


def test_a_log_gets_a_line_for_each_job_with_the_time_left():
    console, clock = log(), Clock()
    with GridBar(console, clock) as bar:
        bar.begin(4, 400.0)
        for number in range(4):
            clock.now += 60.0
            ended = result("F", seeds=(number,))
            bar.step(ended.job, Step("dvds", 1, 2, 1, 2, 0.5, 0.5))
            bar.end(ended)
    told, *lines = console.file.getvalue().splitlines()
    assert told == "at most about 16 min for 4 stages"  # by half an epoch of two of the first
    assert [line.partition(" (")[2] for line in lines] == [
        "1 of 4, 3 min left)",
        "2 of 4, 2 min left)",
        "3 of 4, 60 s left)",
        "4 of 4)",
    ]


def test_a_terminal_shows_a_bar_that_moves_within_a_job():
    console, clock = terminal(), Clock()
    with GridBar(console, clock) as bar:
        bar.begin(2, 200.0)
        empty = frames(bar)[-1]
        clock.now = 50.0
        bar.step(result("F").job, Step("dvds", 2, 2, 5, 10, 0.5, 0.5))
        moved = frames(bar)[-1]
        assert moved.startswith("stage 1 of 2 ")
        assert moved.endswith(" 83 s left")  # three eighths are done
        assert "left" not in empty
        bar.end(result("F"))
        assert frames(bar)[-1].startswith("stage 2 of 2 ")
        assert "dvds by F, seed 0: validation 50.0%, 30 s" in console.file.getvalue()


def test_on_a_cluster_the_bar_and_the_lines_tell_what_runs_where():
    console, clock = terminal(), Clock()
    jobs = [result("F", seeds=(number,)) for number in range(5)]
    with GridBar(console, clock) as bar:
        bar.begin(5, 500.0)
        for one, where in zip(jobs, ("b", "a", "b", "c", "d"), strict=True):
            bar.start(one.job, where)
        assert frames(bar)[-1].endswith("1 on a, 2 on b, 1 on c, 1 more node")
        bar.end(replace(jobs[0], where="b"))
        assert "1 on a, 1 on b, 1 on c, 1 more node" in frames(bar)[-1]
        assert "seed 0: validation 50.0%, 30 s, on b" in console.file.getvalue()


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.12, "0.1 s"), (30, "30 s"), (119, "119 s"), (150, "2 min"), (9000, "2.5 h")]
)
def test_times_are_told_as_people_say_them(seconds, said):
    assert duration(seconds) == said
