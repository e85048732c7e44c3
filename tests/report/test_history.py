"""The table of `memgrow history`: at eighty columns every figure is whole, whatever the names are."""

import pytest
from memgrow.versions import SavedVersion

from memgrow.evaluation.history import Grew, History, Stage
from memgrow.report.history import history_table, in_bytes
from tests.report.test_learner import show


def history_of(names, notes=None) -> History:
    history = History()
    for number, name in enumerate(names):
        note = (notes or {}).get(number, {})
        date = f"2026-01-{number % 28 + 1:02}T10:00:00+00:00" if number else None
        scores = dict.fromkeys(names[: number + 1], 0.9 - 0.01 * number)
        history.add(Stage((name,), "F+M+V+Q+A+E", Grew(), 1, 390_000, 20, 18, 0.987, 1.5, "", note, date=date), scores)
    return history


@pytest.mark.parametrize("length", [1, 9, 60])
@pytest.mark.parametrize("count", [1, 3, 120])
def test_every_figure_is_whole(count, length):
    names = [f"{number}".ljust(length, "x") for number in range(count)]
    history = history_of(names, {number: {"keep": 0.3} for number in range(count)})
    versions = [SavedVersion(count, history, 10**12, 10**12), SavedVersion(count - 1, None, 0, 0)]
    out = show(history_table(history, versions))
    rows = [line for line in out.splitlines() if " 98.7 " in line]
    assert len(rows) == count
    assert rows[-1].split()[-2:] == ["1,000,000.0", "MB"]
    for number, row in enumerate(rows):
        assert "390,000" in row
        assert f"{90 - number:.1f}" in row.split()
        assert (f"2026-01-{number % 28 + 1:02}" in row) == (number > 0)
        assert ("damaged" in row) == (number == count - 2)


def test_a_share_kept_is_shown_only_where_there_is_one():
    assert "kept" not in show(history_table(history_of(["a", "b"], {0: {"keep": 0.5}}), []))
    out = show(history_table(history_of(["a", "b"], {0: {"keep": 0.5}, 1: {"keep": 0.3}}), []))
    first, second = (line.split() for line in out.splitlines() if " 98.7 " in line)
    assert "50" not in first, "there was nothing to go back to"
    assert "30" in second


def test_a_size_is_written_as_people_read_it():
    assert [in_bytes(size) for size in (0, 5_000, 99_999, 100_000, 2_345_678)] == [
        "0.0 kB",
        "5.0 kB",
        "100.0 kB",
        "0.1 MB",
        "2.3 MB",
    ]
