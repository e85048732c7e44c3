"""The demo: every method learns the same data, seed by seed, and the command writes it down."""

import hashlib
import json

import pytest
from typer.testing import CliRunner

from memgrow import data
from memgrow.cli import app
from memgrow.data import synthetic_stream
from memgrow.data.corpora import RATINGS
from memgrow.data.domain import PARTS
from memgrow.evaluation import demo
from memgrow.evaluation.compare import Settings
from memgrow.models.hub import NOTE, WEIGHTS
from memgrow.training.progress import NoProgress
from tests.support.tiny_encoder import make_encoder

NAMES = ("kitchen", "harbour", "clinic")


@pytest.fixture(autouse=True)
def small(monkeypatch, tiny, short):
    monkeypatch.setattr(demo, "MODEL", tiny)
    monkeypatch.setattr(demo, "TRAINING", short)
    sizes = {"domains": 3, "train": 30, "validation": 12, "test": 12}
    monkeypatch.setattr("memgrow.data.synthetic_stream", lambda seed: synthetic_stream(**sizes, seed=seed))


def test_methods_learn_the_same_data_by_seed_and_json_is_read_back(tiny, short):
    how = {"settings": Settings(tiny, short), "device": "cpu", "progress": NoProgress()}
    made = demo.run_demo(lambda seed: data.synthetic_stream(seed=seed), ["finetune", "f+m+v"], range(5, 7), **how)
    assert list(made["runs"]) == ["finetune", "finetune+slots+vocab"]
    prints = [[stage["fingerprint"] for one in runs for stage in one["stages"]] for runs in made["runs"].values()]
    assert prints[0] == prints[1]
    assert len(set(prints[0])) == 6
    found = demo.comparison_of(json.loads(json.dumps(made)))
    assert list(found.results["finetune"]) == [5, 6]
    assert all(set(NAMES) == set(found.mean_matrix(method).domains) for method in found.results)


def test_the_command_shows_the_ends_and_a_refused_update_and_writes_figures_and_report(tmp_path):
    out = tmp_path / "deep" / "out"
    result = CliRunner().invoke(app, ["demo", "--seeds", "2", "--seed", "5", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == ["demo.json", "model", "report.html"]
    found = json.loads((out / "demo.json").read_text())
    assert found["seeds"] == 2
    assert found["gate"]["refused"] == (found["gate"]["before"] - found["gate"]["after"] > 0.05)
    assert all(method in result.output for method in demo.METHODS)
    assert "rows of old data kept: 0" in result.output


def test_real_texts_and_an_encoder_go_through_the_same_acts(tmp_path, monkeypatch):
    encoder = make_encoder(tmp_path / "encoders" / "minilm")
    sha256 = hashlib.sha256((encoder / WEIGHTS).read_bytes()).hexdigest()
    (encoder / NOTE).write_text(json.dumps({"sha256": {WEIGHTS: sha256}}))
    monkeypatch.setenv("MEMGROW_ENCODERS", str(encoder.parent))
    monkeypatch.setenv("MEMGROW_DATA", str(tmp_path / "data"))
    for name in ("FIRST_EPOCHS", "AUTO_EPOCHS", "AUTO_STEPS"):
        monkeypatch.setattr(f"memgrow.training.settings.{name}", 1)
    (tmp_path / "data" / "sentiment").mkdir(parents=True)
    for domain in RATINGS:
        rows = [
            {"text": f"a {word} {domain} {n}", "label": label, "split": split}
            for n in range(4)
            for split in PARTS
            for word, label in (("good", "positive"), ("bad", "negative"))
        ]
        write = (tmp_path / "data" / "sentiment" / f"{domain}.jsonl").write_text
        write("".join(f"{json.dumps(row)}\n" for row in rows))
    result = CliRunner().invoke(app, ["demo", "--real", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    runs = json.loads((tmp_path / "out" / "demo.json").read_text())["runs"]
    assert list(runs) == ["finetune", "finetune+ema+memory", "multi-task"]
    assert "films" in result.output
