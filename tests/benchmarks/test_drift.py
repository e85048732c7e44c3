"""The benchmark of drift, in small: minutes, as it trains a model for each domain that is left out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.extras
def test_it_counts_false_alarms_and_new_texts(tmp_path):
    words = ["--streams", "demo", "--windows", "4", "--runs", "2", "--out", str(tmp_path / "drift.json")]
    subprocess.run([sys.executable, str(ROOT / "benchmarks/drift.py"), *words], check=True, timeout=600)
    rounds = json.loads((tmp_path / "drift.json").read_text())["streams"]["demo"]["rounds"]
    assert [len(one["learnt"]) for one in rounds] == [3] * 4
    for one in rounds:
        assert sum(kind["alarms"] for kind in one["false alarms"].values()) <= 1
        assert one["noticing"]["1"]["noticed"] == 2
        assert one["own vectors"]["one domain later"] > one["own vectors"]["when it has just been learnt"]
