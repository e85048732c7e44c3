"""The examples of README.md and docs/ run as they are, one after another, on small data."""

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memgrow.cli import app
from memgrow.learner import Learner
from memgrow.methods import METHODS
from memgrow.models.hub import NOTE, WEIGHTS
from memgrow.training import settings
from tests.support.tiny_encoder import make_encoder

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```([\w ]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
NOTEBOOK = ROOT / "docs/tutorial.ipynb"
SHELL = re.compile(r"[|>&$;]|^(?!memgrow)")  # what only a shell can run

pytestmark = pytest.mark.docs


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files of the examples, a corpus called sentiment and a tiny encoder called minilm."""
    monkeypatch.chdir(tmp_path)
    encoder = make_encoder(tmp_path / "encoders/minilm")
    sha256 = hashlib.sha256((encoder / WEIGHTS).read_bytes()).hexdigest()
    (encoder / NOTE).write_text(json.dumps({"sha256": {WEIGHTS: sha256}}))
    monkeypatch.setenv("MEMGROW_ENCODERS", str(encoder.parent))
    monkeypatch.setenv("MEMGROW_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(settings, "AUTO_STEPS", 20)  # of a first domain: 150 take seconds
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for domain, thing in (("books", "book"), ("dvds", "film")):
        for split, words in (("train", "quiet dull bright slow rich"), ("test", "warm thin")):
            write(f"{domain}_{split}.jsonl", reviews(thing, words, ("good", "bad")))
    for domain in ("films", "products", "editorials", "tweets"):
        splits = {"train": "quiet dull bright slow rich", "validation": "deep", "test": "warm thin"}
        rows = [
            {**row, "split": split, "group": row["text"]}
            for split, words in splits.items()
            for row in reviews(domain[:-1], words, ("positive", "negative"))
        ]
        write(f"data/sentiment/{domain}.jsonl", rows)
    rows = [f'"a {kind} film {number}",{kind}\n' for number in range(20) for kind in ("good", "bad")]
    Path("dvds.csv").write_text("text,label\n" + "".join(rows))
    rows = [
        f"may {number} be so\t{answer} {number}\t{answer}\t{topic}\n"
        for topic in ("tax", "law", "art")
        for number in range(12)
        for answer in ("yes", "no")
    ]
    Path("pairs.tsv").write_text("question\tanswer\tverdict\ttopic\n" + "".join(rows))
    return tmp_path


def reviews(thing, words, labels):
    return [
        {"text": f"{opening}, {word} {thing} number {number}", "label": label}
        for word in words.split()
        for number in range(12)
        for opening, label in zip(("a moving", "a boring"), labels, strict=True)
    ]


def write(name, rows):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def methods(monkeypatch):
    """Methods that a page adds are unknown to the next one."""
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page, folder, methods):
    names = {}
    for language, code in FENCE.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(code, page.name, "exec"), names)
        elif language == "shell":
            run_shell(code)
    if page.name == "tutorial.md":
        assert Learner.load("plain").history.domains == ("tweets",)
        assert Learner.load("model").history.domains == ("tweets", "shop")


def test_the_notebook_runs(folder):
    names = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs")
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), names)
    assert names["learner"].history.domains == ("tweets", "shop")


def run_shell(code):
    for line in code.splitlines():
        command, _, otherwise = line.partition(" || ")
        if SHELL.search(command.partition(" #")[0]):
            subprocess.run(["bash", "-euo", "pipefail", "-c", line], check=True)
            continue
        _, *words = shlex.split(command, comments=True)  # in this process: importing torch takes longer
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0 or (otherwise and result.exit_code == 3), f"{line}\n{result.output}"
