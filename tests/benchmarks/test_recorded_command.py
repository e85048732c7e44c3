"""Results name the command that was really given, without the places of one machine."""

import shlex
import sys
from pathlib import Path

import pytest

from recorded_command import recorded_command

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = str(ROOT / "benchmarks/speed.py")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--quick", "--modes", "alone, plain loop", "alone"],
        ["--rounds=3", "--out", "results/speed.json", "--set", "model.slots=0"],
    ],
)
def test_words_are_recorded_as_they_were_given(monkeypatch, words):
    monkeypatch.setattr(sys, "argv", [SCRIPT, *words])
    assert shlex.split(recorded_command(SCRIPT)) == ["benchmarks/speed.py", *words]


def test_a_path_of_one_machine_is_not_recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outside = tmp_path / "vectors.txt"
    given = ["--data", str(tmp_path), f"--vectors={outside}", "--encoder", f"minilm={tmp_path}", "--lengths", "~/one"]
    told = recorded_command(SCRIPT, [*given, "--work", "../elsewhere", "--out", str(ROOT / "results/speed.json")])
    assert told == (
        "benchmarks/speed.py --data FOLDER --vectors=FILE --encoder minilm=FOLDER --lengths FILE --work FILE "
        "--out results/speed.json"
    )
