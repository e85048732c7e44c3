"""What the commands say of themselves, at eighty columns."""

import re
import runpy

import pytest

from memgrow import METHODS, __version__

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
    "paper",
    "theorem",
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


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_help_and_says_what_it_takes(memgrow, command):
    rows = re.findall(r"│ +(--[a-z-]+) +(?:-h +)?(\S+) +(\S.*?) +│", memgrow.done(command, "--help"))
    assert "--help" in {option for option, _, _ in rows}
    for option, takes, text in rows:
        assert takes == "<bool>" or re.fullmatch(r"[A-Z,=]+", takes), option
        assert len(text) > 3, option


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


def test_the_methods_are_listed(memgrow):
    out = memgrow.done("methods")
    assert fits(out)
    for name in METHODS:
        assert re.search(rf"^ +{re.escape(name)} ", out, re.MULTILINE)


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
