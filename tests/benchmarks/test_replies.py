"""The benchmark of training to reply runs, and tells what it is made for."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/replies.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("benchmark_of_replies", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.extras
@pytest.mark.slow
def test_both_ways_are_timed_on_the_same_batches(tmp_path):
    lengths, out = tmp_path / "lengths.txt", tmp_path / "found.json"
    lengths.write_text("3 5\n8 2\n4 4\n1 6\n" * 10)
    words = ("--quick", "--lengths", lengths, "--batch", 8, "--steps", 2, "--rounds", 1, "--out", out)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *map(str, (SCRIPT, *words))], env=environment, check=True, capture_output=True)
    found = json.loads(out.read_text())
    assert found["mean_lengths"] == [4.0, 4.2]
    assert (found["batch"], found["steps"], found["epoch"]["pairs"]) == (8, 2, 115_380)
    for variant in ("plain loop", "memgrow"):
        a_second, epoch = found["examples_per_second"][variant], found["epoch"]["seconds"][variant]
        assert a_second * epoch == pytest.approx(115_380, rel=0.02)
        assert all(value >= 0 for value in found["milliseconds_of_parts"][variant].values())
    ratio = found["examples_per_second"]["memgrow"] / found["examples_per_second"]["plain loop"]
    assert found["times_plain_loop"]["memgrow"] == pytest.approx(ratio, abs=0.02)


def test_few_batches_stand_for_an_epoch(benchmark):
    lengths = benchmark.drawn_lengths(6400)
    data = benchmark.made_up(lengths, 100)
    chosen = [index for batch in benchmark.some_batches(data, 64, 10) for index in batch]
    whole, few = ([sum(lengths[index]) for index in some] for some in (range(6400), chosen))
    assert sum(few) / len(few) == pytest.approx(sum(whole) / len(whole), rel=0.2)


def test_the_sizes_are_the_papers(benchmark):
    size = benchmark.paper()
    assert (size.model.cell, size.model.hidden, size.model.slots, size.words) == ("gru", 1024, 1024, 27_000)
