"""`memgrow watch`: whether texts in a file or on standard input are still like those that were learnt."""

import json

import pytest

from memgrow import Learner
from memgrow.drift import Reference


@pytest.fixture(scope="module")
def rows(stream):
    return {
        domain.name: [{"premise": one.text, "hypothesis": one.pair} for one in (*domain.test, *domain.validation)]
        for domain in stream
    }


def test_new_texts_are_told_and_known_ones_are_not(memgrow, made, rows, jsonl, tmp_path):
    known = jsonl(tmp_path / "known.jsonl", rows["kitchen"])
    out = " ".join(memgrow.done("watch", made, known, "--window", "24").split())
    assert "1 to 24: the last 24 texts look like what was learnt (" in out
    assert out.endswith("no window of these 48 texts is unlike what was learnt")
    lamps = [{"premise": f"my lamp number {n} glows", "hypothesis": "lamps never glow here"} for n in range(30)]
    new = jsonl(tmp_path / "new.jsonl", lamps)
    assert "adapting seems due, by the last 24 texts: they lie " in memgrow.done("watch", made, new, "--window", "24")
    *windows, last = map(json.loads, memgrow.done("watch", made, new, "--json").splitlines())
    assert [(one["until"], one["alarm"]) for one in windows] == [(30, True)]
    assert last["due"]
    assert "glows" not in json.dumps([windows, last])
    piped = memgrow.done("watch", made, "--json", stdin="".join(f"{json.dumps(row)}\n" for row in lamps))
    assert json.loads(piped.splitlines()[-1]) == last


def test_too_few_texts_say_nothing_and_wrong_options_are_refused(memgrow, made, rows, jsonl, tmp_path):
    few = jsonl(tmp_path / "few.jsonl", rows["kitchen"][:5])
    assert "5 texts are too few to tell" in memgrow.done("watch", made, few)
    assert "a window of 3 texts is too small" in memgrow.refused("watch", made, few, "--window", "3")
    assert "alpha is the share of false alarms" in memgrow.refused("watch", made, few, "--alpha", "2")


def test_a_model_without_a_summary_is_refused_with_a_sentence(memgrow, made, rows, jsonl, tmp_path):
    learner = Learner.load(made, device="cpu")
    learner.reference = Reference()
    learner.save(tmp_path / "old")
    few = jsonl(tmp_path / "few.jsonl", rows["kitchen"])
    assert "keeps no summary of its domains" in memgrow.refused("watch", tmp_path / "old", few)
