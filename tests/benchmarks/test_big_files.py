"""The files that memory is measured on are the same in every run and are read as they were meant."""

import json
import subprocess
import sys
from pathlib import Path

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
        "print(json.dumps([big_files.measured([sys.executable, '-c', fill.format(n)])['peak_mib'] for n in (1, 60)]))"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    small, large = json.loads(said)
    assert 50 < large - small < 70
