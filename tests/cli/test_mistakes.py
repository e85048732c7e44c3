"""Bad input gets one line that says what is wrong, exit code 2, and changes nothing. Interruptions lose nothing."""

import json
import os
import signal
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memgrow import Learner
from memgrow.cli.app import run
from memgrow.storage.folder import hold

ROWS = '{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n'
MORE = "".join(f'{{"text": "{word} {n}", "label": "{word}"}}\n' for n in range(20) for word in ("good", "bad"))
MISTAKES = {  # what is wrong: (content of data.jsonl, further words, what the sentence must mention)
    "no such file": (None, (), "data.jsonl"),
    "not JSON": ("nonsense\n", (), "line 1"),
    "no text column": ('{"words": "a", "label": "x"}\n', (), "text"),
    "no label column": ('{"text": "a"}\n', (), "label"),
    "one label": ("".join(f'{{"text": "a{n}", "label": "x"}}\n' for n in range(30)), (), "two labels"),
    "unknown method": (ROWS, ("--method", "G"), "no method"),
    "unknown setting": (ROWS, ("--set", "hiden=3"), "hidden"),
    "no value": (ROWS, ("--set", "hidden"), "="),
    "wrong type": (ROWS, ("--set", "hidden=big"), "whole number"),
    "impossible value": (ROWS, ("--encoder", "lstm", "--set", "hidden=0"), "at least 1"),
    "a setting by another name": (ROWS, ("--set", "learning_rate=3"), "did you mean rate?"),
    "a recurrent setting for an encoder": (ROWS, ("--set", "hidden=64"), "--encoder lstm"),
    "no weights and no network": (MORE, (), "--encoder lstm"),
    "a domain of one row": (
        '{"text": "a", "label": "x"}\n',
        (),
        "1 row and no validation examples: give at least 4 rows",
    ),
    "an unreadable file": (ROWS, ("--validation", "."), "file"),
    "unknown column": (ROWS, ("--text", "body"), "body"),
    "unknown device": (ROWS, ("--device", "tpu"), "device"),
    "missing recipe": (ROWS, ("--recipe", "no.yaml"), "no.yaml"),
    "long recipe": ("method: finetune\n" * 10_000, ("--recipe", "data.jsonl"), "too long"),
    "missing vectors": (ROWS, ("--vectors", "no.txt"), "no.txt"),
    "missing watch": (ROWS, ("--watch", "no.jsonl"), "no.jsonl"),
    "unknown encoder": (MORE, ("--encoder", "no-such-encoder"), "no-such-encoder"),
    "encoder method without encoder": (MORE, ("--encoder", "lstm", "--method", "lora"), "encoder"),
    "negative bound": (ROWS, ("--max-forgetting", "-3"), "0 or more"),
    "bad label map": (ROWS, ("--map-label", "x"), "OLD=NEW"),
    "too many versions": (ROWS, ("--keep-versions", "100000"), "versions"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_and_makes_nothing(name, memgrow, never_made, tmp_path, monkeypatch):
    content, words, mentions = MISTAKES[name]
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("data.jsonl").write_text(content)
    assert mentions in memgrow.refused("adapt", never_made, "data.jsonl", *words)


@pytest.mark.parametrize(
    ("words", "mentions"),
    [
        (("predict", "{model}", "one text"), "two texts"),
        (("predict", "{model}", "a", "b", "--file", "x.csv"), "not both"),
        (("predict", "{model}", "a", "b", "--beam", "3"), "replies"),
        (("predict", "{model}", "a", "b", "-o", "x.xml"), ".jsonl or .csv"),
        (("predict", "no-model", "a"), "no-model"),
        (("evaluate", "{model}", "no.csv"), "no.csv"),
        (("undo", "{model}", "--to", "9"), "9"),
        (("adapt", "{model}", "{data}", "--set", "hidden=99"), "hidden"),
        (("adapt", "{data}", "{data}"), "is a file"),
    ],
)
def test_a_mistake_about_a_model_leaves_it_alone(words, mentions, memgrow, untouched, data):
    given = [word.format(model=untouched, data=data["clinic"]) for word in words]
    assert mentions in memgrow.refused(*given)


def test_a_folder_of_other_files_is_not_taken_for_a_model(memgrow, data, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    assert "holds other files" in memgrow.refused("adapt", tmp_path / "notes", data["kitchen"])
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["mine.txt"]


def test_terminal_commands_in_names_are_shown_and_not_obeyed(memgrow, jsonl, reviews, tmp_path):
    rows = [{**row, "label": f"\x1b[31m{row['label']}"} for row in reviews]
    out = memgrow.done("adapt", tmp_path / "m", jsonl(tmp_path / "d.jsonl", rows), *memgrow.tiny)
    out += memgrow.done("evaluate", tmp_path / "m", tmp_path / "d.jsonl", "--by-label")
    assert "\x1b[31m" not in out
    assert json.loads(memgrow.done("predict", tmp_path / "m", "a"))["label"].startswith("\x1b")


def test_terminal_commands_in_warnings_are_shown_and_not_obeyed(monkeypatch, capsys):
    monkeypatch.setattr("warnings.showwarning", None)  # put back afterwards, as `run` sets it
    monkeypatch.setattr("signal.signal", lambda *_: None)
    run(lambda **_: warnings.warn("\x1b[2Jglyph", stacklevel=1), "memgrow")
    errors = capsys.readouterr().err
    assert r"\x1b[2Jglyph" in errors
    assert "\x1b" not in errors


# Interruptions

HANGING = """
import time
from memgrow.training import loop
plain = loop.collate
def slowly(*given):
    print("training", flush=True)
    time.sleep(0.3)
    return plain(*given)
loop.collate = slowly
from memgrow.cli import main; main()
"""


def test_ctrl_c_ends_a_command_with_one_sentence_and_it_can_be_resumed(memgrow, data, model, monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("memgrow.training.loop.collate", interrupted)
        result = memgrow("adapt", model, data["clinic"])
    assert result.exit_code == 130
    assert "stopped" in result.stderr
    memgrow.done("adapt", model, data["clinic"])
    assert memgrow.learnt(model)[-1] == ("clinic",)


def test_sigterm_ends_a_command_with_one_sentence(memgrow, data, model):
    command = [sys.executable, "-c", HANGING, "adapt", str(model), str(data["clinic"])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    while process.stdout.readline() != "training\n":
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "stopped" in errors
    assert "Traceback" not in errors
    assert memgrow.learnt(model) == [("kitchen",), ("harbour",)]


def test_a_reader_that_goes_away_ends_the_command_quietly(made):
    command = [sys.executable, "-m", "memgrow", "predict", str(made)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.close()
    process.stdin.write("a\tb\n" * 5000)
    process.stdin.close()
    assert process.wait(60) == 141
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()


def test_a_model_that_another_process_changes_is_refused_but_can_be_read(memgrow, data, model):
    with hold(model), ThreadPoolExecutor(1) as thread:
        sentence = thread.submit(memgrow.refused, "adapt", model, data["clinic"]).result()
        assert "changed by" in sentence
        assert thread.submit(memgrow.done, "predict", model, "a", "b").result()
    assert Learner.load(model, "cpu").history.domains == ("kitchen", "harbour")
