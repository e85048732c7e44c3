"""The files that memory is measured on are the same in every run and are read as they were meant."""

import json
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from benchmarks import big_files
from memgrow.data import load_stream

ROOT = Path(__file__).parents[2]


def test_a_made_up_file_is_the_same_again_and_can_be_learnt(tmp_path):
    paths = [tmp_path / name for name in ("one.jsonl", "two.jsonl")]
    rows = [big_files.make(path, 30_000) for path in paths]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert 30_000 <= paths[0].stat().st_size < 45_000
    domain = load_stream(paths[0]).stream[0]
    assert len(domain.train) + len(domain.validation) + len(domain.test) == rows[0] == rows[1]
    assert domain.labels == ("bad", "good")


def test_the_memory_of_a_command_is_its_own():
    code = (
        "import sys, json; sys.path[:0] = ['benchmarks']; import big_files\n"
        "fill = 'x = bytearray({} << 20); x[::4096] = bytes(len(x[::4096]))'\n"
        "print(json.dumps([big_files.measured([sys.executable, '-c', fill.format(n)])['peak_mib'] for n in (20, 80)]))"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    small, large = json.loads(said)
    assert 50 < large - small < 70


def test_parts_of_a_run_are_merged_the_later_over_the_earlier():
    one = {"runs": [{"mb": 5, "mean_letters": 10, "adapt": 1}, {"mb": 1, "mean_letters": 10}], "reading": {"mb": 2}}
    two = {"runs": [{"mb": 5, "mean_letters": 10, "adapt": 3, "predict": 2}, {"mb": 5, "mean_letters": 10, "limit": 4}]}
    found = big_files.merged(one, two)
    assert [big_files.key_of(run) for run in found["runs"]] == [(1, 10, 0), (5, 10, 0), (5, 10, 4)]
    assert found["runs"][1] == {"mb": 5, "mean_letters": 10, "adapt": 3, "predict": 2}
    assert found["reading"] == {"mb": 2}


def test_the_whole_run_measures_all_that_the_pages_show():
    known = json.loads((ROOT / "results/big-files.json").read_text(encoding="utf-8"))
    shown = {big_files.key_of(run): run.keys() & set(big_files.COMMANDS) for run in known["runs"]}
    whole = {(job.mb, big_files.MEAN_LETTERS, job.limit or 0): set(job.only) for job in big_files.WHOLE}
    assert whole.items() <= shown.items()
    assert known["reading"]["mb"] == big_files.WHOLE_READING


def test_the_largest_file_is_predicted_beside_all_else_and_nothing_is_left_out():
    one, other = big_files.two_orders(big_files.WHOLE[1:])
    assert one == [(big_files.WHOLE[-1], "predict")]
    assert other[-1] == (big_files.WHOLE[-1], "adapt")
    assert len(one) + len(other) == 2 * len(big_files.WHOLE[1:])


def test_a_run_that_was_stopped_measures_what_is_missing_alone(tmp_path, monkeypatch):
    taken = []
    monkeypatch.setattr(big_files, "adapted", lambda path, model, limit: taken.append(path.name) or {"seconds": 1})
    monkeypatch.setattr(big_files, "predicted", lambda path, model: taken.append(path.name) or {"seconds": 2})
    for turn in range(2):
        measurement = big_files.Measurement(tmp_path, 100, tmp_path / "found.json")
        monkeypatch.setattr(measurement, "file_of", lambda mb: (tmp_path / f"{mb}", 7))
        measurement.measure(big_files.Job(3), "adapt")
        if turn:
            measurement.measure(big_files.Job(3), "predict")
    assert taken == ["3", "3"]
    (run,) = measurement.found["runs"]
    assert run == {"mb": 3, "mean_letters": 100, "rows": 7, "adapt": {"seconds": 1}, "predict": {"seconds": 2}}


def test_who_waits_for_a_file_that_cannot_be_made_is_told(tmp_path, monkeypatch):
    def fail(command, **options):
        raise subprocess.CalledProcessError(1, command)

    measurement = big_files.Measurement(tmp_path, 100, None)
    monkeypatch.setattr(subprocess, "run", fail)
    told = []

    def ask():
        with pytest.raises(subprocess.CalledProcessError) as error:
            measurement.file_of(1)
        told.append(error.value)

    for _ in range(2):  # who makes it, and who waits: in a thread of its own, so that this test cannot wait for ever
        asking = Thread(target=ask, daemon=True)
        asking.start()
        asking.join(5)
    assert len(told) == 2
