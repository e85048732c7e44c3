"""The benchmark of a whole adaptation runs, and tells what it is made for."""

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks/adaptation.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("adaptation", SCRIPT)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["adaptation"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.extras
@pytest.mark.slow
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
    assert found["command"] == "benchmarks/adaptation.py --quick --out FILE"


def test_the_figures_that_are_quoted_name_the_command_that_decided_them(benchmark):
    found = json.loads((ROOT / "results/adaptation-h200.json").read_text())
    script, *words = shlex.split(found["command"])
    assert (ROOT / script).is_file()
    asked = benchmark.options().parse_args(words)
    assert asked.tf32 == (found["precision"] == "TF32")
    assert asked.modes == list(found["modes"])


def test_without_data_it_says_what_to_give(benchmark, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT)])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    assert ended.value.code == 2
    assert "give --data and --vectors, or --quick" in capsys.readouterr().err
