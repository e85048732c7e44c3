"""Progress: a bar on a terminal, now and then a line elsewhere."""

import io

import pytest
from rich.console import Console

from memgrow.progress import Step
from memgrow.report import bar as bar_module
from memgrow.report.bar import Bar


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(bar_module.time, "monotonic", lambda: now[0])
    return now


def log() -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=80, highlight=False), file


def terminal() -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=80, force_terminal=True, color_system=None, legacy_windows=False), file


def test_a_log_gets_a_line_now_and_then_and_no_bar(clock):
    console, file = log()
    with Bar(console) as bar:
        for second in range(0, 100, 5):
            clock[0] = float(second)
            bar.step(Step("[books]", 2, 20, second, 100, 0.5, 0.25, 0.75))
    lines = file.getvalue().splitlines()
    assert lines == ["[books]: epoch 2/20 loss 0.500 acc 25.0% best 75.0%"] * 3


def test_a_short_training_leaves_a_log_alone(clock):
    console, file = log()
    with Bar(console) as bar:
        bar.step(Step("books", 1, 1, 1, 1, 0.5, 0.25))
    assert file.getvalue() == ""


@pytest.mark.parametrize("name", ["books", "[/bold]", "a name that has no room in a bar of eighty columns"])
def test_a_terminal_gets_a_bar_that_fits_on_one_line_and_goes_away(name):
    console, file = terminal()
    with Bar(console) as bar:
        bar.step(Step(name, 20, 20, 99, 100, 12.3456, 1.0, 1.0))
        bar._bars.refresh()
        shown = file.getvalue()
        bar.note("a [note]")
    frames = [frame for frame in shown.replace("\x1b[2K", "\n").splitlines() if "epoch" in frame]
    assert frames
    assert all(len(frame) <= 80 and name[:4] in frame and "best 100.0%" in frame for frame in frames)
    assert "a [note]" in file.getvalue()
    assert "\x1b[2K" in file.getvalue()[len(shown) :]


def test_one_bar_at_a_time():
    console, _ = terminal()
    with Bar(console) as bar:
        for domain in ("books", "dvds"):
            bar.step(Step(domain, 1, 2, 1, 2, 0.5, 0.5))
        assert [task.description for task in bar._bars.tasks] == ["dvds"]
        bar.done()
        assert bar._bars.tasks == []
