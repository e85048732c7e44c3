"""What README.md and docs/ say is so: figures, examples, links, and the tables of methods, settings and commands."""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from statistics import fmean

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from memgrow.cli import app
from memgrow.cli.recipe import SECTIONS
from memgrow.learner import Learner
from memgrow.methods import METHODS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIAL = ROOT / "docs/tutorial.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
SETUP = ("make ", "pip ")  # what installs memgrow, which has happened
BEYOND_A_COMMAND = ("|", ">", "&", "$", ";")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


# Figures


def load_figures():
    sys.path.insert(0, str(ROOT / "docs"))  # where it lies when it is run, beside what it imports
    spec = importlib.util.spec_from_file_location("figures", ROOT / "docs/figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


figures = load_figures()


@pytest.mark.parametrize("name", figures.PLACES)
def test_the_figures_are_those_that_were_measured(name):
    page, shown = figures.PLACES[name]
    quoted = figures.quoted(text_of(page), name)
    assert quoted is not None, f"{page} has no place for the figures {name!r}"
    assert quoted[1] == shown(figures.load()) + "\n", "bring it up to date: python docs/figures.py --write"


def test_what_the_readme_reads_from_the_figures_holds():
    """If this fails after a new run of the demo, the sentences below the table have to be written anew."""
    runs = figures.load()["runs"]
    average, forgetting = (
        {method: fmean(run[what] for run in runs[method]) for method in runs} for what in ("average", "forgetting")
    )
    first = {method: fmean(run["matrix"][-1]["scores"]["kitchen"] for run in runs[method]) for method in runs}
    gain = average["F+M+V"] - average["F"]
    assert gain > 0.05, "F+M+V no longer gains over fine-tuning"
    assert average["F+V"] - average["F"] > 0.8 * gain, "the gain no longer comes almost wholly from the new words"
    assert forgetting["F+M+V"] > forgetting["F"] - 0.01, "there is less forgetting now: say so"
    assert max(first.values()) - min(first.values()) < 0.03, "the first domain no longer ends about level"


def test_what_the_tutorial_reads_from_the_figures_holds():
    first, second, third = (row["scores"] for row in figures.load()["runs"]["F+M+V"][0]["matrix"][:3])
    assert first["kitchen"] > second["kitchen"] > third["kitchen"]
    assert second["harbour"] > third["harbour"]


def test_the_figures_come_from_the_command_that_the_readme_names():
    found = re.search(r"`memgrow demo --methods (\S+) --seeds (\d+) --out (\S+)`", text_of("README.md"))
    assert found is not None
    results = figures.load()
    assert found[1].split(",") == list(results["runs"])
    assert int(found[2]) == results["seeds"]
    assert ROOT / found[3] == figures.RESULTS.parent


# Examples


@pytest.fixture
def newcomer(tmp_path, monkeypatch) -> Path:
    """A folder with the files that the examples speak of, and the recipes of a checkout."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
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
        subprocess.run(shell, check=True, timeout=60, env={**os.environ, "PATH": paths})
        return
    for line in lines:  # in this process: starting Python and torch takes longer than what is tested
        command, *words = shlex.split(line, comments=True)
        assert command == "memgrow"
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{line}\n{result.output}"


# Links


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in anchors(target), f"{link}: there is no such heading"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_docs_have_an_index_of_all_pages():
    for page in PAGES[1:]:
        if page.name != "README.md":
            assert f"]({page.name})" in text_of("docs/README.md")


# Tables


@pytest.mark.parametrize("page", ["README.md", "docs/how-it-works.md"])
def test_the_tables_of_methods_name_every_method(page):
    cells = re.findall(r"^\| ([^|]+) \|", text_of(page), flags=re.MULTILINE)
    named = {name for cell in cells for name in cell.split(", ")}
    assert set(METHODS) <= named


def test_commands_lists_every_setting_with_its_default():
    rows = re.findall(r"^\| `(\w+\.\w+)` \| `([^`]+)` \|", text_of("docs/commands.md"), flags=re.MULTILINE)
    expected = [
        (f"{section}.{setting.name}", as_yaml(setting.default))
        for section, kind in SECTIONS.items()
        for setting in fields(kind)
    ]
    assert rows == expected


def as_yaml(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def test_commands_has_a_section_for_each_command_and_names_each_option():
    text = text_of("docs/commands.md")
    for name, command in get_command(app).commands.items():
        assert f"\n## {name}\n" in text
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--") and option != "--help":
                    assert option in text, f"{name} {option} is not told of"


def test_make_has_what_the_readme_promises():
    targets = set(re.findall(r"^([a-z]+):", text_of("Makefile"), flags=re.MULTILINE))
    assert set(re.findall(r"^make (\w+)", text_of("README.md"), flags=re.MULTILINE)) <= targets
