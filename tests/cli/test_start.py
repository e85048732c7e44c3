"""The start of a command: help, version and completion do not wait for torch, and Ctrl-C is heard from the first."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memgrow import drift
from memgrow.cli import options as opt
from memgrow.evaluation import compare, demo, ray_executor

HELP = """
import json, sys
from memgrow.cli import COMMANDS, app
from typer.testing import CliRunner
helped = ([*name.split(), "--help"] for name in (*COMMANDS, "data get", "encoder get"))
for words in [["--version"], ["-h"], *helped, ["recipes"], ["methods"]]:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, (words, result.output)
slow = ("torch", "numpy", "transformers", "safetensors", "matplotlib", "yaml")
print(json.dumps([name for name in slow if name in sys.modules]))
"""


def test_help_and_version_import_nothing_that_is_slow():
    done = subprocess.run([sys.executable, "-c", HELP], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == []


def test_what_help_shows_as_defaults_are_those_of_the_library():
    assert opt.LOCAL == ray_executor.LOCAL
    assert ",".join(compare.METHODS) == opt.COMPARED
    assert ",".join(demo.METHODS) == opt.DEMO
    assert (opt.WINDOW, opt.ALPHA) == (drift.WINDOW, drift.ALPHA)


PRESSED = "import signal; signal.raise_signal(signal.SIGINT)"
IN_A_DESCRIPTOR = f"""
class Descriptor:
    def __set_name__(self, owner, name):
        {PRESSED}
class Owner:
    field = Descriptor()
"""


@pytest.mark.parametrize("source", [PRESSED, IN_A_DESCRIPTOR], ids=["plain", "in a descriptor"])
@pytest.mark.parametrize("module", ["torch", "typer"])
def test_ctrl_c_in_the_middle_of_an_import_is_one_line_and_exit_code_130(tmp_path: Path, module: str, source: str):
    """Python 3.11 makes a RuntimeError of it where it comes while a class names its descriptors."""
    package = tmp_path / module
    package.mkdir()
    package.joinpath("__init__.py").write_text(source)
    run = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell takes it from what runs in the background
sys.path.insert(0, {str(tmp_path)!r})
from memgrow.__main__ import main; main()
"""
    done = subprocess.run([sys.executable, "-c", run, "inspect", "model"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "memgrow: stopped; what was saved before is unchanged\n")


@pytest.mark.parametrize(
    "program", ["import memgrow", "import memgrow.__main__", "from memgrow.errors import DataError"]
)
@pytest.mark.parametrize(
    ("said", "spins"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)]
)
def test_threads_that_wait_leave_their_core_to_others_unless_somebody_says_how_they_wait(program, said, spins):
    """It has to be said before torch is imported, as OpenMP reads it then: also to a program of one's own."""
    assert spins_after(program, said) == [str(spins), "False"]


def test_whoever_has_imported_torch_already_is_not_told_how_threads_wait():
    assert spins_after("sys.modules['torch'] = sys\nimport memgrow", {}) == ["None", "True"]


def test_what_somebody_has_said_of_waiting_is_never_overwritten():
    said = {"GOMP_SPINCOUNT": "", "OMP_WAIT_POLICY": "PASSIVE"}
    run = f"import os, memgrow; print([os.environ[name] for name in {list(said)}])"
    done = subprocess.run([sys.executable, "-c", run], env={**os.environ, **said}, capture_output=True, text=True)
    assert done.stdout == f"{list(said.values())}\n"


def spins_after(program: str, said: dict[str, str]) -> list[str]:
    run = f"import os, sys\n{program}\nprint(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"
    silent = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", run], env={**silent, **said}, capture_output=True, text=True)
    return done.stdout.split()
