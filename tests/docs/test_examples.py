"""The code that README.md and docs/ show runs as it stands. (docs/check.py holds the rest of the pages.)"""

import ast
import builtins
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from memgrow.cli.recipe import SHIPPED
from typer.testing import CliRunner

from memgrow.cli import app
from memgrow.learner import Learner
from memgrow.methods import METHODS
from memgrow.models.pretrained import settings
from memgrow.models.pretrained.files import read_encoder
from tests.support.tiny_encoder import make_encoder

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIAL = ROOT / "docs/tutorial.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
SETUP = ("make ", "pip ", "memgrow encoder get ")  # what installs memgrow and MiniLM: a tiny encoder takes its place
MAKES = re.compile(r'(?:^memgrow adapt |^[^|]*folder=")([a-z]+)', flags=re.MULTILINE)  # the folder of a model
BEYOND_A_COMMAND = ("|", ">", "&", "$", ";")

pytestmark = pytest.mark.docs


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def newcomer(tmp_path, monkeypatch) -> Path:
    """A folder with the files that the examples speak of, and a tiny encoder that answers to the name minilm."""
    monkeypatch.chdir(tmp_path)
    tiny = make_encoder(tmp_path / "tiny")
    monkeypatch.setattr(settings, "find_encoder", lambda spec: read_encoder(tiny if spec == "minilm" else spec, spec))
    for domain, thing in (("books", "book"), ("dvds", "film")):
        for part, words in (("train", "quiet dull bright slow rich"), ("test", "warm thin")):
            rows = [
                {"text": f"{opening}, {word} {thing} number {number}", "label": label}
                for word in words.split()
                for number in range(4)
                for opening, label in (("a moving", "good"), ("a boring", "bad"))
            ]
            Path(f"{domain}_{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [f'"a {kind}, {word} film {number}",{kind}\n' for word in "ab" for number in range(9) for kind in ("x", "y")]
    Path("dvds.csv").write_text("text,label\n" + "".join(rows).replace("x\n", "good\n").replace("y\n", "bad\n"))
    rows = [
        f"may {number} be so\t{answer} {number}\t{answer}\t{topic}\n"
        for topic in ("tax", "law", "art")
        for number in range(12)
        for answer in ("yes", "no")
    ]
    Path("pairs.tsv").write_text("question\tanswer\tverdict\ttopic\n" + "".join(rows))
    (tmp_path / "recipes").mkdir()
    for name, recipe in SHIPPED.items():  # for fewer epochs: what is shown is how, and not how well
        shorter = tmp_path / "recipes" / recipe.name
        shorter.write_text(re.sub(r"\bepochs: \d+", "epochs: 3", recipe.read_text(encoding="utf-8")), encoding="utf-8")
        monkeypatch.setitem(SHIPPED, name, shorter)
    return tmp_path


@pytest.fixture
def known_methods():
    """A page may add methods of its own; the next one does not know them."""
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


@pytest.mark.parametrize("page", [page for page in PAGES if page != TUTORIAL], ids=name_of)
def test_the_examples_run_one_after_another(page, newcomer, known_methods):
    run_examples(page)


def test_the_tutorial_runs_and_ends_with_a_model_of_three_domains(newcomer):
    run_examples(TUTORIAL)
    learner = Learner.load("model")
    history = learner.history
    assert learner.predict([("the soup was sharp", "the soup was thick")])[0].label == "entailment"
    assert history.domains == ("kitchen", "harbour", "clinic")
    assert len(history.stages) == 3
    assert not Path("model.adapting").exists()


def test_the_python_of_the_readme_goes_on_when_it_is_run_twice(newcomer):
    code = next(code for language, code in FENCE.findall(PAGES[0].read_text(encoding="utf-8")) if language == "python")
    for _ in range(2):
        exec(compile(code, "README.md", "exec"), {})
    assert len(Learner.load("reviews").history.stages) == 2


def test_whoever_goes_from_the_readme_to_another_page_meets_no_model_of_another_kind():
    """A model gives way only to a later version of itself: under the same name the next page's would be refused."""
    pages = ("README.md", "docs/python.md", "docs/cookbook.md", "docs/coming-from.md", "docs/leaving.md")
    for made, others in itertools.combinations([set(MAKES.findall((ROOT / page).read_text())) for page in pages], 2):
        assert made
        assert not made & others


def test_a_recipe_of_the_cookbook_can_be_copied_by_itself():
    page = (ROOT / "docs/cookbook.md").read_text(encoding="utf-8")
    for code in (code for language, code in FENCE.findall(page) if language == "python"):
        nodes = list(ast.walk(ast.parse(code)))
        imported = {alias.asname or alias.name for node in nodes for alias in getattr(node, "names", ())}
        named = {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.ExceptHandler)}
        bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        given = {node.arg for node in nodes if isinstance(node, ast.arg)}
        read = {node.id for node in nodes if isinstance(node, ast.Name)}
        assert read <= imported | named | bound | given | set(dir(builtins)), code


def run_examples(page: Path) -> None:
    names: dict[str, object] = {}
    for language, code in FENCE.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(code, page.name, "exec"), names)
        elif language == "shell":
            run_shell(code)


def run_shell(code: str) -> None:
    lines = [line for line in code.splitlines() if line and not line.startswith(SETUP)]
    if any(sign in line for sign in BEYOND_A_COMMAND for line in lines):
        paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        shell = ["bash", "-euo", "pipefail", "-c", "\n".join(lines)]
        subprocess.run(shell, check=True, env={**os.environ, "PATH": paths})
        return
    for line in lines:  # in this process: starting Python and torch takes longer than what is tested
        command, *words = shlex.split(line, comments=True)
        assert command == "memgrow"
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{line}\n{result.output}"
