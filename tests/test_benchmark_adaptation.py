"""The benchmark of a whole adaptation runs, and tells what it is made for."""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "benchmarks/adaptation.py"


def test_both_modes_tell_seconds_parts_epochs_and_accuracies(tmp_path):
    command = [sys.executable, str(SCRIPT), "--quick", "--out", str(tmp_path / "found.json")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    found = json.loads((tmp_path / "found.json").read_text())
    assert {mode: len(one["learners"]) for mode, one in found["modes"].items()} == {"alone": 1, "side by side": 3}
    for one in found["modes"].values():
        assert 0 < sum(one["parts"].values()) <= one["seconds"] + 0.01 * len(one["parts"])
        assert [learner["seed"] for learner in one["learners"]] == list(range(len(one["learners"])))
        for learner in one["learners"]:
            assert all(1 <= epochs <= 2 for epochs in learner["epochs"])
            assert all(0 <= share <= 1 for share in learner["test"].values())
            assert list(learner["test"]) == ["fiction", "government"]
    assert found["machine"].startswith("CPU")


def test_without_data_it_says_what_to_give():
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True)
    assert done.returncode == 2
    assert "give --data and --vectors, or --quick" in done.stderr
