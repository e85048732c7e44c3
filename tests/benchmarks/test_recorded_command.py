"""Results name the command that was really given, without the places of one machine."""

import ast
import shlex
import sys
from pathlib import Path

import pytest

from recorded_command import recorded_command

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))
SCRIPT = str(ROOT / "benchmarks/speed.py")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--quick", "--modes", "alone, plain loop", "alone"],
        ["--rounds=3", "--out", "results/speed.json", "--set", "model.slots=0"],
    ],
)
def test_words_are_recorded_as_they_were_given(monkeypatch, words):
    monkeypatch.setattr(sys, "argv", [SCRIPT, *words])
    assert shlex.split(recorded_command(SCRIPT)) == ["benchmarks/speed.py", *words]


def test_a_path_of_one_machine_is_not_recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outside = tmp_path / "vectors.txt"
    given = ["--data", str(tmp_path), f"--vectors={outside}", "--encoder", f"minilm={tmp_path}", "--lengths", "~/one"]
    told = recorded_command(SCRIPT, [*given, "--work", "../elsewhere", "--out", str(ROOT / "results/speed.json")])
    assert told == (
        "benchmarks/speed.py --data FOLDER --vectors=FILE --encoder minilm=FOLDER --lengths FILE --work FILE "
        "--out results/speed.json"
    )


def test_a_path_from_within_the_repository_is_told_from_its_root(monkeypatch):
    monkeypatch.chdir(ROOT / "benchmarks")
    assert recorded_command("speed.py", ["--out", "../results/speed.json"]) == (
        "benchmarks/speed.py --out results/speed.json"
    )


def test_results_that_are_added_to_name_each_command_once():
    first = recorded_command(SCRIPT, ["--sizes", "10"])
    both = recorded_command(SCRIPT, ["--sizes", "100"], earlier=first)
    assert both == f"{first} && benchmarks/speed.py --sizes 100"
    assert recorded_command(SCRIPT, ["--sizes", "10"], earlier=both) == both


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_no_benchmark_has_a_command_of_its_own(script):
    """A command in results is what `recorded_command` gives, directly or by a name that has its value."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    named = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _records(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "command":
                    assert _records(value) or (isinstance(value, ast.Name) and value.id in named), ast.unparse(value)


def _records(value):
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "recorded_command"
