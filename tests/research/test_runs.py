"""Tiny real runs of each study, from data to figures."""

import json
from dataclasses import replace

import pytest

from memgrow import synthetic_stream
from research.common.corpora import Loaded
from research.common.dialogues import synthetic_dialogue
from research.common.settings import ModelSettings, TrainingSettings
from research.encoders import streams as encoder_streams
from research.encoders.__main__ import main as encoders
from research.paper import __main__ as paper
from research.paper.protocol import QUICK, QUICK_DIALOGUE, Data
from research.theorem.__main__ import main as theorem
from research.which_method import streams as trial_streams
from research.which_method.__main__ import main as which_method
from tests.support.multinli_layout import write_multinli
from tests.support.tiny_encoder import make_encoder

BRIEF = TrainingSettings(rate=1e-2, epochs=1)


@pytest.mark.slow
def test_the_paper_on_multinli(tmp_path, monkeypatch, capsys):
    small = replace(QUICK, training=replace(QUICK.training, epochs=1), data=Data(limit=24, held_out=10), seeds=1)
    monkeypatch.setattr(paper, "QUICK", small)
    corpus, out = write_multinli(tmp_path / "corpus", 30), tmp_path / "out"
    words = ["--quick", "--data", str(corpus), "--out", str(out), "--device", "cpu"]
    paper.main(["table2", "recommended", "theorem", *words])
    told = capsys.readouterr().out
    assert "Missing: F+M+V+Q on fiction, government (24 pairs of each), seed 0: memgrow no longer has" in told
    made = {name: (out / f"{name}.json").read_bytes() for name in ("table2", "recommended", "theorem")}
    figures = json.loads(made["table2"])
    assert figures["command"] == "python -m research.paper table2 --data FOLDER --quick"
    assert all(len(line["cells"]["S"]["values"]) == 1 for line in figures["sheets"][0]["rows"])
    assert json.loads(made["theorem"])["measured"][1]["effects"]["slots"]["slots"] > 0
    paper.main(["table2", "--quick", "--no-runs", "--out", str(out)])
    assert (out / "table2.json").read_bytes() == made["table2"]


def test_the_paper_on_dialogue(tmp_path, monkeypatch, capsys):
    small = replace(QUICK_DIALOGUE, training=replace(BRIEF, batch=16), data=Data(limit=40, held_out=10), seeds=1)
    monkeypatch.setattr(paper, "QUICK_DIALOGUE", small)
    paper.main(["table5", "table6", "--quick", "--out", str(tmp_path), "--device", "cpu"])
    sheet = json.loads((tmp_path / "table5.json").read_text())["sheets"][0]
    assert [line["name"] for line in sheet["rows"]][-2:] == ["F+V", "echo"]
    assert all(line["cells"]["perplexity_S"]["values"][0] > 1 for line in sheet["rows"][:-1])
    assert len(json.loads((tmp_path / "table6.json").read_text())["samples"]) == 2 * small.replies.samples
    assert "dialogues made by rule" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["table9"], "table9"),
        (["table2", "table5"], "two commands"),
        (["table2", "--study", "data"], "conditions"),
        (["table2", "--data", "nowhere"], "research.data get multinli"),
        (["table2", "--no-runs", "--limit", "3"], "--data"),
    ],
)
def test_what_cannot_be_made_is_told_in_a_sentence(tmp_path, monkeypatch, words, match):
    monkeypatch.setenv("MEMGROW_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match=match):
        paper.main([*words, "--out", str(tmp_path)])


def test_the_theorem_alone(tmp_path, capsys):
    theorem(["--samples", "20", "--out", str(tmp_path)])
    assert "S when new slots get r times the attention" in capsys.readouterr().out
    assert json.loads((tmp_path / "theorem.json").read_text())["measured"] == []
    with pytest.raises(SystemExit, match="both"):
        theorem(["--model", str(tmp_path)])


@pytest.mark.slow
def test_the_study_of_encoders(tmp_path, monkeypatch, capsys):
    made = synthetic_stream(4, train=32, validation=10, test=10)
    names = encoder_streams.STREAMS["sentiment"].domains
    domains = [replace(domain, name=name) for domain, name in zip(made, names, strict=True)]
    source = replace(encoder_streams.STREAMS["sentiment"], open=lambda folder: Loaded(type(made)(domains)))
    monkeypatch.setitem(encoder_streams.STREAMS, "sentiment", source)
    folder, data, runs = make_encoder(tmp_path / "tiny"), tmp_path / "data", tmp_path / "runs"
    encoders(["data", "--stream", "sentiment", "--out", str(data)])
    words = ["--stream", "sentiment", "--data", str(data), "--encoder", str(folder), "--runs", str(runs)]
    rows = "ridge,F,one slot,multi-task"
    encoders(["run", *words, "--orders", "1", "--rows", rows, "--seeds", "1", "--device", "cpu", "--bundle"])
    assert "4 of 4 runs are whole" in capsys.readouterr().out
    encoders(["figures", "--runs", str(runs), "--out", str(tmp_path / "figures")])
    found = json.loads((tmp_path / "figures/sentiment.json").read_text())["encoders"]["tiny"]["orders"]["1"]["rows"]
    assert set(found) == set(rows.split(","))
    assert found["F"]["seeds"] == [0]


def test_which_method(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # no records of the study of encoders here
    tiny = trial_streams.Settings(ModelSettings(embedding=8, hidden=6, slots=4, perceptron=6), BRIEF)
    replying = replace(tiny, model=ModelSettings(cell="gru", embedding=8, hidden=6, slots=4, bidirectional=False))
    for name, family, settings in (("made", "bilstm", tiny), ("desks", "replies", replying)):
        stream = replace(trial_streams.TRIALS[name], settings={family: settings}, seeds=range(2))
        monkeypatch.setitem(trial_streams.TRIALS, name, stream)
    sizes = {"train": 24, "validation": 8, "test": 8}
    for name, make in (("made", synthetic_stream(4, **sizes)), ("made-replies", synthetic_dialogue(3, **sizes))):
        source = replace(trial_streams.SOURCES[name], domains=make.names, open=lambda folder, make=make: Loaded(make))
        monkeypatch.setitem(trial_streams.SOURCES, name, source)
        assert trial_streams.TRIALS["made" if name == "made" else "desks"].domains == make.names
    which_method(["data", "--out", "data", "--sources", "made,made-replies"])
    words = ["--data", "data", "--runs", "runs", "--device", "cpu", "--candidates", "F+V,F+V+E"]
    which_method(["run", "--family", "bilstm", "--part", "checking", "--streams", "made", *words])
    which_method(["run", "--family", "replies", "--streams", "desks", *words])
    assert capsys.readouterr().out.count("4 of 4 runs are whole") == 2
    which_method(["figures", "--runs", "runs", "--out", "figures"])
    rows = json.loads((tmp_path / "figures/replies.json").read_text())["streams"]["desks"]["rows"]
    assert [len(rows[name]["average"]["values"]) for name in ("F+V", "F+V+E")] == [2, 2]
