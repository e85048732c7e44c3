"""The benchmark of exported models runs, and both answer alike."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiny_encoder import make_encoder

ROOT = Path(__file__).parents[2]


@pytest.mark.extras
def test_it_tells_times_ratios_and_how_far_both_are_apart(tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'memgrow[onnx]'")
    folder, out = make_encoder(tmp_path / "encoder"), tmp_path / "found.json"
    command = [sys.executable, str(ROOT / "benchmarks/export.py"), "--quick", "--encoder", str(folder)]
    subprocess.run(
        [*command, "--threads", "1", "--out", str(out)],
        check=True,
        capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    models = json.loads(out.read_text(encoding="utf-8"))["models"]
    assert models.keys() == {"BiLSTM of 32, 32 slots", "encoder"}
    for one in models.values():
        assert one["same_labels"] == one["texts"] == 40
        assert one["largest_difference"] < 1e-4
        for size in (1, 32):
            assert one[f"batches of {size}"]["times_as_fast"] > 0
