"""`epochs: auto`: a model's first domain of few rows is trained for longer, and nothing else is."""

import json
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console

from memgrow.cli.learning import learn_stream
from memgrow.data import Stream, synthetic_stream
from memgrow.errors import DataError, SettingsError
from memgrow.experiments.grid import Grid
from memgrow.experiments.plan import work_of
from memgrow.experiments.run import Run
from memgrow.experiments.store import Store
from memgrow.experiments.stored_runs import StoredRuns
from memgrow.learner import Learner
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.report.progress_bars import TrainingBar
from memgrow.training.defaults import FINE_TUNING, defaults_for, training_line
from memgrow.training.settings import TrainingSettings
from tests.support.breaking import Plug
from tests.support.tiny_encoder import make_encoder

USUAL = defaults_for("an encoder").training
GOLDEN = Path(__file__).parent / "golden" / "models"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture(scope="module")
def stream() -> Stream:
    return synthetic_stream(domains=3, train=24, validation=12, test=12, seed=3)


@pytest.fixture
def few_steps(monkeypatch) -> None:
    """Twenty steps are enough where there are 150 else: seven epochs of these rows, in batches of eight."""
    monkeypatch.setattr("memgrow.training.settings.STEPS", 20)


def make(encoder: Path, method: str = "F", **training) -> Learner:
    settings = replace(USUAL, **{"batch": 8, **training})
    return Learner.create(method, encoder=encoder, training=settings, device="cpu")


def epochs_allowed(learner: Learner, domain) -> int:
    """The epochs that the training on a domain could have had."""
    learner.adapt(domain, progress=(seen := Plug()))
    (epochs,) = {step.epochs for step in seen.steps}
    return epochs


def bits(learner: Learner) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in learner.trained().state_dict().values()]


def same(one: Learner, other: Learner) -> bool:
    return all(torch.equal(ours, theirs) for ours, theirs in zip(bits(one), bits(other), strict=True))


def test_by_default_the_first_domain_of_few_rows_has_150_steps_and_the_next_five_epochs(encoder, stream, tmp_path):
    learner = Learner.create(encoder=encoder, device="cpu")
    assert epochs_allowed(learner, stream[0]) == 150  # of one batch each
    learner.save(tmp_path / "model")
    assert epochs_allowed(Learner.load(tmp_path / "model", "cpu"), stream[1]) == 5


@pytest.mark.parametrize("method", ["in-domain", "multi-task"])
def test_a_method_that_trains_anew_takes_longer_each_time(encoder, stream, method, few_steps):
    learner = make(encoder, method)
    learner.adapt(stream[0])
    learner.adapt(stream[1], earlier=stream[:1] if method == "multi-task" else (), progress=(seen := Plug()))
    assert {step.epochs for step in seen.steps} == {7 if method == "in-domain" else 5}  # three batches, and six


@pytest.mark.parametrize("epochs", [1, 9])
def test_a_number_of_epochs_is_obeyed(encoder, stream, epochs, few_steps):
    assert epochs_allowed(make(encoder, epochs=epochs, patience=9), stream[0]) == epochs


def test_a_first_domain_of_enough_steps_is_trained_to_the_same_bits_as_ever(encoder, stream, few_steps):
    learners = [make(encoder, batch=6, epochs=epochs) for epochs in ("auto", FINE_TUNING.epochs)]  # 20 steps
    for learner in learners:
        learner.learn(stream[:2])
    assert same(*learners)


def test_a_longer_training_is_that_of_these_numbers_written_out(encoder, stream, few_steps):
    auto, written = make(encoder), make(encoder, epochs=7, warm_up=2, patience=42)  # 500 answers of twelve examples
    assert epochs_allowed(auto, stream[0]) == epochs_allowed(written, stream[0]) == 7
    assert same(auto, written)
    assert auto.training.epochs == "auto"  # what was said stays, for a model that begins anew


def test_a_comparison_ends_with_the_very_weights_of_adapt(encoder, stream, few_steps, tmp_path):
    settings = replace(USUAL, batch=8)
    model, _ = PretrainedSettings(encoder=str(encoder)).resolved()
    runs = [Run(method, stream.names[:2], 0, model, settings) for method in ("F", "multi-task")]
    pair = Stream(stream[:2])
    grid = Grid(pair, Store(tmp_path), device="cpu", workers=1, stack=1, stack_single=False, keep_models=True)
    assert not grid.run(runs).failures
    for run in runs:
        learner = Learner.create(run.method, encoder=encoder, training=settings, options=run.options, device="cpu")
        learner.learn(pair)
        assert same(learner, Learner.load(grid.model(run), "cpu")), run.method


def test_what_a_study_takes_at_most_is_known_before(stream):
    counted = StoredRuns(None, stream, Path())  # type: ignore[type-var]

    def steps(method: str, learns: int, **training) -> int:
        run = Run(method, stream.names[:learns], 0, training=replace(USUAL, batch=8, **training))
        return counted.steps(type("Job", (), {"run": run}))

    assert [steps("F", 1), steps("F", 2), steps("in-domain", 2), steps("multi-task", 2)] == [150, 15, 150, 150]
    assert steps("F", 1, epochs=2) == 6


def test_the_time_of_all_domains_is_reckoned_with_the_epochs_of_each(encoder, stream, few_steps, tmp_path):
    seen: list[dict[str, int]] = []

    class Bar(TrainingBar):
        def step(self, step):
            seen.append(dict(self.coming))

    options = {"folder": tmp_path / "model", "again": False}
    with Bar(Console(file=StringIO())) as bar:
        learn_stream(learner := make(encoder), stream[:1], (), bar=bar, **options)
        learn_stream(learner, stream, (), bar=bar, **options)
    assert seen[0] == {"kitchen": 21}
    assert seen[-1] == {"clinic": 15}
    assert {"harbour": 15, "clinic": 15} in seen


def test_the_bar_of_a_comparison_counts_a_longer_training_as_that_much_work(stream):
    def work(method: str, learns: int, **training) -> float:
        return work_of(Run(method, stream.names[:learns], 0, training=replace(USUAL, batch=8, **training)), stream)

    assert work("F", 1) - work("F", 1, epochs=5) == 24 * 50 / 5 - 24
    assert work("F", 2) == work("F", 2, epochs=5) == work("F", 1, epochs=5)
    assert work("multi-task", 2) - work("multi-task", 2, epochs=5) == 48 * 25 / 5 - 48


def test_a_classifier_of_scikit_learn_takes_it_and_any_number(encoder, few_steps):
    classifier = pytest.importorskip("memgrow.sklearn").MemgrowClassifier
    texts, labels = ["a fine lamp", "a dull lamp"] * 12, ["good", "bad"] * 12
    fitted = classifier(encoder=str(encoder), batch=8, device="cpu").fit(texts, labels)
    assert fitted.learner_.training.epochs == "auto"
    assert fitted.learner_.history.stages[0].epochs > 5
    assert classifier(encoder=str(encoder), epochs=1, device="cpu").fit(texts, labels).learner_.training.epochs == 1


def test_a_first_domain_without_rows_is_refused_in_a_sentence(encoder, stream, tmp_path):
    empty = Stream([replace(stream[0], train=())])
    with TrainingBar(Console(file=StringIO())) as bar, pytest.raises(DataError, match="kitchen"):
        learn_stream(make(encoder), empty, (), folder=tmp_path / "model", again=False, bar=bar)


def test_studies_and_folders_of_before_keep_their_number():
    assert FINE_TUNING.epochs == 5
    assert TrainingSettings().epochs == 20
    keys = {"d8db10f26e41d4245ba4a750": FINE_TUNING, "7fd4874d0dc3c89b047eb99f": TrainingSettings(epochs=15)}
    models = (PretrainedSettings(weights="0f"), ModelSettings())
    for (key, training), model in zip(keys.items(), models, strict=True):
        assert Run("F", ("a",), 0, model, training).key({"a": "1"}) == key  # records are found by it
    assert Run("F", ("a",), 0, models[0], USUAL).key({"a": "1"}) not in keys
    config = json.loads((GOLDEN / "format-2-encoder" / "config.json").read_text())
    assert Learner.load(GOLDEN / "format-2-encoder", "cpu").training.epochs == config["training"]["epochs"]
    assert TrainingSettings(**json.loads(json.dumps(asdict(USUAL)))) == USUAL


def test_a_recurrent_network_may_have_it_as_well(stream, few_steps):
    settings = ModelSettings(embedding=4, hidden=3, slots=2, perceptron=4)
    training = TrainingSettings(epochs="auto", batch=8)
    learner = Learner.create("F", model=settings, training=training, device="cpu")
    assert [epochs_allowed(learner, domain) for domain in stream[:2]] == [7, 5]


def test_it_is_said_in_words_and_nothing_else_is_taken_for_a_number():
    assert training_line(USUAL) == "rate 5e-05, batch 32, at most 5 epochs (a model's first domain: 150 steps at least)"
    assert training_line(replace(USUAL, epochs=1)) == "rate 5e-05, batch 32, at most 1 epoch"
    with pytest.raises(SettingsError, match="epochs must be at least 1"):
        TrainingSettings(epochs=0)
