"""What the commands say of themselves, at eighty columns."""

import json
import os
import re
import runpy
import subprocess
import sys

import pytest

from memgrow import METHODS, __version__
from memgrow.cli.errors import BROKEN_PIPE, FORGOT, INTERRUPTED, TERMINATED, USER_ERROR
from memgrow.methods import RECOMMENDED, RECOMMENDED_FOR_REPLIES
from memgrow.report.method_rows import method_rows
from memgrow.report.methods import read_methods
from memgrow.training.defaults import defaults_for

COMMANDS = (
    "demo",
    "adapt",
    "evaluate",
    "predict",
    "inspect",
    "history",
    "undo",
    "verify",
    "export",
    "methods",
    "compare",
)
WIDTH = 80


def fits(out: str) -> bool:
    return max(map(len, out.splitlines())) <= WIDTH


def test_the_first_page_names_every_command(memgrow):
    out = memgrow.done("--help")
    assert fits(out)
    for command in COMMANDS:
        assert re.search(rf"│ {command} ", out)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example_on_one_line(memgrow, command):
    out = memgrow.done(command, "--help")
    assert fits(out)
    (example,) = (line.strip() for line in out.splitlines() if line.strip().startswith("Example:"))
    assert example.startswith(f"Example: memgrow {command}")
    assert "[[" not in out  # what may be left out stands between brackets once


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_help_and_says_what_it_takes(memgrow, command):
    out = memgrow.done(command, "--help")
    rows = re.findall(r"│ +(--[a-z-]+)(?: +-[a-z])? +(\S.*?) +│", out)
    assert {"--help", "--quiet"} <= {option for option, _ in rows}
    for option, text in rows:
        assert re.match(r"([A-Z,=]+ +)?[A-Za-z0-9].{3}", text), option
    assert "<bool>" not in out


def test_the_first_page_names_the_exit_codes(memgrow):
    out = memgrow.done("--help")
    for code in (0, 1, USER_ERROR, FORGOT, INTERRUPTED, BROKEN_PIPE, TERMINATED):
        assert re.search(rf"\b{code} ", out.partition("Exit codes:")[2].replace("\n", " ")), code


def test_the_version_is_told(memgrow):
    assert memgrow.done("--version") == f"memgrow {__version__}\n"


def test_without_a_command_the_help_is_shown(memgrow):
    result = memgrow()
    assert result.exit_code == 2
    assert "Usage: memgrow" in result.output


@pytest.mark.parametrize("words", [("dance",), ("adapt",), ("adapt", "m"), ("evaluate", "m", "x", "--joke")])
def test_a_command_that_cannot_be_read_is_a_mistake_without_a_traceback(memgrow, words):
    result = memgrow(*words)
    assert result.exit_code == 2
    assert "Usage: memgrow" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_methods_are_listed_and_the_defaults_are_marked(memgrow):
    out = memgrow.done("methods")
    assert fits(out)
    for name in (*METHODS, RECOMMENDED):
        assert re.search(rf"^ +{re.escape(name)} ", out, re.MULTILINE)
    assert re.search(rf"^ +{re.escape(RECOMMENDED)} .* the default: ", out, re.MULTILINE)
    known = json.loads(memgrow.done("methods", "--json"))
    assert [one["name"] for one in known["methods"] if one["default"]] == [
        RECOMMENDED,
        RECOMMENDED_FOR_REPLIES,
        defaults_for("minilm").method,
    ]


def test_the_file_of_methods_is_what_their_table_says():
    assert read_methods() == method_rows(), "run: python -m memgrow.report.method_rows"


def test_what_commands_print_fits_as_well(memgrow, made, data, model):
    for words in (
        ("adapt", model, data["clinic"], "--watch", data["kitchen"]),
        ("evaluate", made, *data.values()),
        ("inspect", made, "the soup was cold " * 20, "it was warm"),
    ):
        assert fits(memgrow.done(*words).replace(str(model), "model"))


@pytest.mark.parametrize("words", [("-h",), ("adapt", "-h"), ("data", "get", "-h")])
def test_h_is_help(memgrow, words):
    assert memgrow.done(*words) == memgrow.done(*words[:-1], "--help")


def test_the_package_can_be_run(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["memgrow", "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("memgrow", run_name="__main__")
    assert not end.value.code
    assert capsys.readouterr().out.startswith("memgrow ")


def test_what_goes_to_a_pipe_is_not_broken_into_lines_of_eighty_letters(memgrow, made):
    text = "the soup was cold " * 20
    rows = memgrow.done("methods", COLUMNS=None).splitlines()
    (row,) = (row for row in rows if row.strip().startswith("sparse "))
    assert row.rstrip().endswith(METHODS["sparse"].about)
    assert max(map(len, memgrow.done("inspect", made, text, "it was warm", COLUMNS=None).splitlines())) > WIDTH
    assert memgrow.done("methods") != memgrow.done("methods", COLUMNS=None)


def test_a_quiet_command_prints_nothing_but_what_is_wrong(memgrow, data, model):
    result = memgrow("adapt", model, data["clinic"], "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert len(memgrow.learnt(model)) == 3
    assert memgrow("verify", model, "-q").output == ""
    assert "no model at" in memgrow.refused("verify", model / "nowhere", "-q")
    assert "each as it was written" in memgrow.done("verify", model)  # the next command is not quiet


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("memgrow ad", {"adapt"}),
        ("memgrow adapt --rec", {"--recipe"}),
        ("memgrow adapt m d --recipe small", {"small", "small-dialogue"}),
        ("memgrow data g", {"get"}),
        ("memgrow adapt m d --method ri", {"ridge"}),
    ],
)
def test_a_shell_completes_what_is_typed(memgrow, typed, offered):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" ")), "_MEMGROW_COMPLETE": "complete_bash"}
    assert set(memgrow(**words).output.split()) == offered


@pytest.mark.extras
def test_bash_takes_the_script_of_completion(tmp_path):
    (command := tmp_path / "memgrow").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memgrow "$@"\n')
    command.chmod(0o755)
    script = """
eval "$(_MEMGROW_COMPLETE=source_bash memgrow)"
complete -p memgrow
COMP_WORDS=(memgrow ad) COMP_CWORD=1
_memgrow_completion memgrow ad memgrow
echo "${COMPREPLY[@]}"
"""
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}  # where the script looks for the command
    done = subprocess.run(["bash", "-c", script], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "adapt", done
