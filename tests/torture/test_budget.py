"""The bookkeeping of `make torture`, which itself takes minutes."""

import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from torture.budget import ROOT, Budget, Outcome, Report, merge, tail, without_machine_paths
from torture.children import in_child, spread
from torture.confined import confined
from torture.fail_points import fill_before, kill_before


def test_counts_of_parts_stand_beside_those_of_other_parts(tmp_path):
    path = tmp_path / "counts.json"
    merge(path, {"cores": 2}, {"kills": Outcome({"kills": 7}, 1.6, 3), "saves": Outcome({"kills": 5}, 1.0, 3)})
    merge(path, {"cores": 4}, {"kills": Outcome({"kills": 9}, 2.0, 4, ("it broke",))})
    parts = json.loads(path.read_text())["parts"]
    assert parts["saves"] == {"counts": {"kills": 5}, "seconds": 1, "seed": 3, "failures": [], "cores": 2}
    assert parts["kills"] == {"counts": {"kills": 9}, "seconds": 2, "seed": 4, "failures": ["it broke"], "cores": 4}


def test_chance_is_the_seeds_alone_and_time_runs_out():
    assert Budget(1, 7).random("a", 1).random() == Budget(9, 7).random("a", 1).random()
    assert Budget(1, 7).random("a", 1).random() != Budget(1, 8).random("a", 1).random()
    assert not Budget(60, 7).over
    assert Budget(0, 7).over


def test_a_failure_is_kept_with_what_repeats_it(capsys):
    report = Report("kills", 5)
    report.fail("a domain is lost")
    assert report.failures == ["a domain is lost"]
    assert report.repeat == "python -m torture --parts kills --seed 5"
    assert "FAILED: a domain is lost" in capsys.readouterr().err


def fault_of(work):
    try:
        work()
    except Exception:
        return traceback.format_exc()


def test_a_failure_is_recorded_without_paths_of_the_machine(tmp_path):
    report = Report("damage", 5)
    (missing := tmp_path / "a folder").mkdir()
    report.fail(fault_of((missing / "model.json").read_text))
    report.fail(f"{fault_of(lambda: json.loads('{'))} of {missing / 'b'}, {tmp_path / 'c'}: refused")
    words = [sys.executable, str(tmp_path / "guided"), f"{ROOT}/torture/a.py"]
    report.fail(str(subprocess.CalledProcessError(1, words)))
    merge(tmp_path / "counts.json", {}, {"damage": Outcome({}, 1.0, 5, tuple(report.failures))})
    recorded = (tmp_path / "counts.json").read_text()
    homes = (tmp_path, tmp_path.parent, ROOT, ROOT.parent, Path(json.__file__).parent, Path(sys.executable).parent)
    assert not any(f"{home}/" in recorded for home in homes)
    first, second, third = report.failures
    assert 'File "tests/torture/test_budget.py", line ' in first
    assert first.endswith("No such file or directory: 'model.json'\n")
    assert 'File "decoder.py", line ' in second
    assert second.endswith(" c: refused")
    assert third.endswith("'guided', 'torture/a.py']' returned non-zero exit status 1.")


@pytest.mark.parametrize("plain", ["3/4 of it and/or more", "see https://example.org/a/b", "1 / 2", "ends in /"])
def test_what_is_no_path_is_recorded_as_it_is(plain):
    assert without_machine_paths(plain) == plain


def test_what_is_cut_off_begins_with_no_piece_of_a_path():
    said = f'  File "{ROOT}/torture/damage.py", line 1\n'
    short = '  File "torture/damage.py", line 1\n'
    for length in range(1, len(said) + 1):
        assert tail(said, length) == tail(said.encode(), length) == short[-length:]
    fault = confined(lambda: json.loads("{")).fault
    assert fault.endswith("(char 1)\n")
    assert str(ROOT) not in fault


def test_a_child_is_killed_before_the_operation_and_not_elsewhere(tmp_path):
    def work():
        kill_before(1, tmp_path / "here")
        for name in ("here", "there", "here/a"):
            (tmp_path / name).mkdir()

    assert in_child(work) == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["here", "there"]


def test_from_some_operation_on_nothing_finds_room_but_can_be_read_and_removed(tmp_path):
    def work():
        fill_before(1, tmp_path)
        (tmp_path / "a").write_text("a")
        assert (tmp_path / "a").read_text() == "a"
        for make in (lambda: (tmp_path / "b").write_text("b"), lambda: (tmp_path / "c").mkdir()):
            with pytest.raises(OSError, match="No space left on device"):
                make()
        (tmp_path / "a").unlink()

    assert in_child(work) == 0
    assert list(tmp_path.iterdir()) == []


def test_work_is_spread_over_processes():
    parent = os.getpid()
    assert sorted(spread(lambda number: (number, os.getpid() != parent), 5, 2)) == [(n, True) for n in range(5)]
