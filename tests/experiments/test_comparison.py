"""Methods compared: what is asked for, and what follows from the records."""

import sys
from statistics import fmean, stdev

import pytest

from memgrow.data import Columns, Domain, Example, Stream
from memgrow.errors import DataError, SettingsError
from memgrow.experiments.comparison import Comparison, RunResult, Settings, runs_of
from memgrow.experiments.comparison_setup import open_stream, refuse_incomparable
from memgrow.experiments.grid import Failure, Outcome
from memgrow.experiments.run import Record
from memgrow.history import Stage
from memgrow.methods import Grew
from memgrow.metrics import AccuracyMatrix
from memgrow.report.comparison import difference, legend, verdict

NAMES = ("books", "dvds")
SEEDS = range(3)
# Right answers of ten to each domain after each stage, for seeds 0, 1 and 2.
ANSWERS = {
    "F": [[(9, 5), (6, 8)], [(9, 5), (5, 8)], [(8, 5), (6, 7)]],
    "F+V": [[(9, 5), (8, 8)], [(9, 5), (7, 9)], [(8, 5), (8, 8)]],
    "EWC": [[(9, 5), (7, 8)], [(9, 5), (6, 6)], [(8, 5), (7, 7)]],
    "multi-task": [[(9, 9)], [(9, 9)], [(9, 9)]],
}


def domain(name: str, **parts: int) -> Domain:
    sizes = {"train": 4, "validation": 2, "test": 2} | parts
    return Domain(
        name,
        **{
            part: tuple(Example(f"{part} {number}", label="ab"[number % 2]) for number in range(size))
            for part, size in sizes.items()
        },
    )


STREAM = Stream(domain(name) for name in NAMES)


def record(method: str, learned: tuple[str, ...], right: tuple[int, int]) -> Record:
    stage = Stage(learned, method, Grew(), 1000 * len(learned), 9, 2, 1, 0.5, 30.0, "print")
    test = {name: (True,) * count + (False,) * (10 - count) for name, count in zip(NAMES, right, strict=True)}
    return Record("key", stage, {}, test)


def ended(score: float) -> RunResult:
    return RunResult(AccuracyMatrix().with_row(["a"], {"a": score}), 1000, 2.0)


@pytest.fixture
def outcome() -> Outcome:
    runs, records = runs_of(STREAM, ANSWERS, SEEDS, Settings()), {}
    for method, seeds in ANSWERS.items():
        for seed, stages in enumerate(seeds):
            learned = [NAMES] if method == "multi-task" else [(name,) for name in NAMES]
            records[runs[method][seed]] = tuple(map(record, [method] * len(stages), learned, stages))
    return Outcome(records, ())


@pytest.fixture
def comparison(outcome) -> Comparison:
    return Comparison.of(runs_of(STREAM, ANSWERS, SEEDS, Settings()), outcome)


def test_fine_tuning_and_retraining_are_always_among_the_methods():
    runs = runs_of(STREAM, ["f+v", "F+V"], SEEDS, Settings())
    assert list(runs) == ["F", "F+V", "multi-task"]
    assert [(run.method, run.seed) for run in runs["F+V"].values()] == [("F+V", seed) for seed in SEEDS]
    assert all(run.learns == NAMES for by_seed in runs.values() for run in by_seed.values())


def test_figures_are_those_of_the_answers(comparison):
    found = comparison.summary["F+V"]
    averages = [0.8, 0.8, 0.8]
    assert found["average"].mean == pytest.approx(fmean(averages))
    assert list(found["average"].seeds) == [0, 1, 2]
    assert found["forgetting"].seeds == pytest.approx({0: 0.1, 1: 0.2, 2: 0.0})
    assert found["forgetting"].spread == pytest.approx(stdev([0.1, 0.2, 0.0]))
    assert found["parameters"].mean == 1000
    assert found["seconds"].mean == 60
    assert comparison.summary["multi-task"]["forgetting"].mean is None


def test_methods_that_see_all_data_come_after_the_others_and_those_by_what_they_end_with(comparison):
    assert comparison.order == ("F+V", "EWC", "F", "multi-task")


def test_differences_are_paired_by_seed(comparison):
    paired = comparison.against("EWC")
    differences = [0.05, -0.05, 0.05]
    assert paired.difference == pytest.approx(fmean(differences))
    assert paired.std == pytest.approx(stdev(differences))
    assert comparison.against("F") is None


def test_without_scipy_there_is_a_difference_but_no_interval(comparison, monkeypatch):
    whole = comparison.against("EWC")
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    bare = comparison.against("EWC")
    assert (bare.difference, bare.std, bare.p_permutation) == pytest.approx(
        (whole.difference, whole.std, whole.p_permutation)
    )
    assert bare.low is None


def test_without_scipy_nothing_is_said_of_what_is_clear_but_how_to_know(monkeypatch):
    averages = {"F": (0.50, 0.51, 0.52), "F+V": (0.90, 0.92, 0.91), "F+V+E": (0.70, 0.69, 0.71)}
    found = Comparison({name: dict(enumerate(map(ended, scores))) for name, scores in averages.items()})
    assert "+40.0 ± 1.0* points" in verdict(found)
    assert "memgrow[stats]" not in legend(found, 3)
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    assert verdict(found) == "Without old data, F+V ends best: +40.0 ± 1.0 points against fine-tuning."
    assert "95% intervals, which tell what is clear, need scipy (pip install 'memgrow[stats]')" in legend(found, 3)


def test_a_seed_that_failed_is_left_out_of_both_sides_of_a_pair(outcome):
    runs = runs_of(STREAM, ANSWERS, SEEDS, Settings())
    lost = runs["F"][1]
    partly = Outcome(
        {run: records for run, records in outcome.records.items() if run != lost}, (Failure(lost, 1, "x"),)
    )
    comparison = Comparison.of(runs, partly)
    assert comparison.against("EWC").n == 2
    assert comparison.against("EWC").difference == pytest.approx(0.05)
    assert comparison.summary["EWC"]["average"].seeds.keys() == {0, 1, 2}


@pytest.mark.parametrize(
    ("averages", "order"),
    [
        ({"F": {0: 0.70, 1: 0.90}, "F+V": {1: 0.85}}, ("F", "F+V")),
        ({"F": {0: 0.90}, "F+V": {0: 0.95, 1: 0.75}}, ("F+V", "F")),
        ({"F": {0: 0.70, 1: 0.90}, "EWC": {1: 0.92}, "F+V": {0: 0.75, 1: 0.95}}, ("F+V", "EWC", "F")),
        ({"F": {0: 0.70}, "F+V": {1: 0.85}}, ("F+V", "F")),  # no seed in common: nothing better is known
    ],
)
def test_a_seed_that_is_missing_moves_no_method_up_or_down(averages, order):
    found = Comparison({name: {seed: ended(one) for seed, one in seeds.items()} for name, seeds in averages.items()})
    assert found.order == order
    assert ": -" not in verdict(found)


def test_a_method_without_any_run_is_missing_and_the_rest_is_there(outcome):
    runs = runs_of(STREAM, ANSWERS, SEEDS, Settings())
    partly = Outcome({run: records for run, records in outcome.records.items() if run.method != "F"}, ())
    comparison = Comparison.of(runs, partly)
    assert comparison.order == ("F+V", "EWC", "multi-task")
    assert comparison.against("EWC") is None
    assert "F" not in comparison.to_json()


def test_the_mean_matrix_is_the_mean_of_every_field(comparison):
    matrix = comparison.mean_matrix("F")
    assert matrix.score(1, "books") == pytest.approx(fmean([0.6, 0.5, 0.6]))
    assert [row.learned for row in matrix.rows] == [("books",), ("dvds",)]


def test_a_difference_is_marked_exactly_if_its_interval_leaves_zero_out(comparison):
    for method in comparison.order:
        paired = comparison.against(method)
        if paired and paired.low is not None:
            assert difference(paired).endswith("*") == (paired.low > 0 or paired.high < 0)
    assert "*" in legend(comparison, 3)


def test_the_verdict_names_the_best_without_old_data_and_who_may_be_as_good(comparison):
    said = verdict(comparison)
    assert said.startswith("Without old data, F+V ends best")
    assert "fine-tuning" in said
    assert "retraining" in said
    assert "multi-task" not in said
    assert "One seed" not in said


def test_one_seed_has_no_spread_and_no_verdict_on_ties(outcome):
    runs = runs_of(STREAM, ANSWERS, range(1), Settings())
    comparison = Comparison.of(runs, outcome)
    assert comparison.summary["F"]["average"].spread is None
    assert legend(comparison, 1) == ""
    assert "not clearly" not in verdict(comparison)
    assert verdict(comparison).endswith("One seed: another may differ.")


def test_methods_that_end_alike_are_named_together():
    scores = {"F+V": 0.9, "bag of words": 0.9, "F": 0.8, "multi-task": 0.9}
    said = verdict(Comparison({name: {0: ended(score)} for name, score in scores.items()}))
    assert said.startswith("Without old data, F+V ends best (and so does bag of words): +10.0 points against fine-tu")


def test_a_result_has_a_row_for_each_record(outcome):
    for run, records in outcome.records.items():
        assert len(RunResult.of_records(records).matrix.rows) == len(run.stages())


# Streams


def test_what_a_method_would_refuse_is_refused_before_anything_is_learnt():
    with pytest.raises(DataError, match="at least two domains"):
        refuse_incomparable(STREAM[:1])
    with pytest.raises(DataError, match="dvds has no test"):
        refuse_incomparable(Stream([STREAM[0], domain("dvds", test=0)]))
    with pytest.raises(DataError, match="no validation"):
        refuse_incomparable(Stream([STREAM[0], domain("dvds", validation=0)]))
    known, strange = [Example("y", label="a")], [Example("x", label="c"), Example("y", label="a")]
    with pytest.raises(DataError, match="unknown label 'c'"):
        refuse_incomparable(Stream([*STREAM, Domain("games", known, strange, known)]))
    refuse_incomparable(Stream([*STREAM, Domain("games", strange, strange, strange)]))
    refuse_incomparable(STREAM)


def test_options_for_files_are_refused_for_a_corpus(tmp_path):
    with pytest.raises(SettingsError, match="leave out --validation"):
        open_stream([str(tmp_path)], columns=Columns(), test=[tmp_path / "test.jsonl"])
