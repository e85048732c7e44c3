"""`memgrow watch`: whether texts in a file or on standard input still look like the learned domains."""

import json

import pytest

from memgrow import Learner
from memgrow.data import synthetic_stream

LAMPS = [{"premise": f"my lamp number {n} glows", "hypothesis": "lamps never glow here"} for n in range(30)]


@pytest.fixture(scope="module")
def kitchen():
    (domain,) = synthetic_stream(domains=1, train=200, validation=40, test=48)
    return domain


@pytest.fixture(scope="module")
def watched(tmp_path_factory, kitchen, tiny, short):
    folder = tmp_path_factory.mktemp("watched") / "model"
    Learner.create("F+V", model=tiny, training=short, device="cpu").adapt(kitchen, folder=folder)
    return folder


@pytest.fixture
def known(kitchen, jsonl, tmp_path):
    return jsonl(tmp_path / "known.jsonl", [{"premise": one.text, "hypothesis": one.pair} for one in kitchen.test])


def test_known_texts_pass_and_new_ones_do_not(memgrow, watched, known, jsonl, tmp_path):
    out = " ".join(memgrow.done("watch", watched, known, "--window", "24").split())
    assert "look like the learned domains (" in out
    assert "no window of these 48 texts" in out
    new = jsonl(tmp_path / "new.jsonl", LAMPS)
    assert "adapting seems due, by the last 24 texts" in memgrow.done("watch", watched, new, "--window", "24")
    *windows, last = map(json.loads, memgrow.done("watch", watched, new, "--json").splitlines())
    assert [(one["until"], one["alarm"]) for one in windows] == [(30, True)]
    assert last["due"]
    assert "glows" not in json.dumps([windows, last])
    piped = memgrow.done("watch", watched, "--json", stdin="".join(f"{json.dumps(row)}\n" for row in LAMPS))
    assert json.loads(piped.splitlines()[-1]) == last


def test_too_few_texts_bad_options_and_missing_statistics(memgrow, watched, made, known, jsonl, tmp_path):
    few = jsonl(tmp_path / "few.jsonl", LAMPS[:5])
    assert "too few" in memgrow.done("watch", watched, few)
    assert "window" in memgrow.refused("watch", watched, few, "--window", "3")
    assert "alpha" in memgrow.refused("watch", watched, few, "--alpha", "2")
    assert "no drift statistics" in memgrow.refused("watch", made, known)
