"""A search: it sees no test examples, goes on where it was stopped, gives up what is behind, and needs no machine."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import pytest
from memgrow.experiments.tuning import search as search_module
from memgrow.experiments.tuning.search import Search
from memgrow.experiments.tuning.space import Range, space_of
from memgrow.experiments.tuning.trials import Found, Tried, score_of, without_test

from memgrow.data import Stream, synthetic_stream
from memgrow.errors import DataError, SettingsError
from memgrow.experiments import job as job_module
from memgrow.experiments.comparison import Settings
from memgrow.experiments.grid import Grid
from memgrow.experiments.store import Store
from memgrow.methods import find_method
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from tests.support.stand_in_cluster import OnStandIn, StandIn

pytestmark = pytest.mark.extras

SETTINGS = Settings(
    ModelSettings(embedding=4, hidden=3, slots=2, perceptron=4), TrainingSettings(rate=0.01, batch=12, epochs=1)
)
SPACE = {"training.rate": Range(1e-3, 1e-1, log=True), "options.keep": Range(0, 1)}


@dataclass
class Witness:
    """Remembers the trials that have ended; `on_move` may interfere."""

    trials: list[Tried] = field(default_factory=list)
    begun: list[tuple[int, int]] = field(default_factory=list)
    on_move: Callable[[int, float], None] = lambda number, share: None

    def begin(self, done, trials):
        self.begun.append((done, trials))

    def moved(self, number, share, where):
        self.on_move(number, share)

    def ended(self, trial, best):
        self.trials.append(trial)

    def note(self, sentence):
        return


@pytest.fixture(autouse=True)
def _optuna() -> None:
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'memgrow[tune]'")


@pytest.fixture(scope="module")
def whole() -> Stream:
    return synthetic_stream(domains=3, train=24, validation=12, test=12, seed=3)


@pytest.fixture
def witness() -> Witness:
    return Witness()


@pytest.fixture
def search(whole, tmp_path, witness) -> Callable[..., Search]:
    def make(folder: str = "out", stream: Stream | None = None, space=SPACE, method="F+V+A", **options: Any) -> Search:
        seeds = {"seeds": options.pop("seeds", 1), "first_seed": options.pop("first_seed", 0)}
        options = {"device": "cpu", "workers": 1, **options}
        grid = Grid(stream or without_test(whole), Store(tmp_path / folder / "runs"), **options)
        return Search(grid, method, SETTINGS, space, folder=tmp_path / folder, watcher=witness, **seeds)

    return make


def told(found: Found) -> list[tuple[Any, ...]]:
    """The trials, but for their numbers: one that was stopped has two."""
    return [(dict(one.values), one.scores, one.state) for one in found.trials]


def test_a_stream_with_test_examples_is_refused_and_none_are_in_what_is_kept(search, whole, tmp_path):
    with pytest.raises(DataError, match="must not see test examples"):
        search(stream=whole)
    assert not any(domain.test for domain in without_test(whole))
    search().run(2)
    records = Store(tmp_path / "out" / "runs").records().values()
    assert records
    assert not any(any(record.test.values()) for record in records)


def test_what_is_chosen_does_not_depend_on_the_test_examples(search, whole):
    shuffled = Stream(replace(domain, test=domain.test[::-1][:5]) for domain in whole)
    assert search("a").run(3) == search("b", stream=without_test(shuffled)).run(3)


def test_the_score_is_the_mean_over_the_domains_and_seeds_of_validation_accuracy(search, whole):
    made = search(seeds=2)
    (trial,) = made.run(1).trials
    runs = made._runs(search_module.with_values(SETTINGS, trial.values))
    ends = [made.grid.found([run]).records[run][-1] for run in runs]
    assert trial.scores[-1] == fmean(fmean(fmean(end.validation[name]) for name in whole.names) for end in ends)
    assert score_of(ends[0], whole.names[:1]) == fmean(ends[0].validation[whole.names[0]])


@pytest.mark.parametrize("seed", [4295, 2**31])
def test_a_large_seed_is_one_like_any_other(search, seed):
    assert [trial.state for trial in search(first_seed=seed).run(1).trials] == ["complete"]


def test_a_search_that_is_stopped_goes_on_and_ends_as_if_it_had_not_been(search, witness):
    unbroken = search("unbroken").run(6)
    assert len(unbroken.trials) == 6
    assert unbroken.best is not None

    def stop(number: int, share: float) -> None:
        if number == 3 and share >= 0.5:
            raise KeyboardInterrupt

    witness.on_move = stop
    with pytest.raises(KeyboardInterrupt):
        search().run(6)
    witness.on_move = lambda number, share: None
    witness.trials.clear()
    found = search().run(6)
    assert witness.begun[-1] == (3, 6)
    assert len(witness.trials) == 3
    assert told(found) == told(unbroken)
    assert found.importances == unbroken.importances
    again = search().run(6)
    assert again == found
    assert not list(search().grid.store.model("").iterdir()), "learners that nobody needs are left"


def test_another_search_in_the_same_folder_is_another_study(search):
    assert len(search().run(2).trials) == 2
    other = search(space={"options.keep": Range(0, 1)}).run(2)
    assert [set(trial.values) for trial in other.trials] == [{"options.keep"}] * 2


def test_a_trial_that_is_behind_is_given_up_and_the_rest_of_it_is_not_made(search, monkeypatch, tmp_path):
    trials = iter(range(100))
    first: dict[float, int] = {}

    def score(record, names):
        order = first.setdefault(record.run["training"]["rate"], next(trials))
        return 0.5 - 0.01 * order

    monkeypatch.setattr(search_module, "score_of", score)
    found = search().run(7)
    states = [trial.state for trial in found.trials]
    assert states[:4] == ["complete"] * 4
    assert states[4:] == ["pruned"] * 3
    assert all(len(trial.scores) == 1 for trial in found.trials[4:])
    assert len(Store(tmp_path / "out" / "runs").records()) == 4 * 3 + 3


def test_a_trial_that_fails_is_told_with_its_reason_and_ends_no_other(search, monkeypatch):
    real = job_module.adapt_together

    def adapt(learners, domain, **options):
        if learners[0].training.rate > 0.02:
            raise SettingsError("the loss is no number")
        return real(learners, domain, **options)

    monkeypatch.setattr(job_module, "adapt_together", adapt)
    found = search().run(6)
    failed = [trial for trial in found.trials if trial.state == "failed"]
    assert failed
    assert {trial.reason for trial in failed} == {"the loss is no number"}
    assert found.best is not None
    assert all(trial.values["training.rate"] > 0.02 for trial in failed)


def test_trials_that_differ_in_the_method_alone_share_their_first_stage(search, tmp_path):
    search(space={"options.keep": Range(0, 1)}).run(4)
    assert len(Store(tmp_path / "out" / "runs").records()) == 1 + 4 * 2


def test_a_search_on_a_cluster_finds_what_one_process_finds_for_the_same_trials(search):
    cluster = StandIn(nodes={"a": {"CPU": 1}})
    assert search("there", workers=None, backend=OnStandIn(cluster)).run(4) == search("here").run(4)
    many = search("many", workers=None, backend=OnStandIn(StandIn()), seeds=2).run(5)
    assert [trial.state for trial in many.trials].count("failed") == 0
    assert len(many.trials) == 5


def test_what_cannot_be_searched_is_a_sentence(search, whole):
    seen = without_test(whole)
    for options, says in (
        ({"stream": seen[:1]}, "at least two domains"),
        ({"stream": Stream(replace(domain, validation=()) for domain in seen)}, "no validation examples"),
        ({"method": "multi-task"}, "learns no domain after another"),
        ({"space": {}}, "no setting to be searched"),
    ):
        with pytest.raises((DataError, SettingsError), match=says):
            search(**options)


def test_every_method_that_a_recurrent_network_can_have_is_searched_over_all_it_reads(search):
    for method in ("EWC", "F+M+V+D", "F+V+E+L"):
        space = space_of(find_method(method), SETTINGS)
        (trial,) = search(method, method=method, space=space).run(1).trials
        assert trial.state == "complete"
