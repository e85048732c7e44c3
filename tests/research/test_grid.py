"""Runs are made once, share their first domain, and fail with a sentence."""

from dataclasses import replace

import pytest

from memgrow import synthetic_stream
from research.common.grid import Grid, whole_runs
from research.common.methods import Method
from research.common.runs import Run
from research.common.settings import MethodSettings, ModelSettings, TrainingSettings
from research.common.store import Store

MODEL = ModelSettings(embedding=8, hidden=6, slots=4, perceptron=6)
TRAINING = TrainingSettings(rate=1e-2, epochs=1)


@pytest.fixture(scope="module")
def stream():
    return synthetic_stream(2, train=40, validation=12, test=12)


@pytest.fixture
def grid(stream, tmp_path):
    return Grid.of(stream, Store(tmp_path), device="cpu")


def run(method, stream, seed=0, **options):
    return Run(method, stream.names, seed, MODEL, TRAINING, MethodSettings(**options))


def test_runs_are_whole_and_kept(grid, stream):
    runs = [run(method, stream) for method in ("F", "F+M+V", "EWC", "Progressive", "in-domain", "multi-task")]
    outcome = grid.run(runs)
    assert not outcome.failures
    assert [len(outcome.records[one]) for one in runs] == [2, 2, 2, 2, 2, 1]
    again = Grid.of(stream, Store(grid.ledger.store.folder)).found(runs)
    assert {one: [record.to_json() for record in some] for one, some in again.records.items()} == {
        one: [record.to_json() for record in some] for one, some in outcome.records.items()
    }
    kitchen = [outcome.records[one][0] for one in runs[:5]]
    assert len({record.key for record in kitchen}) == 1
    assert [record.stage["method"] for record in kitchen] == [one.method for one in runs[:5]]
    assert not list(grid.ledger.store.folder.glob("models/*"))


def test_a_run_goes_on_from_what_there_is(grid, stream):
    first = grid.run([run("F", stream).upto(1)]).records
    assert len(first) == 1
    before = grid.ledger.store.records()
    grid.run([run("F", stream)])
    after = grid.ledger.store.records()
    assert len(after) == 2
    assert all(after[key].to_json() == one.to_json() for key, one in before.items())


def test_a_strength_of_ewc_changes_the_second_domain_alone(grid, stream):
    weak, strong = (grid.run([run("EWC", stream, strength=one)]).records for one in (1.0, 1e6))
    (weak,), (strong,) = weak.values(), strong.values()
    assert weak[0].key == strong[0].key
    assert weak[1].key != strong[1].key


@pytest.mark.parametrize("method", ["F+M+V+Q", "F+V+L", "sparse"])
def test_a_removed_method_is_refused_with_a_sentence(grid, stream, method):
    outcome = grid.run([run(method, stream), run("F", stream)])
    assert [failure.run.method for failure in outcome.failures] == [method]
    assert f"no longer has {method}" in outcome.failures[0].reason
    assert whole_runs(outcome, 2).startswith("1 of 2 runs are whole; 1: ")


def test_a_record_serves_only_the_examples_it_was_evaluated_on(grid, stream):
    one = run("F", stream)
    grid.run([one])
    changed = [replace(domain, test=domain.test[:-1]) for domain in stream]
    assert Grid.of(type(stream)(changed), grid.ledger.store).found([one]).failures


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("F+V", (False, False, True, None)),
        ("EWC+M+V", (False, False, True, "EWC")),
        ("sparse", (False, False, True, "sparse")),
        ("ridge", (False, False, False, None)),
        ("multi-task+E", (True, True, False, None)),
        ("in-domain", (False, True, True, None)),
    ],
)
def test_what_a_method_shares_with_others(name, facts):
    method = Method(name)
    assert (method.joint, method.reinit, method.shares_first, method.noting) == facts
