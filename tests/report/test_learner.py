"""Tables for a terminal of eighty columns: everything fits, every figure is whole, names are never markup."""

import pytest
from rich.console import Console

from memgrow.evaluation.calibration import Reliability
from memgrow.evaluation.comparison import Comparison, RunResult
from memgrow.evaluation.history import AccuracyMatrix, History, Stage
from memgrow.evaluation.replies import ReplyFigures
from memgrow.methods import RECOMMENDED, Grew
from memgrow.report.comparison import demo_table, demo_verdict
from memgrow.report.learner import (
    growth,
    replies_table,
    scores_table,
    stage_line,
    stages_table,
    summary_line,
)
from memgrow.report.matrix import MatrixTable
from memgrow.report.methods import methods_table, read_methods

WIDTH = 80


def show(what) -> str:
    console = Console(width=WIDTH, force_terminal=False, highlight=False)
    with console.capture() as capture:
        console.print(what)
    assert max(map(len, capture.get().splitlines())) <= WIDTH
    return capture.get()


def history_of(names, tested=None, method="F+M+V", grew=None) -> History:
    history = History()
    for number, name in enumerate(names):
        stage = Stage((name,), method, grew or Grew(500, 0, 12345), 12_345_678, 390_000, 20, 18, 0.987, 12345.6, "")
        scores = {domain: (number * 7 + at) % 101 / 100 for at, domain in enumerate(tested or names)}
        history.add(stage, scores)
    return history


@pytest.mark.parametrize("count", [1, 4, 9, 25])
@pytest.mark.parametrize("length", [1, 9, 40])
def test_a_matrix_of_any_size_shows_every_figure_whole(count, length):
    names = [f"{number:02}".ljust(length, "x") for number in range(count)]
    matrix = history_of(names).matrix
    out = show(MatrixTable(matrix, "a title"))
    words = out.split()
    for stage in range(count):
        for name in names:
            assert f"{100 * matrix.score(stage, name):.1f}" in words
    figures = [word for word in words if word.replace(".", "").isdigit() and "." in word]
    assert len(figures) == count * count


def test_holes_are_dots():
    matrix = AccuracyMatrix().with_row(["a"], {"a": 0.5}).with_row(["b"], {"b": 0.25})
    rows = [line.split() for line in show(MatrixTable(matrix, "t")).splitlines() if line.split()]
    assert rows[-2:] == [["a", "50.0", "·"], ["b", "·", "25.0"]]


def test_long_names_and_large_numbers_fit_in_the_stages():
    out = show(stages_table(history_of(["a-name-that-goes-on-" * 3, "b"], method="Progressive")))
    assert out.count("12,345,678") == 2
    assert out.count("12345.6") == 2


@pytest.mark.parametrize("name", ["[red]", "[/bold]", "[a]b[/a]", "a\\[b"])
def test_names_are_never_markup(name):
    history = history_of([name])
    for what in (
        MatrixTable(history.matrix, "t"),
        stages_table(history),
        scores_table({name: Reliability(3, 0.5, 0.6, 0.1, 0.7)}),
        stage_line(history.stages[0]),
    ):
        assert name in show(what)


def test_the_methods_fit():
    show(methods_table(read_methods()))


def test_one_seed_has_no_spread_and_several_have():
    def made(*scores: float) -> Comparison:
        rows = (AccuracyMatrix().with_row(["a"], {"a": score}) for score in scores)
        return Comparison({"F": {seed: RunResult(matrix, 1000, 2.0) for seed, matrix in enumerate(rows)}})

    assert "±" not in show(demo_table(made(0.5), 1))
    assert "50.0 ± 12.5" in show(demo_table(made(0.375, 0.5, 0.625), 3))
    assert "3 seeds" in show(demo_table(made(0.375, 0.5, 0.625), 3))


def test_the_demo_tells_no_forgetting_where_nothing_could_be_forgotten():
    together = RunResult(AccuracyMatrix().with_row(["a", "b"], {"a": 0.5, "b": 0.5}), 1000, 2.0)
    made = Comparison({"F": {0: together}, RECOMMENDED: {0: together}})
    assert [row[2] for row in demo_table(made, 1).rows] == ["·", "·"]
    end = f"{RECOMMENDED}, the default, ends 0.0 points above fine-tuning (F)"
    assert next(demo_verdict(made, 1)) == f"{end}; neither has kept any data of earlier domains."


def test_the_summary_names_what_is_known_alone():
    first = summary_line(history_of(["a"])).split("; ")
    assert "average accuracy at the end 0.0" in first
    assert not any("forgetting" in part or "transfer" in part for part in first)
    second = summary_line(history_of(["a", "b"])).split("; ")
    expected = {"average accuracy at the end 7.5", "forgetting (best minus last) -7.0", "backward transfer +7.0"}
    assert expected <= set(second)
    assert not any("forward" in part for part in second)


def test_the_summary_says_whom_the_average_leaves_out():
    assert "not tested at the end: a, c (--watch FILE" in summary_line(history_of(["a", "b", "c"], tested=["b"]))


def test_nothing_learnt_nothing_said():
    assert summary_line(History()) == ""
    assert summary_line(History(), "reply") == ""


def test_of_replies_the_summary_is_of_what_was_learnt_since_it_was_learnt():
    history = history_of(["a", "b", "d"])
    history.matrix = (
        AccuracyMatrix()
        .with_row(["a"], {"a": 1 / 20, "b": 1 / 2, "watched": 1 / 500})
        .with_row(["b"], {"a": 1 / 25, "b": 1 / 10})
        .with_row(["d"], {"a": 1 / 40, "b": 1 / 20, "d": 1 / 10, "watched": 1 / 5000})
    )
    assert summary_line(history, "reply") == (
        "perplexity at the end 20.00 (geometric mean); that of earlier domains is 2.00 times what it was at its lowest"
    )


@pytest.mark.parametrize(
    ("grew", "words"),
    [
        (Grew(), "nothing"),
        (Grew(slots=1, words=1), "1 slot, 1 word"),
        (Grew(500, 300, 12_345, 1), "500 slots, 300 hidden units, 12,345 words"),
        (Grew(columns=1), "a head"),
    ],
)
def test_growth_is_told_in_words(grew, words):
    assert growth(grew) == words


def test_one_is_singular():
    stage = Stage(("a",), "F", Grew(), 1, 1, 1, 1, 0.5, 1.2, "")
    assert stage_line(stage).plain == "a: 1 example, 1 epoch, 1 s; validation 50.0%; grew nothing"


@pytest.mark.parametrize(("keep", "words"), [(0.0, "0%"), (0.35, "35%"), (0.55, "55%")])
def test_a_share_that_was_chosen_is_in_the_line_and_one_that_was_given_is_not(keep, words):
    note = {"keep": keep, "keep_chosen": "auto", "validation_after_averaging": 0.487}
    chosen, given = (Stage(("a",), "F+A", Grew(), 1, 2, 2, 1, 0.5, 1.2, "", said) for said in (note, {"keep": keep}))
    line = "a: 2 examples, 2 epochs, 1 s; validation 50.0%; grew nothing"
    assert stage_line(chosen).plain == f"{line}; went {words} back to the old weights: validation 48.7%"
    assert stage_line(given).plain == line
    replied = stage_line(chosen, "reply").plain
    assert "validation perplexity 2.00; grew" in replied
    assert replied.endswith(f"went {words} back to the old weights: validation perplexity 2.05")


@pytest.mark.parametrize(("kept", "told"), [("mean", ""), ("last", "; kept the last weights and not their mean: ")])
def test_that_the_mean_of_the_weights_was_not_kept_is_in_the_line(kept, told):
    note = {"smooth": 0.999, "kept": kept, "validation_of_kept": 0.612}
    line = stage_line(Stage(("a",), "F+E", Grew(), 1, 2, 2, 1, 0.5, 1.2, "", note)).plain
    assert line == f"a: 2 examples, 2 epochs, 1 s; validation 50.0%; grew nothing{told and told + 'validation 61.2%'}"


def test_replies_have_the_perplexity_that_other_commands_tell_however_large_it_is():
    figures = {str(one): ReplyFigures(40, one, 77.1, 0.061, 0.082, 7.4) for one in (1.5472, 3e40)}
    shown = show(replies_table(figures))
    assert " 1.55 " in shown
    assert " 3.0e+40 " in shown
