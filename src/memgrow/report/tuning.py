"""A search for settings in the terminal and as a picture: how far it is, what it found, and what mattered."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.text import Text

from memgrow.experiments.tuning.trials import COMPLETE, FAILED, Found, Tried
from memgrow.report.plots import COLOUR, DPI, REFERENCE, new_figure
from memgrow.report.progress_bars import ProgressBar
from memgrow.report.table import Column, Table, numbers, percent, score_cell, validation_text

PANELS = 4  # settings that are drawn, those that mattered most
SIDE = 2.9  # inches of a panel


class SearchBar(ProgressBar):
    """Shows how far a search is, with a line for each trial that has ended."""

    def __init__(self, console: Console, replies: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, clock=clock)
        self._replies, self._done, self._trials = replies, 0, 0
        self._shares: dict[int, float] = {}  # of the trials under way
        self._places: dict[int, str] = {}
        self._best = ""

    def begin(self, done: int, trials: int) -> None:
        self._done, self._trials = done, trials
        if done:
            self.note(f"{done} of {trials} trials are there already")
        self._show()

    def moved(self, number: int, share: float, where: str) -> None:
        self._shares[number] = share
        if where:
            self._places[number] = where
        self._show()

    def ended(self, trial: Tried, best: Tried | None) -> None:
        self._shares.pop(trial.number, None)
        where = self._places.pop(trial.number, "")
        self._done += 1
        if best is not None:
            self._best = f"best {validation_text(best.scores[-1], self._replies)}"
        self.say(
            trial_line(trial, self._replies, is_best=best is not None and best.number == trial.number, where=where)
        )
        self._show()

    def _show(self) -> None:
        nodes = Counter(self._places[number] for number in self._shares if number in self._places)
        where = ", ".join(f"{count} on {name}" for name, count in sorted(nodes.items()))
        name = f"trial {min(self._done + 1, self._trials)} of {self._trials}"
        state = ", ".join(filter(None, (where, self._best)))
        self.show(name, self._done + sum(self._shares.values()), self._trials, state, f"{name}, {state}")


def trial_line(trial: Tried, replies: bool, is_best: bool = False, where: str = "") -> Text:
    """A line about a trial: its settings, and how it ended."""
    values = ", ".join(f"{short(name)} {value:.3g}" for name, value in trial.values.items())
    line = Text.assemble((f"trial {trial.number}", "bold"), f": {values}")
    if trial.state == FAILED:
        return line.append(f": failed: {trial.reason}", "red")
    if trial.scores:
        line.append(f": validation {validation_text(trial.scores[-1], replies)}")
    if trial.state != COMPLETE:
        line.append(f", given up after {len(trial.scores)} of its stages", "dim")
    elif is_best:
        line.append(", the best so far", "green")
    return line.append(f", on {where}", "dim") if where else line


def best_table(found: Found, replies: bool, rows: int = 5) -> Table:
    """The best trials, and below a line how much each setting mattered."""
    names = list(found.space)
    complete = sorted(
        (one for one in found.trials if one.state == COMPLETE), key=lambda one: (-one.scores[-1], one.number)
    )
    lines = [
        (str(one.number), *(f"{one.values[name]:.3g}" for name in names), score_cell(one.scores[-1], replies))
        for one in complete[:rows]
    ]
    if found.importances:
        lines.append(("mattered", *(f"{percent(found.importances.get(name), digits=0)}%" for name in names), ""))
    return Table(
        "the best trials",
        [Column("trial", wrap="never"), *numbers(*map(short, names), "perplexity" if replies else "validation, %")],
        lines,
        layout="narrow",
        lines_above=[len(lines) - 1] if found.importances else (),
    )


def draw_search(found: Found, path: str | Path | BinaryIO, title: str, replies: bool) -> None:
    """Draw how much each setting mattered, and the scores of all trials against those that mattered most."""
    names = list(found.importances or found.space)
    shown = names[:PANELS]
    figure = new_figure(SIDE * (1.2 + len(shown)), SIDE + 0.5)
    axes = figure.subplots(1, 1 + len(shown), width_ratios=[1.2, *(1 for _ in shown)])
    bars = axes[0]
    bars.barh([short(name) for name in names], [100 * found.importances.get(name, 0.0) for name in names], color=COLOUR)
    bars.invert_yaxis()
    bars.set_xlabel("share of the variance of\nthe score, % (fANOVA)")
    bars.spines[["top", "right"]].set_visible(False)
    ended = [trial for trial in found.trials if trial.scores]
    for axis, name in zip(axes[1:], shown, strict=True):
        for trial in ended:
            whole = trial.state == COMPLETE
            score = 100 * trial.scores[-1]
            axis.plot(
                trial.values[name], score, "o" if whole else "x", color=COLOUR if whole else "#8a8a8a", alpha=0.6, ms=5
            )
        if found.best is not None:
            best = (found.best.values[name], 100 * found.best.scores[-1])
            axis.plot(*best, "o", mfc="none", mec=next(iter(reversed(REFERENCE.values()))), ms=11, mew=2)
        if found.space[name].log:
            axis.set_xscale("log")
        axis.set_xlabel(short(name))
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.sharey(axes[1])
    axes[1].set_ylabel("100 / validation perplexity" if replies else "validation accuracy, %")
    figure.suptitle(
        f"{title}\n(ring: the best; crosses: given up early, with the score that they had then)", fontsize=11
    )
    figure.savefig(path, dpi=DPI)


def short(name: str) -> str:
    """The name of a setting without its section."""
    return name.partition(".")[2]
