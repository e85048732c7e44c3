"""The comparison of rules for few rows: what it draws and compares, and that it chooses as it says."""

import importlib.util
import json
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from memgrow.data import Domain, Example, Stream
from memgrow.data.files import write_jsonl
from memgrow.training.defaults import FINE_TUNING
from tests.support.tiny_encoder import make_encoder

SCRIPT = Path(__file__).parents[2] / "benchmarks/few_rows.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("benchmark_of_few_rows", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def asked(script, tmp_path):
    asked = script.options().parse_args(["--sentiment", "x", "--out", str(tmp_path / "found.json"), "--device", "cpu"])
    asked.called = "tiny"
    return asked


def rows(part: str, number: int) -> tuple[Example, ...]:
    return tuple(Example(f"{part} {k} {'fine' if k % 2 else 'dull'}", label=str(k % 2)) for k in range(number))


def figures(script, asked, gain):
    """Results of all runs of the choice; a seed moves all candidates alike but for a little."""
    numbers = count()
    runs = [run for job in script.jobs_of("choose", asked, list(script.CANDIDATES)) for run in job]
    return {
        run: {
            "score": 0.6 + 0.01 * run.seed + gain.get((run.candidate, run.rows), 0) + next(numbers) % 7 / 2000,
            "validation": 0.5,
            "epochs": 5,
        }
        for run in runs
    }


def both(name: str, gain: float) -> dict[tuple[str, int], float]:
    return {(name, 100): gain, (name, 300): gain}


@pytest.mark.parametrize(
    ("gain", "chosen"),
    [
        ({}, None),
        ({("third", 100): 0.1}, None),  # at one of the two sizes is not enough
        (both("third", 0.1), "third"),
        (both("third", 0.1) | both("tenth", 0.2), "tenth"),
        (both("longer", 0.1), "longer"),
        (both("third", 0.1) | both("longer", 0.1), "third"),  # as good, and sooner done
        (both("third", 0.1) | both("longer", 0.2), "longer"),
        (both("third", -0.1) | both("tenth", -0.1), None),
    ],
)
def test_the_choice_is_by_the_rule(script, asked, gain, chosen):
    assert script.choice(figures(script, asked, gain)) == chosen


def test_results_are_read_back_and_what_is_done_is_not_done_again(script, asked, monkeypatch):
    found = figures(script, asked, both("tenth", 0.2))
    for minutes in ("1", "2", "2"):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--sentiment", str(asked.out.parent), "--minutes", minutes])
        script.write(asked, found)
    assert script.already(asked) == found
    told = json.loads(asked.out.read_text())
    assert told["chosen"] == "tenth"
    first = "benchmarks/few_rows.py --sentiment FOLDER --minutes 1"
    assert told["command"] == f"{first} && {first[:-1]}2"
    script.do(script.jobs_of("choose", asked, list(script.CANDIDATES)), asked, None, found, float("inf"))


def test_a_seed_that_misses_a_domain_is_left_out(script, asked):
    found = figures(script, asked, {})
    gone = next(run for run in found if (run.rows, run.seed, run.candidate) == (100, 3, "third"))
    del found[gone]
    assert sorted(script.by_seed(found, "choose", 100, "third")) == [0, 1, 2, 4]


def test_all_candidates_train_alike_from_150_steps_on(script):
    assert {script.training_by(name, 1000) for name in script.CANDIDATES} == {script.as_written(FINE_TUNING)}
    assert script.differing(script.CANDIDATES, 1000) == ["today"]
    assert script.differing(script.CANDIDATES, 300) == list(script.CANDIDATES)
    by_name = {name: script.training_by(name, 300) for name in script.CANDIDATES}
    assert {name: (t.warm_up_steps(10), t.epochs) for name, t in by_name.items()} == {
        "today": (50, 5),
        "third": (16, 5),
        "tenth": (5, 5),
        "longer": (50, 15),
        "longer-tenth": (15, 15),
    }


def test_the_test_part_is_seen_by_the_check_alone(script):
    domain = Domain("bread", rows("train", 200), rows("validation", 20), rows("test", 30))
    for test in (False, True):
        drawn = script.drawn(domain, 50, 1, test)
        assert (len(drawn.train), len(drawn.validation)) == (50, 10)
        parts = [set(drawn.train), set(drawn.validation), set(drawn.test)]
        assert not any(a & b for a in parts for b in parts if a is not b)
        assert (parts[2] == set(domain.test)) is test
        assert parts[0] | parts[1] <= set(domain.train)
        assert test or parts[0] | parts[1] | parts[2] == set(domain.train)


def test_runs_are_made_and_scored(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "FIRST", 32)
    quick = script.as_written(replace(FINE_TUNING, epochs=1))
    monkeypatch.setattr(script, "training_by", lambda name, rows: quick)
    monkeypatch.setattr(script, "FINE_TUNING", replace(FINE_TUNING, epochs=1))
    names = ("films", "products")
    write_jsonl(Stream(Domain(name, rows(name, 90), rows("v", 8), rows("t", 8)) for name in names), tmp_path / "data")
    material = script.Material(str(make_encoder(tmp_path / "tiny")), {"sentiment": tmp_path / "data"}, "cpu")
    (alone,) = script.work(material, [script.Run("choose", "films", 32, 0, "third")])
    assert alone.keys() == {"score", "validation", "epochs", "best_epoch", "seconds"}
    after = script.work(material, [script.Run("then", "products", 32, 0, name, "films") for name in ("today", "third")])
    assert [one["first_before"] for one in after] == [after[0]["first_before"]] * 2
    assert all(0 <= one["first_after"] <= 1 for one in after)
