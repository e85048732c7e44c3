"""Retraining on everything is given the time to converge, and says whether it did."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from memgrow.experiments.comparison import RETRAINING, Settings, runs_of
from memgrow.experiments.convergence import Convergence, reference_training
from memgrow.experiments.grid import Outcome
from memgrow.training.settings import TrainingSettings

TRAINING = TrainingSettings(epochs=15)


def outcome_of(runs, epochs, best):
    stages = {seed: SimpleNamespace(epochs=epochs, best_epoch=best) for seed in runs}
    return Outcome({run: (SimpleNamespace(stage=stages[seed]),) for seed, run in runs.items()}, ())


@pytest.mark.parametrize(("patience", "waits"), [(2, 6), (9, 9), ("auto", 7)])
def test_the_reference_waits_for_six_epochs_at_least(stream, patience, waits):
    # Three domains with 24 validation examples each: auto waits for 500 answers.
    found = reference_training(replace(TRAINING, patience=patience), stream)
    assert (found.patience, found.epochs) == (waits, 30)


def test_a_rate_that_falls_to_zero_is_followed_to_its_end(stream):
    found = reference_training(TrainingSettings(epochs=5, schedule="linear"), stream)
    assert (found.patience, found.epochs) == (5, 5)


def test_the_reference_of_few_rows_takes_longer_where_epochs_are_auto(stream):
    rows = sum(len(domain.train) for domain in stream)
    settings = TrainingSettings(epochs="auto", schedule="linear", batch=rows // 3)
    found = reference_training(settings, stream)
    assert (found.patience, found.epochs) == (50, 50)
    assert reference_training(replace(settings, schedule="constant"), stream).epochs == 100


def test_only_the_reference_has_settings_of_its_own(stream):
    settings = Settings(training=TRAINING)
    reference = reference_training(TRAINING, stream)
    runs = runs_of(stream, ["F+V"], [0], settings, reference)
    assert {name: by_seed[0].training for name, by_seed in runs.items()} == {
        "F": TRAINING,
        "F+V": TRAINING,
        RETRAINING: reference,
    }
    assert runs_of(stream, ["F+V"], [0], settings)[RETRAINING][0].training == TRAINING


def test_it_is_told_at_which_epoch_it_converged_or_that_it_did_not(stream):
    runs = runs_of(stream, (), range(2), Settings(), reference_training(TRAINING, stream))[RETRAINING]
    ended = Convergence.of(RETRAINING, runs, outcome_of(runs, 15, 9))
    assert ended.sentence() == "multi-task converged at epoch 9, 9"
    late = Convergence.of(RETRAINING, runs, outcome_of(runs, 30, 27))
    assert "multi-task had not converged after 30 epochs (seed 0, 1)" in late.sentence()
    assert late.sentence().endswith("--set epochs=30 gives it twice as many")  # as it has twice those of the methods
    assert not late.to_json()["converged"]
    waited = Convergence.of(RETRAINING, runs, outcome_of(runs, 30, 30 - runs[0].training.patience))
    assert waited.to_json()["converged"]  # its patience ended in the very last epoch
    assert Convergence.of(RETRAINING, runs, Outcome({}, ())) is None
