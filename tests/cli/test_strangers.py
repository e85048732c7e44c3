"""A stranger's model and a machine without a home: names are shown and never obeyed; no command ends in a riddle."""

import hashlib
import io
import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from rich.text import Text

from memgrow import cli
from memgrow.cli.answers import is_watched
from memgrow.cli.output import PrintableConsole
from memgrow.progress import Step
from memgrow.report.progress_bars import TrainingBar

ODD = "[/red] [bold \x1b]0;mine\x07 \x9b2J [link=x] \u202e"


def replace_names(model: Path, names: dict[str, str]) -> None:
    """Give a model other names of domains and labels, with right checksums, as anybody could."""
    manifest = json.loads((model / "manifest.json").read_text())
    for file in ("config.json", "history.json"):
        text = (model / file).read_text()
        for old, new in names.items():
            text = text.replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1])
        (model / file).write_text(text)
        manifest["sha256"][file] = hashlib.sha256(text.encode()).hexdigest()
    (model / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture
def odd_model(model):
    replace_names(model, {"kitchen": f"kitchen {ODD}", "neutral": f"neutral {ODD}", "F+M+V": "F+M+V"})
    return model


@pytest.mark.parametrize("words", [("inspect",), ("inspect", "a", "b"), ("inspect", "--json"), ("predict", "a", "b")])
def test_names_of_a_stranger_are_shown_and_not_obeyed(memgrow, odd_model, words):
    shown = memgrow.done(words[0], odd_model, *words[1:])
    assert "[/red]" in shown.replace("\n", "")
    assert not set("\x1b\x9b\x07\u202e") & set(shown)


def test_names_of_a_stranger_are_shown_in_errors(memgrow, odd_model, data, tmp_path):
    lines = data["clinic"].read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if json.loads(line)["split"] == "test")
    lines[at] = json.dumps(json.loads(lines[at]) | {"label": "perhaps"})  # which no training row has
    (file := tmp_path / "odd.jsonl").write_text("\n".join(lines) + "\n")
    sentence = memgrow.refused("adapt", odd_model, file)
    assert r"\x1b]0;mine" in sentence
    assert "\x1b" not in sentence


HOMELESS = [
    ("data", "list"),
    ("data", "where"),
    ("data", "get", "sentiment"),
    ("compare", "sentiment"),
    ("encoder", "list"),
]


@pytest.fixture
def homeless(monkeypatch):
    """An account that the system does not know, as in a container."""
    for name in ("HOME", "XDG_CACHE_HOME", "MEMGROW_DATA", "MEMGROW_ENCODERS"):
        monkeypatch.delenv(name, raising=False)
    pwd = pytest.importorskip("pwd")
    monkeypatch.setattr(pwd, "getpwuid", lambda _: {}[0])


@pytest.mark.parametrize("words", HOMELESS)
def test_without_a_home_a_sentence_says_what_to_set(memgrow, homeless, words):
    sentence = memgrow.refused(*words)
    assert "there is no home folder" in sentence
    assert "XDG_CACHE_HOME" in sentence


def test_a_home_that_nobody_has_is_a_sentence(memgrow, monkeypatch):
    monkeypatch.setenv("MEMGROW_DATA", "~nobody-of-this-name/data")
    assert "there is no such home folder" in memgrow.refused("data", "where")
    assert "there is no such home folder" in memgrow.refused(
        "encoder", "get", "minilm", "--from", "~nobody-of-this-name/x"
    )


def ended(monkeypatch, stdout, *words) -> int:
    """The exit code of a command that writes to this stream."""
    monkeypatch.setattr(sys, "argv", ["memgrow", *map(str, words)])
    monkeypatch.setattr(sys, "stdout", stdout)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return caught.value.code


WRITING = [("--version",), ("predict", "a", "b"), ("inspect", "--json")]


def with_model(words, made):
    return (words[0], made, *words[1:]) if words[0] in ("predict", "inspect") else words


@pytest.mark.parametrize("words", [*WRITING, ("--help",)])
def test_a_reader_that_has_gone_ends_a_command_in_silence(made, monkeypatch, capfd, words):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stdout:
        assert ended(monkeypatch, stdout, *with_model(words, made)) == 141
    assert capfd.readouterr().err == ""


def test_a_table_that_nobody_reads_is_told_as_any_other_output():
    reading, writing = os.pipe()
    os.close(reading)
    stdout = os.fdopen(writing, "w")
    with pytest.raises(BrokenPipeError):
        PrintableConsole(file=stdout).print("a table")
    with suppress(BrokenPipeError):  # once more
        stdout.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("words", WRITING)
def test_a_full_disk_behind_the_output_is_a_sentence(made, monkeypatch, capfd, words):
    with Path("/dev/full").open("w") as stdout:
        assert ended(monkeypatch, stdout, *with_model(words, made)) == 2
    assert capfd.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("words", [*WRITING[1:], ("encoder", "where")])
def test_a_closed_output_is_a_sentence(made, monkeypatch, capfd, words):
    assert ended(monkeypatch, None, *with_model(words, made)) == 2
    assert capfd.readouterr().err == "memgrow: standard output is closed; check that it can be read and written\n"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_what_an_output_has_no_sign_for_is_replaced_and_json_stays_utf_8(model, monkeypatch, encoding):
    def written(*words) -> bytes:
        stdout = io.TextIOWrapper(content := io.BytesIO(), encoding=encoding)
        assert ended(monkeypatch, stdout, *words) == 0
        return content.getvalue()

    replace_names(model, {"kitchen": "кухня"})
    assert "?????" in written("inspect", model).decode(encoding)
    assert "кухня" in str(json.loads(written("inspect", model, "--json").decode()))


def test_an_output_in_utf_8_is_as_strict_as_it_was(made, monkeypatch):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="UTF8")
    assert ended(monkeypatch, stdout, "inspect", made) == 0
    assert stdout.errors == "strict"


def test_what_is_told_to_nobody_is_no_fault(made_of_texts, reviews, jsonl, monkeypatch, tmp_path):
    texts = jsonl(tmp_path / "texts.jsonl", reviews)
    for words in (("--version",), ("watch", made_of_texts, texts)):
        assert ended(monkeypatch, None, *words) == 0


@pytest.mark.parametrize("command", ["predict", "watch"])
def test_a_closed_input_is_a_sentence(made, monkeypatch, capfd, command):
    monkeypatch.setattr(sys, "stdin", None)
    assert ended(monkeypatch, sys.stdout, command, made) == 2
    assert capfd.readouterr().err.startswith("memgrow: standard input is closed")


def test_answers_go_to_a_file_where_the_output_is_closed(made, monkeypatch, capfd, tmp_path):
    assert ended(monkeypatch, None, "predict", made, "the soup", "it is cold", "-o", tmp_path / "answers.jsonl") == 0
    assert (tmp_path / "answers.jsonl").read_text().count("\n") == 1
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert is_watched(None)


def test_who_forces_colours_upon_a_log_gets_no_bar_and_whole_lines(monkeypatch):
    """As notebooks do for what a cell of bash starts: a bar there was hundreds of lines."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    console = PrintableConsole(file=io.StringIO(), highlight=False)
    with TrainingBar(console) as bar:
        for batch in range(1, 10):
            bar.step(Step("books", 1, 1, batch, 10, 0.5, 0.25, 0.75))
        bar.say(Text("a word " * 40, "bold"))
    assert console.file.getvalue() == f"\x1b[1m{'a word ' * 40}\x1b[0m\n"
