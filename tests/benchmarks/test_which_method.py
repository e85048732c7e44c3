"""The runs of the protocol for the default, by its script: parts in their order, stopped and gone on with."""

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from memgrow.data import synthetic_stream
from memgrow.data.files import write_jsonl
from memgrow.experiments.which_method import candidates, streams
from memgrow.experiments.which_method.streams import Settings, TrialStream
from memgrow.training.settings import TrainingSettings
from tests.support.tiny_encoder import make_encoder

SCRIPT = Path(__file__).parents[2] / "benchmarks/which_method.py"
DOMAINS = ("kitchen", "harbour")
TINY = Settings(None, TrainingSettings(epochs=1, rate=1e-3), "tiny")


@pytest.fixture
def script(monkeypatch):
    family = candidates.FAMILIES["encoder"]
    few = replace(family, candidates=tuple(family.called(["F", "F+A auto"])))
    monkeypatch.setattr(candidates, "FAMILIES", {"encoder": few})
    parts = {"one": ("choosing", DOMAINS), "two": ("checking", DOMAINS[::-1])}
    tiny = {
        name: TrialStream(name, part, "made", domains, {"encoder": TINY}, seeds=range(2))
        for name, (part, domains) in parts.items()
    }
    monkeypatch.setattr(streams, "TRIALS", tiny)
    spec = importlib.util.spec_from_file_location("benchmark_of_methods", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path, monkeypatch):
    make_encoder(tmp_path / "encoder")
    write_jsonl(synthetic_stream(2, 12, 6, 6), tmp_path / "data/made")
    monkeypatch.chdir(tmp_path)  # where no study has left records
    return tmp_path


def test_choosing_goes_on_after_a_break_and_checking_waits_for_a_winner(script, folder, capsys):
    given = ["--family", "encoder", "--data", "data", "--encoder", "tiny=encoder", "--device", "cpu", "--workers", "1"]

    def run(*more):
        script.main(["run", *given, *more])
        return capsys.readouterr().out

    assert "0 of 4 runs are whole; 4: it was not made" in run("--minutes", "-1")
    with pytest.raises(SystemExit, match="nobody has won for encoder as yet: one must be whole first"):
        run("--part", "checking")
    assert "2 of 2 runs are whole" in run("--candidates", "F")
    said = run()
    assert "4 of 4 runs are whole" in said
    assert "F, 2 harbour" not in said
    script.main(["plan", *given])
    assert capsys.readouterr().out.splitlines()[-1].split() == ["encoder", "one", "4", "0", "0"]
    winner = script.choice(script.parser().parse_args(["run", *given]), candidates.FAMILIES["encoder"]).winner
    asked = {"F", "F+A auto", winner}
    assert f"{2 * len(asked)} of {2 * len(asked)} runs are whole" in run("--part", "checking", "--bundle")
    script.main(["figures"])
    found = json.loads(Path("results/which-method/encoder.json").read_text())
    assert set(found["streams"]["two"]["rows"]) == asked
