"""The paper's tables on dialogue: from records to cells, and from files to tables."""

import json
from dataclasses import replace

import numpy as np
import pytest

from memgrow.cli.recipe import read_recipe
from memgrow.data import synthetic_dialogue
from memgrow.errors import SettingsError
from memgrow.experiments.paper.dialogue import SOURCE, TARGET, TUNING, dialogue_tables, table5_rows, table6_rows
from memgrow.experiments.paper.dialogue_tests import compare, corrected
from memgrow.experiments.paper.protocol import DIALOGUE as PAPER
from memgrow.experiments.paper.protocol import DIALOGUES as PAIR
from memgrow.experiments.paper.protocol import QUICK_DIALOGUE, Replies
from memgrow.experiments.paper.session import figures, named, run_all
from memgrow.experiments.paper.tables import LINES, TABLES
from memgrow.experiments.reply_records import ReplyRecord, checksum
from memgrow.metrics.paper_test import paper_test
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from tests.cli.conftest import Memgrow
from tests.support.dialogue_records import WORDS, Runner, said, small_pair, write_vectors

SHORT = replace(PAPER, seeds=2, replies=Replies(resamples=200))
memgrow = Memgrow()


def made(name="table5", runner=None, echo=None, protocol=SHORT):
    tables = dialogue_tables(echo)
    ran = run_all([tables[name]], protocol, runner or Runner(), TUNING)
    return figures(tables[name], ran).to_json()


def lines_of(table):
    return {row["name"]: row for row in table["sheets"][0]["rows"]}


# The protocol


def test_the_protocol_has_the_settings_of_the_recipe():
    recipe = read_recipe("paper-dialogue")
    assert PAPER.model == recipe.section("model", ModelSettings())
    assert replace(PAPER.training, min_count=1) == recipe.section("training", TrainingSettings())


def test_the_paper_s_twelve_lines_are_there_with_its_figures():
    rows = table5_rows(PAPER)
    assert [row.about["line"] for row in rows] == [*range(1, 13), None]
    assert rows[7].paper == {
        "bleu2_S": (1.637, None),
        "bleu2_T": (1.652, None),
        "w2v_sim_S": (0.522, None),
        "w2v_sim_T": (0.525, None),
    }
    assert rows[8].paper["bleu2_T"] == (1.606, "down")
    assert all(row.run(PAPER, 0).model.slots == (0 if row.about["line"] in (1, 2) else 1024) for row in rows)


# From records to cells


def test_every_figure_stands_in_the_cell_of_its_row_and_domain():
    shares = {"F": 0.2, "F+M": 0.3, "F+M+V": 0.4, "Progressive": 0.6}

    def share(run, name):
        return shares.get(run.method, 0.1) + (0.05 if name == TARGET else 0) if len(run.learns) == 2 else 0.8

    lines = lines_of(made(runner=Runner(share, lambda run, name, part: 7.0 if name == SOURCE else 9.0)))
    for name, expected in shares.items():
        cells = lines[name]["cells"]
        assert cells["bleu2_S"]["mean"] == pytest.approx(100 * expected)
        assert cells["bleu2_T"]["mean"] == pytest.approx(100 * expected + 5)
        assert cells["bleu2_S"]["values"] == [cells["bleu2_S"]["mean"]] * 2
    assert lines["S"]["cells"]["bleu2_T"]["mean"] == pytest.approx(80)  # after the first domain alone
    cells = lines["F+H"]["cells"]
    assert (cells["perplexity_S"]["mean"], cells["perplexity_T"]["mean"]) == (7.0, 9.0)
    assert (cells["distinct1_S"]["mean"], cells["distinct2_T"]["mean"], cells["length_S"]["mean"]) == (25, 50, WORDS)
    assert cells["w2v_sim_T"] | {"tests": None} == {
        "mean": 0.5,
        "spread": 0.0,
        "values": [0.5, 0.5],
        "paper": 0.495,
        "paper_arrow": "DOWN",
        "tests": None,
    }
    assert lines["F+M+V"]["parameters"] == 2000
    assert lines["F+M+V"]["epochs"]["mean"] == 6


def test_rows_are_tested_against_the_proposed_one():
    def share(run, name):
        return {"F": 0.3, "Progressive": 0.7}.get(run.method, 0.5) if len(run.learns) == 2 else 0.5

    lines = lines_of(made(runner=Runner(share)))
    tests = {name: row["cells"]["bleu2_S"].get("tests", {}).get("F+M+V") for name, row in lines.items()}
    assert tests["F+M+V"] is None
    assert (tests["F"]["arrow"], tests["Progressive"]["arrow"], tests["F+M"]["arrow"]) == ("DOWN", "UP", None)
    assert tests["F"]["difference"] == pytest.approx(-20)
    assert tests["F"]["low"] < -20 < tests["F"]["high"] < 0 < tests["Progressive"]["low"]
    assert tests["F"]["p"] < 0.05 < tests["F"]["p_holm"] < 1 == tests["F+M"]["p_holm"]
    assert tests["F"]["arrows"] == {"DOWN": 2}


def test_the_messages_as_replies_are_a_row_without_seeds():
    echo = {name: ReplyRecord(scores=said(0.9, 0.7)) for name in PAIR}
    row = lines_of(made(echo=echo))["echo"]
    assert row["line"] is None
    assert row["cells"]["bleu2_T"]["values"] == [90]
    assert row["cells"]["perplexity_T"]["mean"] is None
    assert row["cells"]["bleu2_T"]["tests"]["F+M+V"]["seeds"] == 2
    assert "echo" not in lines_of(made())


def test_ewc_s_strength_is_the_one_with_the_lowest_validation_perplexity():
    def perplexity(run, name, part):
        best = run.options.strength == (100 if part == "validation" else 10)
        return 5.0 if run.method == "EWC" and best else 20.0

    runner = Runner(perplexity=perplexity)
    table = made(runner=runner)
    assert table["strength"]["chosen"] == 100
    assert table["strength"]["validation_average"]["100"] == pytest.approx(5)
    first = runner.asked[0]
    assert {run.options.strength for run in first if run.method == "EWC"} == set(PAPER.strengths)
    assert len(runner.asked) == 1  # what was chosen has been run in the search


def test_a_failed_run_leaves_a_dash_and_is_told():
    table = made(runner=Runner(fails=lambda run: run.method == "Progressive"))
    row = lines_of(table)["Progressive"]
    assert row["cells"]["bleu2_S"]["mean"] is None
    assert "tests" not in row["cells"]["bleu2_S"]
    assert "the lamp went out" in table["failures"][0]


def test_samples_are_those_of_the_first_seed_of_the_proposed_method():
    runner = Runner()
    table = made("table6", runner)
    assert table["samples"] == [
        {"domain": name, "index": 0, "message": "abc", "reply": "so it is"} for name in (SOURCE, TARGET)
    ]
    assert [(run.method, run.seed) for run in runner.asked[0]] == [("F+M+V", 0)]
    assert table6_rows(PAPER)[0].run(PAPER, 0) in {row.run(PAPER, 0) for row in table5_rows(PAPER)}


# Tests


def test_on_right_and_wrong_the_paper_s_test_is_the_one_that_is_used_elsewhere():
    rng = np.random.default_rng(3)
    ours, other = rng.random((2, 300)) < np.array([[0.6], [0.5]])
    rows = [{0: replace(said(1, examples=300), similarity=right.astype(float))} for right in (ours, other)]
    found, expected = compare(rows, 0, "w2v_sim", 50)[1], paper_test(ours, other)
    assert found.arrow == expected.arrow
    assert found.p_paper == pytest.approx(min(expected.p_worse, expected.p_better), abs=1e-6)


def test_the_bootstrap_finds_no_difference_where_seeds_disagree():
    us = {seed: said(0.5) for seed in range(3)}
    them = {0: said(0.3), 1: said(0.5), 2: said(0.8)}
    test = compare([us, them], 0, "bleu2", 1000)[1]
    assert test.p > 0.1
    assert test.low < 0 < test.high
    assert corrected({(1, "one"): test})[1, "one"].p_holm == pytest.approx(test.p, abs=1e-6)


def test_only_seeds_that_both_rows_have_are_compared():
    rows = [{0: said(0.5), 1: said(0.5)}, {1: said(0.4), 2: said(0.9)}, {3: said(0.1)}]
    tests = compare(rows, 0, "bleu2", 100)
    assert list(tests) == [1]
    assert tests[1].difference == pytest.approx(-10)


# The command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Dialogues made by rule in the layout of the prepared corpora."""
    folder = tmp_path_factory.mktemp("dialogue")
    source, target = synthetic_dialogue(2, train=300, validation=60, test=60)
    layout = {
        "cornell.tsv": (*source.train, *source.validation, *source.test),
        "ubuntu_train.tsv": target.train,
        "ubuntu_dev.tsv": target.validation,
        "ubuntu_test.tsv": target.test,
    }
    for name, examples in layout.items():
        rows = "".join(f"{example.text}\t{example.reply}\n" for example in examples)
        (folder / name).write_text("message\tresponse\n" + rows)
    return folder


@pytest.mark.slow
def test_tables_are_made_from_files_and_found_again(folder, tmp_path, tmp_path_factory):
    vectors = write_vectors(tmp_path_factory.mktemp("vectors") / "w2v.txt", small_pair())
    words = ("paper", "table5", "table6", "--quick", "--data", folder, "--w2v", vectors, "--limit", 40)
    words = (*words, "--seeds", 1, "--device", "cpu", "--workers", 1, "--out", tmp_path)
    printed = memgrow.done(*words)
    assert "seed 0:" in printed
    assert max(map(len, printed.replace(str(tmp_path), "out").splitlines())) <= 80
    five, six = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("table5", "table6"))
    assert not five["failures"]
    assert five["data"] == {name: {"train": 40, "validation": 60, "test": 60} for name in PAIR}
    assert len(lines_of(five)) == 14
    for row in five["sheets"][0]["rows"]:
        for column, cell in row["cells"].items():
            assert (cell["mean"] is not None) == (row["name"] != "echo" or "perplexity" not in column)
    assert five["command"] == "memgrow paper table5 --data FOLDER --w2v w2v.txt --seeds 1 --limit 40 --quick"
    assert [(s["domain"], s["index"]) for s in six["samples"]] == [(n, i) for n in PAIR for i in (0, 20, 40)]
    messages = [line.split("\t")[0] for path in folder.iterdir() for line in path.read_text().splitlines()[1:]]
    assert checksum(six_message := _shown(printed)) == six["samples"][0]["message"]
    assert six_message in messages
    written = (tmp_path / "table6.json").read_text() + (tmp_path / "table5.json").read_text()
    assert not [message for message in messages if message in written]

    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.json")}
    assert "seed 0:" not in memgrow.done(*words)  # no job has ended
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.json")} == before

    memgrow.done("paper", "page", "--out", tmp_path, "--page", tmp_path / "paper.md")
    page = (tmp_path / "paper.md").read_text()
    assert "(1.652)" in page
    assert six["samples"][0]["message"] in page


def _shown(printed):
    return next(line.removeprefix("> ").strip() for line in printed.splitlines() if line.startswith("> "))


def test_mistakes_are_one_sentence(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MEMGROW_DATA", str(tmp_path / "empty"))
    assert "two commands" in memgrow.refused("paper", "table2", "table5", "--data", folder)
    assert "memgrow data get cornell" in memgrow.refused("paper", "table5", "--out", tmp_path)
    assert "holds no cornell" in memgrow.refused("paper", "table6", "--data", tmp_path, "--out", tmp_path)
    assert "table5" in memgrow.refused("paper", "table2", "--w2v", folder / "x.txt", "--out", tmp_path)
    assert "x.txt" in memgrow.refused("paper", "table5", "--quick", "--w2v", folder / "x.txt", "--out", tmp_path)
    assert not list(tmp_path.iterdir())


def test_all_is_what_is_made_on_multinli():
    assert named(["all"]) == [*(name for name in TABLES if name != "conditions"), "theorem"]
    assert named(["table6", "table5", "page"]) == ["table5", "table6", "page"]
    with pytest.raises(SettingsError, match="two commands"):
        named(["all", "table5"])


def test_the_quick_protocol_asks_for_every_line():
    assert len({row.run(replace(QUICK_DIALOGUE, strength=1.0), 0) for row in table5_rows(QUICK_DIALOGUE)}) == len(LINES)
