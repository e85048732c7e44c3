"""The benchmark of pretrained encoders runs, and its rivals answer alike."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiny_encoder import make_encoder

ROOT = Path(__file__).parents[2]


@pytest.mark.extras
@pytest.mark.slow
def test_every_part_tells_seconds_memory_and_ratios(tmp_path):
    folder, out = make_encoder(tmp_path / "encoder"), tmp_path / "found.json"
    command = [
        sys.executable,
        str(ROOT / "benchmarks/encoders.py"),
        "--encoder",
        str(folder),
        "--quick",
        "--methods",
        "ridge",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "--threads", "1", "--out", str(out)], check=True, capture_output=True, env=environment)
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["predict"]["rivals"].keys() >= {"memgrow", "AutoModel, sorted batches of 32"}
    for rival in found["predict"]["rivals"].values():
        assert rival["same_labels"] >= 0.98
        assert rival["largest_difference"] < 0.1  # memgrow calibrates its probabilities
    for rival in (*found["predict"]["rivals"].values(), *found["train"]["rivals"].values()):
        assert rival["seconds"] > 0
        assert rival["peak_mib"] > 10
        assert rival["times_memgrow"] > 0
    assert found["train"]["rivals"]["memgrow"]["steps"] == 2
    for method in found["adapt"].values():
        assert len(method["stages"]) == 4
        assert 0 < method["average"] <= 1
