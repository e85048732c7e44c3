"""Progress: a bar on a terminal that fits and goes away, now and then a line elsewhere."""

import io
import re

import pytest
from rich.console import Console

from memgrow.report.pace import Pace, duration
from memgrow.report.progress_bars import (
    LOG_EVERY_S,
    DownloadBar,
    TrainingBar,
)
from memgrow.training.progress import Step

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


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.12, "0.1 s"), (30, "30 s"), (119, "119 s"), (150, "2 min"), (9000, "2.5 h")]
)
def test_times_are_told_as_people_say_them(seconds, said):
    assert duration(seconds) == said
