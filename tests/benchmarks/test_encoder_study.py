"""The study of pretrained encoders, on tiny ones: its parts are shared, kept and resumed, and figures need no data."""

import importlib.util
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from memgrow.data import Stream, synthetic_stream
from memgrow.data.files import write_jsonl
from memgrow.errors import SettingsError
from memgrow.experiments.encoders.figures import write_figures
from memgrow.experiments.encoders.rows import QUESTIONS, ROWS, Row, rows_called
from memgrow.experiments.encoders.streams import STREAMS, StudyStream, prepare, read
from memgrow.experiments.encoders.study import Study
from memgrow.experiments.store import Store
from memgrow.training.settings import TrainingSettings
from tests.support.tiny_encoder import make_encoder

SCRIPT = Path(__file__).parents[2] / "benchmarks/encoder_study.py"
DOMAINS = ("bread", "ships")
TRAINING = TrainingSettings(epochs=1, rate=1e-3)
STEPS = {"F": [1, 1], "multi-task": [2], "ridge": [0, 0]}  # for 24 texts of each domain, 32 in a batch
KNOWN = {"small": StudyStream("small", "two small domains", DOMAINS, lambda folder: None)}


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("benchmark_of_encoders", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    make_encoder(folder / "tiny")
    made = synthetic_stream(domains=2, train=24, validation=12, test=12, seed=1)
    write_jsonl(Stream(replace(domain, name=name) for domain, name in zip(made, DOMAINS, strict=True)), folder / "data")
    return folder


@pytest.fixture
def study(material, tmp_path):
    return Study.open(
        "small", material / "data", str(material / "tiny"), tmp_path / "runs", training=TRAINING, known=KNOWN
    )


def run(study, rows, seeds=(0, 1), until=None, orders=("1",)):
    runs = study.runs([ROWS[name] for name in rows], orders, seeds)
    return study.run(runs, study.grid("cpu", 1, until))


def figures(study, out):
    (path,) = write_figures(study.folder, out, enough=2)
    return path.read_bytes()


def test_figures_come_from_records_alone_and_are_the_same_after_a_second_run(study, tmp_path):
    assert not run(study, ("F", "frozen+M")).failures
    first = figures(study, tmp_path / "out")
    assert not run(study, ("F", "frozen+M")).failures
    Store(study.folder).bundle()
    assert figures(study, tmp_path / "again") == first
    found = json.loads(first)["encoders"]["tiny"]["orders"]["1"]
    assert found["domains"] == list(DOMAINS)
    assert found["rows"]["frozen+M"]["seeds"] == [0, 1]
    assert found["rows"]["frozen+M"]["added"] > 0 == found["rows"]["F"]["added"]
    assert found["rows"]["F"]["trained"] == found["rows"]["F"]["parameters"]
    assert found["rows"]["frozen+M"]["trained"] < found["rows"]["frozen+M"]["parameters"]
    assert "without_slots" in found["rows"]["frozen+M"]["test"]
    assert "without_slots" not in found["rows"]["F"]["test"]
    assert found["differences"]["frozen+M - F"]["seeds"] == 2


def test_no_models_are_left_behind(study):
    run(study, ("F", "frozen+M"), seeds=(0,))
    assert not list((study.folder / "models").iterdir())


def test_controls_share_the_first_domain_with_all_other_rows(study):
    rows = [ROWS[name] for name in ("F", "frozen+M", "adapter", "fixed keys", "one slot")]
    jobs = study.jobs(study.runs(rows, ["1"], [0]))
    assert sum(len(job.run.learns) == 1 for job in jobs) == 1
    assert len(jobs) == 1 + len(rows)


def test_a_control_trains_what_it_says_though_its_first_domain_is_shared(study, tmp_path):
    run(study, ("frozen+M", "adapter", "fixed keys", "one slot"), seeds=(0,))
    found = json.loads(figures(study, tmp_path / "out"))["encoders"]["tiny"]["orders"]["1"]["rows"]
    slots, adapter = found["frozen+M"]["trained"], found["adapter"]["trained"]
    assert adapter == pytest.approx(slots, rel=0.01)
    assert found["one slot"]["trained"] < found["fixed keys"]["trained"] < slots
    keys = study.jobs(study.runs([ROWS["adapter"]], ["1"], [0]), anew=True)
    record = study.grid("cpu", 1).ledger.record(keys[-1].run)
    assert record.run["model"]["memory"] == "adapter"


def test_steps_are_those_of_training(study):
    steps = {name: [study.steps(job) for job in study.jobs(study.runs([ROWS[name]], ["1"], [0]))] for name in STEPS}
    assert steps == STEPS


def test_rows_without_an_order_are_made_once_for_all_orders(study):
    rows = [ROWS["in-domain"], ROWS["multi-task"]]
    one, all_ = (study.jobs(study.runs(rows, orders, [0])) for orders in (["1"], ["1", "2"]))
    assert len(one) == len(all_) == len(DOMAINS) + 1


def test_after_the_deadline_nothing_is_begun_and_what_is_finished_serves_later(study, tmp_path):
    late = run(study, ("F",), until=time.monotonic() - 1)
    assert not late.records
    assert len(late.failures) == 2
    run(study, ("F",), seeds=(0,))
    missing = study.jobs(study.runs([ROWS["F"]], ["1"], [0, 1]))
    assert {job.run.seed for job in missing} == {1}
    assert json.loads(figures(study, tmp_path / "out"))["encoders"]["tiny"]["orders"]["1"]["rows"]["F"]["seeds"] == [0]


def test_rows_that_got_part_of_the_way_are_told_up_to_the_domain_that_all_of_them_have_learnt(study, tmp_path):
    from memgrow.experiments.encoders.measured import so_far

    run(study, ("F",))
    asked = (study.material, study.material.ledger(Store(study.folder)), "1", [ROWS["F"], ROWS["F+E"]])
    assert so_far(*asked) is None  # F is whole, and F+E has learnt nothing of its own
    more = {name: {**getattr(study.material, name), "later": "x"} for name in ("data", "held_out")}
    longer = replace(study.material, orders={"1": (*DOMAINS, "later")}, **more)
    number, rows = so_far(longer, longer.ledger(Store(study.folder)), "1", [ROWS["F"], ROWS["F+E"]])
    assert number == 2
    assert {name: list(runs) for name, runs in rows.items()} == {"F": [0, 1]}


def test_a_row_of_fewer_seeds_than_are_enough_answers_no_question(study, tmp_path):
    run(study, ("F",))
    run(study, ("F+E",), seeds=(0,))
    found = json.loads(figures(study, tmp_path / "out"))["encoders"]["tiny"]["orders"]["1"]
    assert set(found["rows"]) == {"F", "F+E"}
    assert not found["differences"]


def test_with_a_deadline_the_first_seed_is_finished_before_the_second_begins(study):
    from memgrow.experiments.plan import JobQueue, Result

    queue = JobQueue(study.jobs(study.runs([ROWS["F"], ROWS["F+M"]], ["1"], [0, 1])), by_seed=True)
    seeds = []
    while (job := queue.take()) is not None:
        seeds.append(job.run.seed)
        queue.finish(Result(job))
    assert seeds == sorted(seeds)


def test_records_of_a_run_elsewhere_serve_whatever_the_encoders_folder_was_called(study, material, tmp_path):
    run(study, ("F",), seeds=(0,))
    moved = tmp_path / "other" / "tiny"
    moved.parent.mkdir()
    (material / "tiny").rename(moved)
    try:
        again = Study.open("small", material / "data", str(moved), study.folder, training=TRAINING, known=KNOWN)
        assert not again.jobs(again.runs([ROWS["F"]], ["1"], [0]))
    finally:
        moved.rename(material / "tiny")


def test_runs_with_other_settings_do_not_mix(study, material):
    run(study, ("F",), seeds=(0,))
    other = Study.open(
        "small", material / "data", str(material / "tiny"), study.folder, training=TrainingSettings(), known=KNOWN
    )
    with pytest.raises(SettingsError, match="another folder"):
        run(other, ("F",), seeds=(0,))


def test_of_variants_the_best_on_validation_data_answers_whatever_the_test_says():
    from memgrow.experiments.encoders import figures as made

    ends = {"EWC": (0.9, 0.7), "EWC 10": (0.7, 0.9), "F": (0.8, 0.8)}
    found = {
        name: {
            seed: made.RunFigures(
                {"test": _scores(test + seed / 100), "validation": _scores(validation)}, {}, 9, 0.0, 9, 1.0, 1.0
            )
            for seed in (0, 1)
        }
        for name, (test, validation) in ends.items()
    }
    compared = made._compared(found, list(ends))
    assert compared["chosen"] == {"EWC": "EWC 10", "F": "F"}
    assert compared["differences"]["EWC - F"]["test"]["average"]["difference"] == pytest.approx(-0.1)


def _scores(average):
    return {"average": average, "forgetting": 0.0, "when_learnt": average, "without_slots": None}


def test_a_stream_reads_back_as_it_was_written(tmp_path):
    made = synthetic_stream(domains=2, train=10, validation=5, test=5)
    source = StudyStream("made", "", made.names, lambda folder: type("Loaded", (), {"stream": made, "notices": ()}))
    prepare(source, None, tmp_path)
    assert list(read(made.names, tmp_path)) == list(made)


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_orders_are_of_the_same_domains_and_differ(stream):
    orders = stream.orders().values()
    assert len(set(orders)) == 3
    assert {frozenset(order) for order in orders} == {frozenset(stream.domains)}


def test_questions_are_about_rows():
    assert {name for pair in QUESTIONS for name in pair} <= set(ROWS)
    assert not any(row.variant_of for row in rows_called(["all"]))


def test_a_row_whose_method_is_not_there_is_left_out_with_a_note(script, capsys, monkeypatch):
    monkeypatch.setitem(ROWS, "magic", Row("magic", "magic", ""))
    assert [row.name for row in script.known_rows("F,magic")] == ["F"]
    assert "magic is left out" in capsys.readouterr().out


def test_the_script_plans_runs_and_writes_figures(script, material, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(STREAMS, "small", KNOWN["small"])
    where = ["--stream", "small", "--data", str(material / "data"), "--encoder", str(material / "tiny")]
    what = ["--rows", "F,multi-task", "--orders", "1", "--seeds", "1", "--set", "training.epochs=1", "--device", "cpu"]
    runs = ["--runs", str(tmp_path / "runs")]
    script.main(["plan", *where, *what, *runs])
    assert "of these, first domains: 1 stages, 1 steps" in capsys.readouterr().out
    script.main(["run", *where, *what, *runs, "--minutes", "5", "--bundle"])
    told = capsys.readouterr().out
    assert "2 of 2 runs are whole" in told
    script.main(["figures", *runs, "--out", str(tmp_path / "out")])
    found = json.loads((tmp_path / "out/small.json").read_bytes())
    assert set(found["encoders"]["tiny"]["orders"]["1"]["rows"]) == {"F", "multi-task"}
