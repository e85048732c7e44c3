"""The examples of README.md and docs/ run as they are, one after another, on small data."""

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
from memgrow.cli import settings as recipes
from memgrow.learner import Learner
from memgrow.methods import METHODS
from memgrow.models import hub
from memgrow.models.hub import read_encoder
from tests.support.tiny_encoder import make_encoder

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
SETUP = ("make ", "pip ", "memgrow encoder get ")  # a tiny encoder takes the place of MiniLM
SHELL = ("|", ">", "&", "$", ";")

pytestmark = pytest.mark.docs


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files of the examples, an encoder called minilm, and recipes with fewer epochs."""
    monkeypatch.chdir(tmp_path)
    tiny = make_encoder(tmp_path / "tiny")
    monkeypatch.setattr(hub, "find_encoder", lambda spec: read_encoder(tiny if spec == "minilm" else spec, spec))
    for domain, thing in (("books", "book"), ("dvds", "film")):
        for split, words in (("train", "quiet dull bright slow rich"), ("test", "warm thin")):
            rows = [
                {"text": f"{opening}, {word} {thing} number {number}", "label": label}
                for word in words.split()
                for number in range(12)
                for opening, label in (("a moving", "good"), ("a boring", "bad"))
            ]
            Path(f"{domain}_{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [f'"a {kind} film {number}",{kind}\n' for number in range(20) for kind in ("good", "bad")]
    Path("dvds.csv").write_text("text,label\n" + "".join(rows))
    rows = [
        f"may {number} be so\t{answer} {number}\t{answer}\t{topic}\n"
        for topic in ("tax", "law", "art")
        for number in range(12)
        for answer in ("yes", "no")
    ]
    Path("pairs.tsv").write_text("question\tanswer\tverdict\ttopic\n" + "".join(rows))
    for name, recipe in recipes.SHIPPED.items():
        shorter = tmp_path / f"short-{recipe.name}"
        shorter.write_text(re.sub(r"\bepochs: \d+", "epochs: 3", recipe.read_text(encoding="utf-8")), encoding="utf-8")
        monkeypatch.setitem(recipes.SHIPPED, name, shorter)
    return tmp_path


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
        learner = Learner.load("model")
        assert learner.history.domains == ("kitchen", "harbour", "clinic")
        assert learner.predict([("the soup was sharp", "the soup was thick")])[0].label == "entailment"
        assert not Path("model/training").exists()


def test_the_python_of_the_readme_continues_when_it_runs_again(folder):
    code = next(code for language, code in FENCE.findall(PAGES[0].read_text(encoding="utf-8")) if language == "python")
    for _ in range(2):
        exec(compile(code, "README.md", "exec"), {})
    assert len(Learner.load("reviews").history.stages) == 2


def run_shell(code):
    lines = [line for line in code.splitlines() if line and not line.startswith(SETUP)]
    if any(sign in line for sign in SHELL for line in lines):
        paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(lines)], check=True, env={**os.environ, "PATH": paths}
        )
        return
    for line in lines:  # in this process: importing torch takes longer than the example
        program, *words = shlex.split(line, comments=True)
        assert program == "memgrow"
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{line}\n{result.output}"
