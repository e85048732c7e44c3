"""compare: one record a run, nothing made twice, the same figures by one process, several, and adapt."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from memgrow.data import Stream, synthetic_stream
from memgrow.errors import DataError, SettingsError
from memgrow.evaluation import compare as comparing
from memgrow.evaluation.compare import Records, Run, Settings, compare, not_converged, plan, retraining_settings
from memgrow.evaluation.comparison import Comparison, RunResult
from memgrow.evaluation.history import AccuracyMatrix
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from research.common.dialogues import synthetic_dialogue


@pytest.fixture(autouse=True)
def without_bags(monkeypatch):
    """Baselines have tests of their own."""
    monkeypatch.setattr(comparing, "is_installed", lambda: False)


@pytest.fixture
def settings(tiny, short) -> Settings:
    return Settings(tiny, short)


def matrices(comparison: Comparison) -> dict[str, dict[int, AccuracyMatrix]]:
    return {name: {seed: one.matrix for seed, one in runs.items()} for name, runs in comparison.results.items()}


def test_a_run_is_that_of_a_learner_and_is_made_once(stream, settings, tmp_path):
    made = list[str]()
    options = {"folder": tmp_path / "runs", "settings": settings, "device": "cpu", "workers": 1, "seeds": [3]}
    options["on_run"] = lambda run, *_: made.append(str(run))
    first = compare(stream, ["finetune"], **options)
    assert sorted(made) == ["finetune, seed 3", "multi-task, seed 3"]
    learner = Learner.create("finetune", model=settings.model, training=settings.training, seed=3, device="cpu")
    history = learner.learn(stream)
    result = first.results["finetune"][3]
    assert (result.matrix, result.parameters) == (history.matrix, history.stages[-1].parameters)
    again = compare(stream, ["ewc"], **options)
    assert made[2:] == ["ewc, seed 3"]
    assert again.results["finetune"][3] == result
    assert len(list((tmp_path / "runs").glob("*.json"))) == 3


def test_other_data_or_settings_make_other_runs(stream, settings, tmp_path):
    other = replace(settings, training=replace(settings.training, rate=0.02))
    less = Stream([*stream[:2], replace(stream[2], test=stream[2].test[:12])])
    names = set()
    for data, chosen in ((stream, settings), (stream, other), (less, settings)):
        material = comparing.Material.of(data, "cpu", None)
        names.add(Records(tmp_path, material)._path(Run("finetune", 0, chosen)))
    assert len(names) == 3


def test_a_damaged_record_is_made_again_and_a_used_folder_is_refused(stream, settings, tmp_path):
    material, run = comparing.Material.of(stream, "cpu", None), Run("finetune", 0, settings)
    result = RunResult(AccuracyMatrix().with_row(("kitchen",), {"kitchen": 0.5}), 10, 1.5, {}, 3, 2)
    with Records.opened(tmp_path, material) as records:
        assert records.get(run) is None
        records.put(run, result)
        assert records.get(run) == result
        with pytest.raises(SettingsError, match="another comparison"):
            compare(stream, ["finetune"], folder=tmp_path, settings=settings, device="cpu")
        (path,) = tmp_path.glob("*.json")
        path.write_text(path.read_text()[:100])
        assert records.get(run) is None


def test_a_failed_run_is_reported_and_the_others_are_there(stream, settings, tmp_path):
    without = replace(settings, model=replace(settings.model, slots=0))
    found = compare(stream, ["finetune+slots"], folder=tmp_path, seeds=[0], settings=without, device="cpu", workers=1)
    (failure,) = found.failures
    assert (failure.method, failure.seed) == ("finetune+slots", 0)
    assert "slots" in failure.reason
    assert set(found.results) == {"finetune", "multi-task"}


def test_replies_have_bleu_and_perplexities(short, tmp_path):
    stream = synthetic_dialogue(train=40, validation=12, test=12)
    model = ModelSettings(cell="gru", embedding=8, hidden=12, slots=4, bidirectional=False)
    found = compare(
        stream, ["finetune+vocab"], folder=tmp_path, seeds=[0], settings=Settings(model, short), device="cpu"
    )
    assert found.kind == "bleu2"
    result = found.results["finetune+vocab"][0]
    assert [row.learned for row in result.matrix.rows] == [(name,) for name in stream.names]
    assert set(result.perplexities) == set(stream.names)
    assert min(result.perplexities.values()) > 1


def test_bad_streams_and_methods_are_refused_before_anything_is_made(stream, settings, tmp_path):
    untested = Stream([stream[0], replace(stream[1], test=())])
    for data, methods, error, said in (
        (stream[:1], ["finetune"], DataError, "at least two domains"),
        (untested, ["finetune"], DataError, "no test examples"),
        (stream, ["F+Z"], SettingsError, "no method"),
        (stream, ["lora"], SettingsError, "lora"),
    ):
        with pytest.raises(error, match=said):
            compare(data, methods, folder=tmp_path / "out", settings=settings, device="cpu")
    assert not (tmp_path / "out").exists()


def test_retraining_has_more_patience_and_tells_whether_it_converged(stream, settings):
    runs = plan(stream, ["finetune+vocab"], [0], settings)
    training = next(run.settings.training for run in runs if run.method == "multi-task")
    assert training == retraining_settings(settings.training, stream)
    assert (training.patience, training.epochs) == (6, 2 * settings.training.epochs)
    falling = retraining_settings(replace(settings.training, schedule="linear"), stream)
    assert falling.patience == falling.epochs == settings.training.epochs

    def ended(epochs: int, best: int) -> Comparison:
        matrix = AccuracyMatrix().with_row(stream.names, {"kitchen": 0.5})
        return Comparison({"multi-task": {0: RunResult(matrix, 1, 1.0, {}, epochs, best)}})

    longer = TrainingSettings(epochs=20, patience=6)
    assert not not_converged(ended(12, 6), longer)
    assert "20 epochs" in not_converged(ended(20, 18), longer)
    assert not not_converged(Comparison({}), longer)


SIZES = {"domains": 2, "train": 48, "validation": 12, "test": 12, "seed": 3}


def test_the_lock_of_a_folder_follows_no_link(stream, settings, tmp_path):
    (precious := tmp_path / "precious").write_text("mine")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / ".lock").symlink_to(precious)
    with pytest.raises(OSError, match="link"):
        compare(stream, ["finetune"], folder=tmp_path / "runs", seeds=[0], settings=settings, device="cpu", workers=1)
    assert precious.read_text() == "mine"


KILLED = f"""
import sys
from pathlib import Path
from memgrow.data import synthetic_stream
from memgrow.evaluation.compare import Settings, compare
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
if __name__ == "__main__":
    model = ModelSettings(embedding=6, hidden=5, slots=4, perceptron=16)
    settings = Settings(model, TrainingSettings(rate=0.01, batch=4, epochs=6, patience=6))
    stream, folder = synthetic_stream(**{SIZES}), Path(sys.argv[1])
    compare(stream, [], folder=folder, seeds=[0], settings=settings, device="cpu", workers=2)
"""


@pytest.mark.slow
def test_a_comparison_in_processes_is_killed_whole_goes_on_and_ends_as_in_one_process(tiny, tmp_path):
    script, folder = tmp_path / "bin" / "script.py", tmp_path / "runs"
    script.parent.mkdir()
    script.write_text(KILLED)
    (tmp_path / "socket.py").write_text("raise SystemExit('a module of the working directory was imported')")
    process = subprocess.Popen([sys.executable, str(script), str(folder)], cwd=tmp_path, start_new_session=True)
    deadline = time.monotonic() + 120
    while not list(folder.glob("*.json")) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)  # until a first run has ended
    assert list(folder.glob("*.json"))
    process.kill()
    process.wait(60)
    while _group(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _group(process.pid)
    settings = Settings(tiny, TrainingSettings(rate=0.01, batch=4, epochs=6, patience=6))
    resumed, alone = (
        compare(synthetic_stream(**SIZES), [], folder=one, seeds=[0], settings=settings, device="cpu", workers=1)
        for one in (folder, tmp_path / "alone")
    )
    assert matrices(resumed) == matrices(alone)


def _group(group: int) -> bool:
    """Whether a process of this group is alive."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
