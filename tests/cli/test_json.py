"""`--json`: every command that prints can print JSON, and nothing else on standard output."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console
from typer.main import get_command

from memgrow.cli import app
from memgrow.errors import SettingsError
from memgrow.report import progress_bars
from tests.support.stored import stored

GO_TO_A_BROWSER = {"serve"}


def leaves(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its name, those of groups too."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name.strip(), command
    for part, one in (inner or {}).items():
        yield from leaves(one, f"{name} {part}")


def test_every_command_that_prints_has_json_and_can_be_quiet():
    for name, command in leaves(get_command(app)):
        if command.hidden:
            continue
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--quiet" in options, name
        assert "--json" in options or name in GO_TO_A_BROWSER, name


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("methods", {"methods", "letters"}),
        ("data list", {"sentiment"}),
        ("data where", {"folder"}),
        ("encoder list", {"minilm"}),
        ("encoder where", {"folder"}),
        ("verify MODEL", {"whole", "faults", "earlier_versions"}),
        ("report MODEL -o PAGE", {"report", "pictures"}),
    ],
)
def test_what_is_printed_is_one_object(memgrow, made, tmp_path, words, keys):
    places = {"MODEL": str(made), "PAGE": str(tmp_path / "page.html")}
    out = memgrow.done(*(places.get(word, word) for word in words.split()), "--json")
    assert keys <= json.loads(out).keys()


def test_learning_and_going_back_tell_their_stages(memgrow, data, model):
    learnt = json.loads(memgrow.done("adapt", model, data["clinic"], "--json"))
    assert [stage["learned"] for stage in learnt["stages"]] == [["clinic"]]
    assert len(learnt["history"]["stages"]) == 3
    gone = json.loads(memgrow.done("undo", model, "--json"))
    assert [stage["learned"] for stage in gone["taken_back"]] == [["clinic"]]
    assert len(gone["history"]["stages"]) == 2


def test_a_damaged_model_is_told_as_json_too(memgrow, model):
    (stored(model) / "vocabulary.json").write_text("{}")
    result = memgrow("verify", model, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert not found["whole"]
    assert any("vocabulary.json" in fault for fault in found["faults"])


def test_notices_are_told_beside_the_json(memgrow, data, model, tmp_path):
    learning = ("adapt", model, data["kitchen"], "--map-label", "9=bad", "--set", "options.strength=2", "--json")
    result = memgrow(*learning)
    assert json.loads(result.stdout)["stages"] == []
    told = " ".join(result.stderr.split())
    assert "no row has the label 9, for which there is another name" in told
    assert "F+M+V does not use what is set for strength" in told
    assert "kitchen: skipped, as it was learnt from the same data" in told
    assert memgrow(*learning, "--quiet").stderr == ""


@pytest.mark.parametrize(
    ("bar", "words"),
    [
        ("DownloadBar", "data get sentiment --again"),
        ("DownloadBar", "encoder get minilm --again"),
    ],
)
def test_how_far_a_command_is_stands_beside_the_json(memgrow, monkeypatch, bar, words):
    def made(console, *_: object) -> None:
        raise SettingsError("beside" if console.stderr else "within")

    monkeypatch.setattr(progress_bars, bar, made)
    assert memgrow.refused(*words.split(), "--json") == "beside"


@pytest.mark.parametrize("words", ["report {model} --json -o {out}", "export {model} --to huggingface {out} --json"])
def test_what_a_command_waits_for_stands_beside_the_json(memgrow, made, tmp_path, monkeypatch, words):
    def status(console: Console, sentence: str) -> None:
        raise SettingsError("beside" if console.stderr else "within")

    monkeypatch.setattr(Console, "status", status)
    assert memgrow.refused(*words.format(model=made, out=tmp_path / "out").split()) == "beside"
