"""What docs/paper.md reads from Table 5 holds: after new runs that fail here, its sentences have to be written anew."""

import json
from math import exp
from pathlib import Path

import pytest

TABLE = json.loads((Path(__file__).resolve().parents[2] / "results/paper/table5.json").read_text(encoding="utf-8"))
ROWS = {row["name"]: row["cells"] for row in TABLE["sheets"][0]["rows"]}
TUNED = ("F", "F+V", "F+M", "F+M+V", "F+H", "F+H+V")
TESTED = ("bleu2_S", "bleu2_T", "w2v_sim_S", "w2v_sim_T")


def mean(row: str, column: str) -> float:
    return ROWS[row][column]["mean"]


def against(row: str, column: str) -> tuple[float, bool]:
    """The difference from F+M+V, and whether it is significant."""
    test = ROWS[row][column]["tests"]["F+M+V"]
    return test["difference"], test["p_holm"] < 0.05


def test_fine_tuning_more_than_doubles_the_perplexity_on_the_source_and_ewc_does_not():
    learnt = mean("S", "perplexity_S")
    assert all(mean(row, "perplexity_S") > 2 * learnt for row in TUNED)
    assert mean("EWC", "perplexity_S") < 2 * learnt
    assert mean("F", "perplexity_T") < mean("EWC", "perplexity_T") < 1.1 * mean("F", "perplexity_T")
    assert max(ROWS, key=lambda row: mean(row, "perplexity_S") or 0) == "Progressive"


@pytest.mark.parametrize(("more", "less"), [("F+M+V", "F+V"), ("F+M", "F")])
def test_slots_bring_no_gain_over_the_same_words(more, less):
    for column in ("perplexity_S", "perplexity_T"):
        assert mean(more, column) == pytest.approx(mean(less, column), rel=0.01)
    for column in TESTED:
        spread = max(ROWS[row][column]["spread"] for row in (more, less))
        assert mean(more, column) - mean(less, column) < spread


def test_rows_lie_beside_the_proposed_one_as_the_page_says():
    assert [against("EWC", column)[1] for column in TESTED] == [True, False, True, True]
    assert all(against("EWC", column)[0] > 0 for column in TESTED)
    assert all(against("Progressive", column)[0] < 0 and against("Progressive", column)[1] for column in TESTED)
    assert [against("F", column)[1] for column in TESTED] == [False, False, True, False]
    assert all(against("F", column)[0] > 0 for column in TESTED)
    assert [against("F+H", column)[1] for column in TESTED] == [False, False, True, True]
    assert all(against("F+H", column)[0] > 0 for column in TESTED)
    assert all(against("F+H+V", column)[0] < 0 and not against("F+H+V", column)[1] for column in TESTED)
    assert not any(against("F+V", column)[1] for column in TESTED)
    for row in ("RNN: S", "S", "S+T", "RNN: T", "T"):
        difference, significant = against(row, "w2v_sim_T")
        assert difference < 0
        assert significant
        assert against(row, "bleu2_T")[1] == ("T" not in row or row == "S+T")


def test_replies_of_the_source_are_short_and_the_message_itself_has_the_best_bleu():
    for letter in "ST":
        short = [mean(row, f"length_{letter}") for row in ("RNN: S", "S", "S+T")]
        assert max(short) < 5
        assert all(7 < mean(row, f"length_{letter}") < 10 for row in (*TUNED, "EWC"))
        assert max(ROWS, key=lambda row, letter=letter: mean(row, f"bleu2_{letter}")) == "echo"
    assert mean("Progressive", "bleu2_S") < mean("S", "bleu2_S") < min(mean(row, "bleu2_S") for row in (*TUNED, "EWC"))


def test_the_chosen_strength_lies_inside_the_range_and_is_better_than_the_source_alone():
    tried = {float(name): value for name, value in TABLE["strength"]["validation_average"].items() if value}
    chosen = TABLE["strength"]["chosen"]
    assert min(tried) < chosen < max(tried)
    (alone,) = (row["validation_loss"] for row in TABLE["sheets"][0]["rows"] if row["name"] == "S")
    assert exp((alone["S"]["mean"] + alone["T"]["mean"]) / 2) > 1.5 * max(tried.values())
