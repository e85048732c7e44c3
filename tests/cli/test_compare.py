"""`memgrow compare`: the table, the files, and what happens the second time."""

import json
import re

import pytest

from memgrow.cli import compare as compare_command
from research.common.dialogues import synthetic_dialogue
from tests.support.stored import stored

TALKER = ("embedding=8", "hidden=12", "model.slots=4", "epochs=1", "batch=16", "cell=gru", "bidirectional=false")
ROWS = ("finetune", "finetune+vocab", "multi-task", "bag of words", "bag, all data")
QUICK = ("--workers", "1", "--device", "cpu")


@pytest.fixture
def compare(memgrow, data, tmp_path):
    """The words of a comparison of three domains into a folder of its own."""
    return ("compare", *data.values(), *memgrow.tiny, *QUICK, "--out", tmp_path / "out", "--limit", 24)


def fits(out: str, *long: object) -> bool:
    for one in long:
        out = out.replace(str(one), "")
    return max(map(len, out.splitlines())) <= 80


def test_methods_are_compared_and_all_is_written_down(memgrow, compare, tmp_path):
    out = memgrow.done(*compare, "--methods", "finetune+vocab", "--seeds", 2)
    assert fits(out, tmp_path)
    for method in ROWS:
        assert re.search(rf"^ +{re.escape(method)} +\d+\.\d ± \d", out, re.MULTILINE)
    assert "kitchen → harbour → clinic: 72 training" in out
    assert "hidden 5" in out
    assert "Without old data" in out
    assert "UserWarning" not in out
    assert re.search(r"finetune, seed \d: \w+: test accuracy .* no better than always", " ".join(out.split()))
    written = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert set(written["methods"]) == set(ROWS)
    matrices = {name: row["matrices"]["1"] for name, row in written["methods"].items()}
    assert [len(matrices[name]) for name in ROWS] == [3, 3, 1, 3, 1]
    assert all(set(row["scores"]) == set(written["domains"]) for matrix in matrices.values() for row in matrix)
    assert written["seeds"] == [0, 1]
    assert written["settings"]["model"]["hidden"] == 5
    assert written["domains"]["clinic"] == {"train": 24, "validation": 24, "test": 24}
    assert written["methods"]["finetune+vocab"]["against"]["finetune"]["n"] == 2
    files = ["compare.json", "report.html", "runs"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == files


def test_adapt_gives_what_compare_shows(memgrow, data, tmp_path, monkeypatch):
    monkeypatch.setattr(compare_command, "write_report", lambda *_: None)  # takes a while
    files = list(data.values())[:2]
    same = (*memgrow.tiny, "--set", "rate=0.01", "--set", "epochs=3", "--device", "cpu", "--limit", 24, "--seed", 3)
    memgrow.done(
        "compare", *files, *same, "--methods", "finetune+vocab+ema", "--seeds", 1, "--workers", 1, "--out", tmp_path
    )
    shown = json.loads((tmp_path / "compare.json").read_text())["methods"]["finetune+vocab+ema"]["matrices"]["3"]
    memgrow.done("adapt", tmp_path / "model", *files, *same, "--method", "finetune+vocab+ema")
    assert json.loads((stored(tmp_path / "model") / "history.json").read_text())["matrix"] == shown


def test_the_second_time_nothing_is_learned_and_more_seeds_add_to_what_is_there(memgrow, compare, tmp_path):
    first = memgrow.done(*compare, "--methods", "finetune", "--seeds", 1)
    figures = (tmp_path / "out" / "compare.json").read_bytes()
    second = memgrow.done(*compare, "--methods", "finetune", "--seeds", 1)
    assert first.count("seed 0: average") == 4
    assert second.count(": average") == 0
    assert (tmp_path / "out" / "compare.json").read_bytes() == figures
    third = memgrow.done(*compare, "--methods", "finetune", "--seeds", 2)
    assert "seed 0: average" not in third
    assert third.count("seed 1: average") == 3


def test_a_method_that_fails_is_told_with_its_reason_and_the_others_are_shown(memgrow, compare, tmp_path):
    result = memgrow(*compare, "--methods", "finetune+slots", "--seeds", 1, "--set", "model.slots=0")
    assert result.exit_code == 2
    assert "1 run failed (finetune+slots)" in result.stderr
    assert re.search(r"^ +multi-task +\d", result.stdout, re.MULTILINE)
    (failure,) = json.loads((tmp_path / "out" / "compare.json").read_text())["failures"]
    assert failure["method"] == "finetune+slots"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--methods", "F+Z"), "there is no method"),
        (("--set", "joy=1"), "there is no setting 'joy'"),
        (("--vectors", "nowhere.txt"), "nowhere.txt"),
        (("--on", "mars"), "--on must be"),
    ],
)
def test_mistakes_are_told_before_anything_is_made(memgrow, compare, tmp_path, words, says):
    assert says in memgrow.refused(*compare, *words)
    assert not (tmp_path / "out").exists()


def test_words_are_as_long_as_the_vectors_that_are_given(memgrow, data, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("soup 1 2 3 4 5 6 7\nstew 7 6 5 4 3 2 1\n")
    words = ("compare", *data.values(), *QUICK, "--vectors", vectors, "--out", tmp_path / "out")
    sizes = ("--set", "hidden=5", "--set", "model.slots=4", "--set", "epochs=1", "--limit", 12)
    out = memgrow.done(*words, *sizes, "--methods", "finetune", "--seeds", 1)
    assert "embedding 7" in out
    assert "leave embedding" in memgrow.refused(*words, *sizes, "--set", "embedding=6")


# Messages and replies


@pytest.fixture
def desks(memgrow, jsonl, tmp_path):
    """The words of a comparison of two help desks."""
    files = [
        jsonl(
            tmp_path / "desks" / f"{domain.name}_{part}.jsonl",
            [{"asked": example.text, "said": example.reply} for example in getattr(domain, part)],
        )
        for domain in synthetic_dialogue(train=40, validation=12, test=12)
        for part in ("train", "validation", "test")
    ]
    sizes = [word for size in TALKER for word in ("--set", size)]
    columns = ("--text", "asked", "--reply", "said")
    return ("compare", *files, *columns, *sizes, *QUICK, "--out", tmp_path / "out", "--seeds", 1)


def test_replies_are_compared_by_bleu2_and_perplexity(memgrow, desks, tmp_path):
    out = memgrow.done(*desks, "--methods", "finetune+slots+vocab")
    assert fits(out, tmp_path)
    for method in ("finetune", "finetune+slots+vocab", "multi-task"):
        assert re.search(rf"^ +{re.escape(method)} +\d+\.\d+ ", out, re.MULTILINE)
    assert "BLEU-2 of the test replies" in out
    assert "perpl." in out
    assert "%" not in out
    written = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert written["measure"] == "bleu2"
    assert set(written["methods"]) == {
        "finetune",
        "finetune+slots+vocab",
        "multi-task",
    }
    assert written["settings"]["model"]["hidden"] == 12
    for figures in written["methods"].values():
        assert figures["perplexity"]["mean"] > 1
        assert set(figures["perplexities"]["0"]) == {"kitchen", "harbour"}
        assert 0 <= figures["average"]["mean"] <= 1
