"""Peers: all systems get the same rows, and a run tells what was forgotten."""

import gzip
import json
from argparse import Namespace

import pytest

from benchmarks import peers

NAMES = ("agnews", "amazon", "dbpedia")


@pytest.fixture
def data(tmp_path):
    (tmp_path / "topics").mkdir()
    for name in NAMES:
        rows = [
            {"text": f"{name} {word} number {row}", "label": f"{name} {word}", "split": split}
            for split in ("train", "test")
            for row in range(200)
            for word in ("ship", "tree")
        ]
        with gzip.open(tmp_path / f"topics/{name}.jsonl.gz", "wt") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)
    return tmp_path


def test_a_seed_draws_training_rows_and_no_test_rows(data):
    first, again, other = (peers.domains_of("topics", data, seed) for seed in (0, 0, 1))
    assert first == again
    assert [one.test for one in first] == [one.test for one in other]
    assert all(one.texts != two.texts for one, two in zip(first, other, strict=True))


def test_a_run_tells_what_was_forgotten(data):
    given = Namespace(data=data, encoder="none")
    kept, forgot = (peers.run(f"scikit-learn, {name}", "topics", 0, given) for name in ("refit", "partial_fit"))
    assert kept["average"] == 100
    assert kept["forgetting"] == 0
    assert set(kept["end"]) == set(kept["learned"]) == set(NAMES)
    assert len(kept["seconds"]["domains"]) == len(NAMES)
    lost = [forgot["learned"][name] - forgot["end"][name] for name in NAMES[:-1]]
    assert forgot["forgetting"] == pytest.approx(sum(lost) / len(lost))
