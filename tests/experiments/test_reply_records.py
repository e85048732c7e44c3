"""Models that answer with words: how they are tried, what is kept of that, and that the grid serves it again."""

import gzip
import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from memgrow.experiments.grid import Grid
from memgrow.experiments.paper.dialogue import SOURCE, TARGET, echo_of
from memgrow.experiments.paper.protocol import DIALOGUES as PAIR
from memgrow.experiments.reply_records import ReplyEvaluation, checksum, chosen, evaluate_replies, losses, pack, unpack
from memgrow.experiments.run import Record, Run
from memgrow.experiments.store import Store
from memgrow.history import Stage
from memgrow.learner import Learner
from memgrow.methods import Grew, MethodSettings
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from tests.support.dialogue_records import record, small_pair, write_vectors

TINY = {
    "model": ModelSettings(cell="gru", embedding=8, hidden=8, slots=4, bidirectional=False),
    "training": TrainingSettings(rate=0.01, batch=16, epochs=1),
    "options": MethodSettings(fisher_examples=8),
}


# Keeping


@pytest.mark.parametrize("values", [[], [0, 1, 255, 256, 70000, -3], list(range(500))])
def test_numbers_come_out_as_they_were_packed(values):
    assert unpack(pack(values)).tolist() == values


def test_a_record_of_replies_comes_out_of_a_store_as_it_was(tmp_path):
    one = record(Run("F", PAIR), lambda run, name: 0.3, lambda run, name, part: 12.5)
    store = Store(tmp_path)
    store.put(one)
    for again in (store.get("key"), Store(store.bundle().parent).get("key")):
        assert again.to_json() == one.to_json()
        assert again.replies["test"][SOURCE].scores.counts.score() == pytest.approx(30)
        assert again.replies["validation"][TARGET].scores is None


def test_a_record_of_labels_is_written_as_before():
    done = Stage(("a",), "F", Grew(), 1, 1, 1, 1, 0.5, 1.0, "")
    assert set(Record("key", done, {"a": (True,)}, {"a": (False,)}).to_json()) == {
        "key",
        "stage",
        "validation",
        "test",
        "run",
        "held_out",
    }


# Trying models


@pytest.fixture(scope="module")
def stream():
    return small_pair()


@pytest.fixture(scope="module")
def vectors(tmp_path_factory, stream):
    return write_vectors(tmp_path_factory.mktemp("vectors") / "w2v.txt", stream)


@pytest.fixture(scope="module")
def learner(stream):
    learner = Learner.create("F+M+V", device="cpu", **(TINY | {"training": TrainingSettings(rate=0.02, epochs=8)}))
    learner.adapt(stream[0])
    return learner


def test_a_trial_measures_what_evaluate_does(learner, stream, vectors):
    found = ReplyEvaluation(vectors=vectors).evaluate(learner, stream)["test"][SOURCE]
    expected = evaluate_replies(learner, stream[SOURCE], vectors=vectors)
    assert found.scores.counts.score() == pytest.approx(expected.bleu2)
    assert found.scores.similarity.mean() == pytest.approx(expected.w2v_similarity)
    assert found.scores.distinct == pytest.approx((expected.distinct1, expected.distinct2))
    assert math.exp(found.loss.sum() / found.tokens.sum()) == pytest.approx(expected.perplexity, rel=1e-4)


def test_losses_do_not_depend_on_what_else_is_in_the_batch(learner, stream):
    together, tokens = losses(learner, stream[TARGET].test)
    for number, example in enumerate(stream[TARGET].test[:4]):
        alone, count = losses(learner, [example])
        assert alone[0] == pytest.approx(together[number], rel=1e-4)
        assert count[0] == tokens[number]


@pytest.mark.parametrize(("examples", "samples"), [(12, 5), (10_000, 10), (3, 10), (0, 3), (7, 0)])
def test_samples_are_spread_evenly(examples, samples):
    picked = chosen(examples, samples)
    assert len(picked) == min(examples, samples)
    assert all(0 <= index < examples for index in picked)
    assert len({b - a for a, b in pairwise(picked)}) <= 1


def test_an_echo_is_as_good_as_the_messages_are(stream):
    kind = type(stream)(replace(d, test=tuple(replace(e, reply=e.text) for e in d.test)) for d in stream)
    assert [r.scores.counts.score() for r in echo_of(kind, ReplyEvaluation()).values()] == [pytest.approx(100)] * 2
    assert all(not r.scores.samples for r in echo_of(stream, ReplyEvaluation()).values())


def test_the_committed_records_on_multinli_still_serve():
    folder = Path(__file__).parents[2] / "results/paper/runs"
    with gzip.open(folder / "records.jsonl.gz", "rt", encoding="utf-8") as lines:
        raw = [json.loads(line) for line in lines]
    records = Store(folder).records()
    assert [json.loads(json.dumps(records[one["key"]].to_json())) for one in raw] == raw


# The grid


def test_the_grid_keeps_numbers_and_replies_but_no_text_of_the_corpus(stream, tmp_path):
    grid = Grid(
        stream, Store(tmp_path), device="cpu", workers=1, reply_evaluation=ReplyEvaluation(samples=4, longest=8)
    )
    runs = [Run(method, PAIR, **TINY) for method in ("F+M+V", "EWC", "Progressive", "multi-task")]
    outcome = grid.run(runs)
    assert not outcome.failures
    last = outcome.records[runs[0]][-1].replies
    assert [sample.index for sample in last["test"][TARGET].scores.samples] == [0, 3, 6, 9]
    assert last["test"][TARGET].scores.samples[1].message == checksum(stream[TARGET].test[3].text)
    assert len(last["validation"][SOURCE].loss) == 12
    assert last["validation"][SOURCE].scores is None
    kept = "".join(path.read_text() for path in tmp_path.glob("records/*.json"))
    assert not [e for d in stream for part in (d.train, d.validation, d.test) for e in part if e.text in kept]


def test_the_grid_goes_on_where_it_was_and_serves_only_what_was_tried_alike(stream, vectors, tmp_path, monkeypatch):
    from memgrow.experiments.job import WorkerContext

    jobs, do = [], WorkerContext.run
    monkeypatch.setattr(
        WorkerContext, "run", lambda bench, job, progress: (jobs.append(job), do(bench, job, progress))[1]
    )

    def run(trial, *methods):
        jobs.clear()
        grid = Grid(stream, Store(tmp_path), device="cpu", workers=1, reply_evaluation=trial)
        outcome = grid.run(Run(method, PAIR, **TINY) for method in methods)
        assert not outcome.failures
        return len(jobs), outcome

    measured = ReplyEvaluation(vectors=vectors)
    assert run(measured, "F")[0] == 2
    assert run(measured, "F", "F+V")[0] == 2  # the first stage's model is made again, for want of it
    again, outcome = run(measured, "F", "F+V")
    assert again == 0
    assert all(r[-1].replies["test"][TARGET].scores.similarity is not None for r in outcome.records.values())
    assert run(ReplyEvaluation(), "F")[0] == 0  # has more than is asked for
    assert run(ReplyEvaluation(longest=3), "F")[0] == 2
