"""Bars on a terminal, lines in a log."""

from io import StringIO

import pytest
from rich.console import Console

from memgrow.evaluation import progress_bars
from memgrow.evaluation.progress_bars import TrainingBar
from memgrow.training.progress import Step


def run(console: Console) -> None:
    with TrainingBar(console) as bar:
        bar.step(Step("[books]", 1, 3, 0, 10))
        bar.step(Step("[books]", 2, 3, 5, 10, loss=0.5, accuracy=0.75, validation=0.8))
        bar._bars.refresh()
        bar.note("a [sentence]")
        bar.step(Step("dvds", 1, 3, 5, 10, loss=0.4, accuracy=0.5))
        bar.clear()


def test_a_terminal_has_a_bar_for_each_domain():
    out = StringIO()
    run(Console(file=out, force_terminal=True, width=100))
    text = out.getvalue()
    for part in ("[books]", "epoch 2/3 loss 0.500 acc 75.0% best 80.0%", "a [sentence]"):
        assert part in text


@pytest.mark.parametrize(("every", "lines"), [(0.0, 4), (1e9, 1)])
def test_a_log_has_lines_now_and_then_and_no_bars(monkeypatch, every, lines):
    monkeypatch.setattr(progress_bars, "LOG_EVERY_S", every)
    out = StringIO()
    run(Console(file=out, width=100))
    assert len(out.getvalue().splitlines()) == lines
    assert "\x1b" not in out.getvalue()
    assert ("[books]: epoch 2/3" in out.getvalue()) == (lines > 1)
