"""From tables to runs and back: what is asked for, in which order, and what becomes of failures."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from memgrow.errors import SettingsError
from memgrow.experiments.grid import Failure
from memgrow.experiments.paper import session, studies
from memgrow.experiments.paper.dialogue import TUNING, dialogue_tables
from memgrow.experiments.paper.figures import Figures, Made, Study, read_figures, write_figures
from memgrow.experiments.paper.protocol import DIALOGUE, GENRES, PAPER, QUICK, QUICK_DIALOGUE, Data, asked
from memgrow.experiments.paper.rows import Row
from memgrow.experiments.paper.session import in_words, named, run_all
from memgrow.experiments.paper.tables import TABLES
from tests.support.paper_records import Runner

SHORT = replace(PAPER, seeds=2)


def tables(*names):
    return [TABLES[name] for name in names]


def figures(table, ran):
    """The figures as they are written."""
    return session.figures(table, ran).to_json()


# Which runs


def test_runs_that_tables_share_are_asked_for_once_and_all_together():
    runner = Runner()
    run_all(tables("table3", "slots", "rates"), SHORT, runner)
    ((data, runs),) = runner.asked
    assert data == Data()
    assert len(runs) == len(set(runs))
    shared = [run for run in runs if run.method == "F+M+V" and run.learns == GENRES[:2] and run.seed == 0]
    # 500 slots at the paper's rate is a point of both curves and a stage of Table 3.
    assert len(shared) == len(PAPER.slots) + len(PAPER.rates) - 1


def test_ewc_is_tuned_first_and_then_run_with_what_did_best_on_validation():
    def accuracy(run, genre, part):
        best = run.options.strength == (100 if part == "validation" else 10)
        return 0.7 if run.method == "EWC" and best else 0.5

    runner = Runner(accuracy)
    ran = run_all(tables("table2", "table4"), SHORT, runner)
    assert ran.protocol.strength == 100
    (_, first), (_, second) = runner.asked
    tried = {run.options.strength for run in first if run.method == "EWC"}
    assert tried == set(PAPER.strengths)
    assert {run.options.strength for run in second} == {100}
    assert {run.learns for run in second} == {GENRES}  # on two domains they ran in the search
    told = figures(TABLES["table2"], ran)["strength"]
    assert told["chosen"] == 100
    assert told["validation_average"] == {f"{s:g}": 70 if s == 100 else 50 for s in PAPER.strengths}


def test_the_search_for_the_strength_takes_the_first_three_seeds():
    runner = Runner()
    run_all(tables("table2"), replace(PAPER, seeds=5), runner)
    first, second = (runs for _, runs in runner.asked)
    assert {run.seed for run in first if run.method == "EWC"} == {0, 1, 2}
    assert {run.seed for run in second} == {3, 4}


def test_tables_without_ewc_ask_for_no_tuning():
    runner = Runner()
    ran = run_all(tables("table1", "table3"), SHORT, runner)
    assert ran.strength is None
    assert not any(run.method == "EWC" for _, runs in runner.asked for run in runs)


def test_every_table_has_its_own_number_of_seeds_unless_told():
    assert TABLES["table2"].seeds_of(PAPER) >= 10
    assert all(TABLES[name].seeds_of(PAPER) >= 5 for name in ("table3", "table4"))
    assert all(TABLES[name].seeds_of(PAPER) >= 3 for name in ("slots", "rates"))
    assert TABLES["table2"].seeds_of(SHORT) == 2


def test_an_option_that_a_method_never_reads_makes_no_further_run():
    one, other = (Row("", "F+V", options={"quiet": quiet}).run(PAPER, 0) for quiet in (0.0, 5.0))
    assert one == other
    one, other = (Row("", "F+M+V", options={"quiet": quiet}).run(PAPER, 0) for quiet in (0.0, 5.0))
    assert one != other
    assert Row("", "F+M+V", options={"slots": 500}).run(PAPER, 0) == Row("", "F+M+V").run(PAPER, 0)


KEYS = (
    (PAPER, None, "a7060389cde43345"),
    (PAPER, 100.0, "adb83bb78307aff0"),
    (QUICK, None, "4bae1b2fdac05ac9"),
    (QUICK, 100.0, "b5ef09c700ddc313"),
    (DIALOGUE, None, "dbafd01f638db04c"),
    (DIALOGUE, 100.0, "fda2b8fb888ab276"),
    (QUICK_DIALOGUE, None, "2e84c1a37efb172d"),
    (QUICK_DIALOGUE, 100.0, "33a2fdc54fd16b49"),
)


@pytest.mark.parametrize(("protocol", "strength", "expected"), KEYS)
def test_every_row_of_every_table_asks_for_the_runs_that_it_always_asked_for(protocol, strength, expected):
    """Records are found by the keys of their runs: those of results/paper are lost if one of these changes."""
    protocol = replace(protocol, strength=strength, extra=True)
    tables = TABLES.values() if protocol.corpus == "multinli" else (*dialogue_tables().values(), TUNING)
    keys = [
        stage.key({name: name for name in stage.learns})
        for table in tables
        for row in table.rows(protocol)
        for seed in (0, 1)
        for run in dict.fromkeys(row.answering(protocol, seed).values())
        for stage in run.stages()
    ]
    assert hashlib.sha256("\n".join(keys).encode()).hexdigest()[:16] == expected


# Failures


def test_a_failed_run_leaves_its_cells_empty_and_the_others_as_they_are():
    ran = run_all(tables("table2"), SHORT, Runner(fails=lambda run: run.method == "Progressive"))
    made = figures(TABLES["table2"], ran)
    cells = {row["name"]: row["cells"]["S"] for row in made["sheets"][0]["rows"]}
    assert cells["Progressive"]["mean"] is None
    assert "tests" not in cells["Progressive"]
    assert all(cell["mean"] == 50 for name, cell in cells.items() if name != "Progressive")
    (told,) = made["failures"]
    assert "Progressive" in told
    assert "seeds 0, 1: the lamp went out" in told


def test_seeds_are_compared_in_pairs_so_one_that_failed_counts_on_neither_side():
    ran = run_all(
        tables("table2"), replace(PAPER, seeds=3), Runner(fails=lambda run: run.method == "F+M" and run.seed == 0)
    )
    cells = {row["name"]: row["cells"]["T"] for row in figures(TABLES["table2"], ran)["sheets"][0]["rows"]}
    assert len(cells["F+M"]["values"]) == 2
    assert cells["F+M"]["tests"]["F+M+V"]["seeds"] == 2
    assert cells["F+H"]["tests"]["F+M+V"]["seeds"] == 3


def test_a_failure_is_told_by_the_tables_that_it_concerns():
    ran = run_all(tables("table1", "slots"), SHORT, Runner(fails=lambda run: run.model.slots == 0))
    assert figures(TABLES["table1"], ran)["failures"]
    assert not figures(TABLES["slots"], ran)["failures"]


def test_where_the_whole_search_fails_ewc_is_run_as_it_comes():
    ran = run_all(
        tables("table2"), SHORT, Runner(fails=lambda run: run.method == "EWC" and run.options.strength != 1000)
    )
    assert ran.protocol.strength == PAPER.options.strength == 1000


# Conditions


def test_every_study_can_be_run_and_tests_its_second_method_against_its_first():
    ran = run_all(tables("conditions"), replace(SHORT, extra=True), Runner())
    made = figures(TABLES["conditions"], ran)
    assert set(made["studies"]) == {study.name for study in studies.STUDIES}
    for study in made["studies"].values():
        first, second = study["methods"][:2]
        for sheet in study["sheets"]:
            rows = {row["name"]: row["cells"] for row in sheet["rows"]}
            assert set(rows[second]["average"]["tests"]) == {first}


def test_the_study_of_data_runs_on_other_data():
    runner = Runner()
    run_all(tables("conditions"), replace(SHORT, extra=True, studies=("data",)), runner)
    asked = {(data.limit, data.extra) for data, _ in runner.asked}
    assert asked == {(2000, False), (4000, False), (8000, False), (None, False), (None, True)}


def test_without_pairs_of_a_guessed_genre_their_point_is_left_out():
    runner = Runner()
    run_all(tables("conditions"), replace(SHORT, studies=("data",)), runner)
    assert not any(data.extra for data, _ in runner.asked)


def test_an_unknown_study_is_refused_with_the_names_of_all():
    with pytest.raises(SettingsError, match=r"'daft'.*dropout"):
        studies.chosen(replace(PAPER, studies=("daft",)))


def test_a_study_that_was_made_before_stays_beside_a_new_one():
    def made(seeds, **about):
        some = {name: Study(text, ("F", "F+M"), ("a", "b"), []) for name, text in about.items()}
        return Figures("conditions", "", "1", "", seeds, {}, Made(studies=some))

    old, new = made(3, data="1", rate="2"), made(3, rate="3")
    both = new.with_earlier_studies(old.to_json()).made.studies
    assert {name: study.about for name, study in both.items()} == {"data": "1", "rate": "3"}
    assert new.with_earlier_studies(made(4, data="1").to_json()) == new
    assert new.with_earlier_studies(None) == new


# Names, protocols, files


def test_all_means_everything_but_the_page():
    assert named(["all"]) == [*(name for name in TABLES if name != "conditions"), "theorem"]
    assert named(["page", "table4", "table2", "table4"]) == ["table2", "table4", "page"]
    with pytest.raises(SettingsError, match=r"'table9'.*table1"):
        named(["table9"])


def test_the_protocol_is_the_papers_and_quick_is_smaller_in_everything():
    whole, quick = (asked(one, None, None, vectors=False) for one in (PAPER, QUICK))
    assert (whole.model.hidden, whole.model.slots, whole.training.rate, whole.training.batch) == (300, 500, 3e-4, 32)
    assert whole.data == Data()
    assert quick.model.hidden < 50
    assert quick.data.limit < 500
    assert quick.data.held_out < 500
    rows = [row for table in TABLES.values() for row in table.rows(replace(QUICK, extra=True))]
    assert max(row.run(QUICK, 0).model.slots for row in rows) <= 20
    assert max(row.run(QUICK, 0).options.slots or 0 for row in rows) <= 80
    assert asked(QUICK, 5, 40, vectors=True).model.embedding == 300
    assert (asked(QUICK, 5, 40, True).seeds, asked(QUICK, 5, 40, True).data.limit) == (5, 40)


def test_the_finalists_are_among_the_candidates():
    assert {row.name for row in studies.finalists()} == set(studies.FINALISTS)


def test_figures_are_read_back_as_they_were_written(tmp_path):
    ran = run_all(tables("table2"), SHORT, Runner())
    made = figures(TABLES["table2"], ran)
    path = write_figures(tmp_path / "deep", "table2", made)
    assert read_figures(tmp_path / "deep", "table2") == made
    assert '"values": [50.0, 50.0]' in path.read_text()
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "deep", path]
    assert read_figures(tmp_path, "table3") is None


@pytest.mark.parametrize("name", [*TABLES, *dialogue_tables()])
def test_committed_figures_come_back_from_their_types_as_they_are(name):
    recorded = read_figures(Path(__file__).parents[3] / "results/paper", name)
    assert json.dumps(Figures.from_json(recorded).to_json()) == json.dumps(recorded)


def test_the_reference_row_is_there():
    assert set(TABLES["table2"].make(PAPER, {}, 1).sheets[0].references) <= {
        row.name for row in TABLES["table2"].rows(PAPER)
    }


def test_failures_on_other_amounts_of_data_are_told_apart():
    run = Row("", "F+V", ("fiction",)).run(PAPER, 0)
    failed = [
        (data, Failure(replace(run, seed=seed), 0, "lost")) for data in (Data(), Data(limit=2000)) for seed in (0, 1, 2)
    ]
    assert in_words(failed) == [
        "F+V on fiction, seeds 0 to 2: lost",
        "F+V on fiction (2,000 pairs of each), seeds 0 to 2: lost",
    ]
