"""The grid: every stage is made once and rightly, whatever fails, dies or is stopped on the way."""

import json
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean
from types import SimpleNamespace

import pytest
import torch

from memgrow.data import Domain, Stream, synthetic_stream
from memgrow.errors import DataError, SettingsError
from memgrow.experiments import job as job_module
from memgrow.experiments.grid import Grid, Outcome
from memgrow.experiments.plan import Job, JobQueue, Result, Task
from memgrow.experiments.run import Run
from memgrow.experiments.store import Store
from memgrow.experiments.workers import Worker
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from tests.support.new_labels import with_label
from tests.support.witness import Witness, without_seconds

MODEL = ModelSettings(embedding=4, hidden=3, slots=2, perceptron=4)
TRAINING = TrainingSettings(rate=0.01, batch=12, epochs=1)
OPTIONS = MethodSettings(fisher_examples=4)
METHODS = ("F", "F+M+V", "EWC", "EWC+A", "F+V+D", "Progressive", "multi-task")


@pytest.fixture(scope="module")
def stream() -> Stream:
    """Three domains, of which the second brings a label."""
    first, second, third = synthetic_stream(domains=3, train=24, validation=12, test=12, seed=3)
    return Stream([first, with_label(second), third])


@pytest.fixture(scope="module")
def runs(stream) -> Callable[..., list[Run]]:
    """Runs of these methods over the whole stream."""

    def make(*methods: str, seeds: int = 1) -> list[Run]:
        return [
            Run(method, stream.names, seed, MODEL, TRAINING, OPTIONS) for method in methods for seed in range(seeds)
        ]

    return make


@pytest.fixture
def witness() -> Witness:
    return Witness()


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def grid(stream, store, witness) -> Callable[..., Grid]:
    """A grid in this process; its witness starts anew with each."""

    def make(**options) -> Grid:
        witness.ended.clear()
        witness.notes.clear()
        return Grid(stream, store, **{"device": "cpu", "workers": 1, "progress": witness, **options})

    return make


@pytest.fixture(scope="module")
def alone(stream, runs, tmp_path_factory) -> Outcome:
    """The outcome that one process makes of runs by many methods."""
    return Grid(stream, Store(tmp_path_factory.mktemp("alone")), device="cpu", workers=1).run(runs(*METHODS, seeds=2))


def scores(records) -> list[dict[str, float]]:
    return [{name: fmean(right) for name, right in record.test.items()} for record in records]


@pytest.mark.parametrize("method", METHODS)
def test_a_run_ends_with_the_figures_of_a_learner_that_goes_its_way_alone(method, alone, runs, stream):
    run = runs(method, seeds=2)[1]
    records = alone.records[run]
    learner = Learner.create(method, model=MODEL, training=TRAINING, options=OPTIONS, seed=1, device="cpu")
    history = learner.learn(stream)
    assert scores(records) == [dict(row.scores) for row in history.matrix.rows]
    for record, stage in zip(records, history.stages, strict=True):
        assert record.stage.method == method
        assert replace(record.stage, seconds=0, note={}) == replace(stage, seconds=0, note={})
        assert {name: len(right) for name, right in record.validation.items()} == dict.fromkeys(stream.names, 12)


def test_without_stacks_of_one_a_run_ends_with_the_very_weights_of_adapt(grid, runs, stream):
    methods = ("F+M+V", "EWC", "F+V+E", "rehearsal+V", "multi-task")
    made = grid(stack_single=False, keep_models=True)
    assert not made.run(runs(*methods)).failures
    for run in runs(*methods):
        learner = Learner.create(run.method, model=MODEL, training=TRAINING, options=OPTIONS, device="cpu")
        learner.learn(stream)
        weights, theirs = (one.trained().state_dict() for one in (learner, Learner.load(made.model(run), "cpu")))
        assert all(torch.equal(weights[name], theirs[name]) for name in weights | theirs), run.method
        rows = [json.loads(file.read_bytes()) for file in made.model(run).rglob("rehearsal.json")]
        assert not any(rows), "the stream has the rows"


def test_in_domain_is_a_model_for_each_domain(grid, runs, stream):
    outcome = grid().run(runs("in-domain"))
    (records,) = outcome.records.values()
    for record, domain in zip(records, stream, strict=True):
        learner = Learner.create("F", model=MODEL, training=TRAINING, device="cpu")
        learner.learn([domain])
        assert scores([record])[0][domain.name] == learner.evaluate(domain)[domain.name]


def test_stages_that_runs_share_are_made_once(grid, runs, witness):
    outcome = grid().run(runs("F", "F+V", "F+M+V", "EWC", "EWC+A", "in-domain", "multi-task", seeds=2))
    assert not outcome.failures
    assert set(Counter(witness.made).values()) == {1}
    # For each seed: a first stage, two by each of five methods, two more domains alone, all at once, and notes.
    assert len(witness.made) == 2 * (1 + 2 * 5 + 2 + 1 + 1)
    assert witness.begun == [(len(witness.made), sum(result.job.total for result in witness.ended))]


def test_what_is_finished_is_never_repeated(grid, runs, witness):
    first = grid().run(runs("F", "EWC"))
    again = grid().run(runs("EWC", "F"))
    assert witness.made == []
    assert again.records == first.records
    assert len(witness.begun) == 1


def test_a_bundle_serves_like_the_records_in_it(grid, runs, store, witness):
    first = grid().run(runs("F", "multi-task"))
    store.bundle()
    store.folder.rename(store.folder.with_name("elsewhere"))
    again = Grid(grid().stream, Store(store.folder.with_name("elsewhere")), device="cpu", progress=witness)
    assert again.run(runs("F", "multi-task")).records == first.records
    assert witness.made == []


def test_a_method_that_fails_ends_no_other(grid, runs, witness):
    plain = replace(MODEL, slots=0)  # so that F+M does not know how many to add
    asked = [replace(run, model=plain) for run in runs("F+M", "F", "F+V", "F+M+V")]
    outcome = grid().run(asked)
    assert {run.method for run in outcome.records} == {"F", "F+V"}
    assert [(one.run.method, one.stage) for one in outcome.failures] == [("F+M", 1), ("F+M+V", 1)]
    assert all("slots: 0" in one.reason for one in outcome.failures)
    failed = [result for result in witness.ended if result.reason]
    assert len(failed) == 4  # the third stages too are told of, though nobody tried them


def test_after_a_failure_only_what_failed_is_made_again(grid, runs, witness, monkeypatch):
    real, broken = job_module.adapt_together, True

    def adapt(learners, domain, **options):
        if broken and domain.name == "harbour" and learners[0].method.name == "F+V":
            raise RuntimeError("a cable was pulled")
        return real(learners, domain, **options)

    monkeypatch.setattr(job_module, "adapt_together", adapt)
    first = grid().run(runs("F", "F+V"))
    place = f"test_grid.py, line {adapt.__code__.co_firstlineno + 2}"
    assert [one.reason for one in first.failures] == [f"RuntimeError: a cable was pulled ({place})"]
    broken = False
    second = grid().run(runs("F", "F+V"))
    assert not second.failures
    assert [(run.method, len(run.learns)) for run in witness.made] == [("F+V", 2), ("F+V", 3)]


def test_stopping_keeps_what_is_finished(grid, runs, witness):
    def stop(result: Result) -> None:
        if len(witness.ended) == 2:
            raise KeyboardInterrupt

    witness.on_end = stop
    with pytest.raises(KeyboardInterrupt):
        grid().run(runs("F"))
    witness.on_end = lambda _: None
    assert not grid().run(runs("F")).failures
    assert [len(run.learns) for run in witness.made] == [3]


@pytest.mark.slow
@pytest.mark.extras
def test_several_workers_give_what_one_gives_even_if_they_are_killed(grid, runs, alone, witness):
    asked = runs("F", "EWC", seeds=2)
    endless = replace(asked[0], training=replace(TRAINING, epochs=10**4, patience=10**4)).upto(1)

    others = set()

    def kill(job: Job) -> None:
        if job.run != endless:
            others.add(job.run)
        elif others or witness.ended:  # both workers have started
            for worker in multiprocessing.active_children():
                os.kill(worker.pid, signal.SIGKILL)

    witness.on_step = kill
    first = grid(workers=2).run([endless, *asked])
    assert "its process died (signal SIGKILL)" in {one.run: one.reason for one in first.failures}[endless]
    assert first.records, "nothing was done by those that took their place"
    assert not multiprocessing.active_children()
    second = grid().run(asked)
    assert without_seconds(second) == {run: without_seconds(alone)[run] for run in asked}


def test_workers_that_cannot_start_are_not_started_for_ever():
    worker = Worker.__new__(Worker)  # as one whose process ended before it was ready
    vars(worker).update(ready=False, job=None, join=lambda: None, process=SimpleNamespace(exitcode=1))
    with pytest.raises(SettingsError, match=r"a worker could not be started.*__main__"):
        worker.lost()


def test_models_are_gone_when_nobody_needs_them(grid, runs, store):
    grid().run(runs("F", "EWC"))
    assert not any(store.model("").iterdir())


def test_a_model_is_kept_where_it_was_asked_for(grid, runs, store, witness):
    (run,) = runs("EWC")
    grid().run([run])
    keeping = grid(keep_models=True)
    keeping.run([run])
    assert len(witness.made) == 4  # three stages and the notes
    assert Learner.load(keeping.model(run), "cpu").history.domains == run.learns
    grid().run(runs("F", "EWC", "EWC+A"))
    assert Learner.load(keeping.model(run), "cpu").history.domains == run.learns


def test_a_stage_is_made_again_where_its_model_is_missing_and_needed(grid, runs, witness, store):
    (run,) = runs("F")
    before = grid().run([run])
    longer = grid().run(runs("F", "F+V"))
    assert [(one.method, len(one.learns)) for one in witness.made] == [("F", 1), ("F+V", 2), ("F+V", 3)]
    assert longer.records[run] == before.records[run]  # its record is the old one, seconds and all


def test_a_damaged_model_is_made_again(grid, runs, witness, store):
    (run,) = runs("F")
    keeping = grid(keep_models=True)
    keeping.run([run])
    path = store.model(keeping.ledger.key(run.upto(1)))
    (path / "model.safetensors").write_bytes(b"")
    assert not grid().run(runs("F+V")).failures
    assert [len(one.learns) for one in witness.made] == [1, 2, 3]


def test_a_damaged_record_is_told_and_made_again(grid, runs, witness, store):
    (run,) = runs("F")
    grid().run([run])
    damaged = grid()
    path = store.folder / "records" / f"{damaged.ledger.key(run)}.json"
    path.write_text("{")
    assert not damaged.run([run]).failures
    assert run in witness.made
    assert str(path) in witness.notes[0]


def test_other_test_examples_are_answered_anew(grid, runs, stream, store, witness):
    first = runs("F")[0].upto(1)
    grid().run([first])
    *others, last = stream
    changed = Stream([*others, replace(last, test=last.test[:-1])])
    outcome = Grid(changed, store, device="cpu", progress=witness).run([first])
    assert witness.made == [first, first]
    assert len(outcome.records[first][0].test[last.name]) == len(last.test) - 1


def test_fewer_domains_are_served_by_what_more_have_left(grid, runs, stream, store, witness):
    first = runs("F")[0].upto(1)
    grid().run([first])
    witness.ended.clear()
    outcome = Grid(stream[:2], store, device="cpu", progress=witness).run([first])
    assert witness.made == []
    assert set(outcome.records[first][0].test) == set(stream.names[:2])


def test_keys_depend_on_data_and_vectors(stream, store, runs, tmp_path):
    (run,) = runs("F")
    vectors = [tmp_path / name for name in ("a.txt", "b.txt")]
    for number, path in enumerate(vectors):
        path.write_text(f"soup {number} 0 0 0\n")
    first, *others = stream
    shorter = [replace(first, **{part: getattr(first, part)[:-1]}) for part in ("train", "validation", "test")]
    grids = [
        Grid(stream, store),
        *(Grid(Stream([one, *others]), store) for one in shorter),
        *(Grid(stream, store, vectors=path) for path in vectors),
    ]
    assert len({one.ledger.key(run) for one in grids}) == len(grids)


def test_a_domain_that_is_not_there_is_refused_before_anything_is_done(grid, runs, store):
    with pytest.raises(DataError, match="attic"):
        grid().run([replace(run, learns=("attic",)) for run in runs("F")])
    assert not store.folder.exists()


def test_a_stream_may_begin_with_fewer_labels(stream, store, runs):
    first, *others = stream
    fewer = {
        part: tuple(one for one in getattr(first, part) if one.label != "neutral")
        for part in ("train", "validation", "test")
    }
    outcome = Grid(Stream([Domain(first.name, **fewer), *others]), store, device="cpu", workers=1).run(
        runs("F", "in-domain")
    )
    assert not outcome.failures


def test_impossible_numbers_are_refused(stream, store):
    for options in ({"stack": 0}, {"workers": -1}):
        with pytest.raises(SettingsError):
            Grid(stream, store, **options)


# The queue, on jobs of several seeds


def job(name: str, seeds: range, parent: str | None = None) -> Job:
    tasks = (
        Task(Run("F", ("a",), seed), f"{name}{seed}", parent and f"{parent}{seed}", record=True, keep=True)
        for seed in seeds
    )
    return Job(tuple(tasks), work=1.0)


def test_a_job_waits_for_all_of_its_parents():
    queue = JobQueue([job("b", range(2), "a"), *(half := job("a", range(2)).halves())])
    assert [queue.take(), queue.take(), queue.take()] == [*half, None]
    queue.finish(Result(half[0]))
    assert queue.take() is None
    queue.finish(Result(half[1]))
    assert queue.take() == job("b", range(2), "a")


def test_a_stack_that_fails_is_tried_in_halves_and_only_the_culprit_is_lost():
    queue = JobQueue([job("a", range(4)), job("b", range(4), "a"), job("c", range(4), "b")])
    ended = []
    while (taken := queue.take()) is not None:
        keys = [task.key for task in taken.tasks]
        ended += queue.finish(Result(taken, reason="no memory" if "a2" in keys else None))
    assert queue.reasons == dict.fromkeys(("a2", "b2", "c2"), "no memory")
    done = {task.key for result in ended if result.reason is None for task in result.job.tasks}
    assert done == {f"{name}{seed}" for name in "abc" for seed in (0, 1, 3)}


def test_a_learner_is_needed_until_its_last_child_is_done():
    queue = JobQueue([job("a", range(1)), job("b", range(1), "a"), job("c", range(1), "a"), job("d", range(1), "a")])
    for name, reason, unneeded in (("b", None, set()), ("c", None, set()), ("d", "lost", set())):
        assert queue.unneeded(Result(job(name, range(1), "a"), reason=reason)) == unneeded
    assert queue.unneeded(Result(job("d", range(1), "a"))) == {"a0"}


def test_settings_that_only_some_methods_read_make_other_runs_but_share_the_first_stage(grid, runs, witness):
    asked = [replace(run, options=replace(OPTIONS, strength=s)) for run in runs("EWC") for s in (1.0, 100.0)]
    grid().run(asked)
    assert len(witness.made) == 1 + 1 + 2 * 2
