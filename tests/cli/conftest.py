"""The command line called within this process, on files and models that are made in a moment."""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memgrow.cli import app
from memgrow.data import Stream, write_jsonl
from memgrow.evaluation import baselines

SIZES = ("hidden=5", "embedding=6", "model.slots=4", "perceptron=16", "epochs=1", "batch=16")
TINY = ("--encoder", "lstm", *(word for size in SIZES for word in ("--set", size)))


class Memgrow:
    """Runs a command at eighty columns; an exception that no command has made a sentence of fails the test."""

    tiny = TINY

    def __call__(self, *words: Any, stdin: str | bytes | None = None, **environment: str | None):
        env = {"COLUMNS": "80", **environment}
        result = CliRunner().invoke(app, [str(word) for word in words], input=stdin, prog_name="memgrow", env=env)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def done(self, *words: Any, stdin: str | bytes | None = None, **environment: str | None) -> str:
        """The output of a command that must succeed."""
        result = self(*words, stdin=stdin, **environment)
        assert result.exit_code == 0, result.output
        return result.stdout

    def refused(self, *words: Any, stdin: str | bytes | None = None) -> str:
        """The one sentence of a command that must be refused."""
        result = self(*words, stdin=stdin)
        assert result.exit_code == 2, result.output
        assert result.stderr.count("\n") == 1, result.stderr
        assert result.stderr.startswith("memgrow: ")
        return result.stderr.removeprefix("memgrow: ").rstrip("\n")

    def learnt(self, model: Path) -> list[tuple[str, ...]]:
        """The domains that each stage of a model has learnt."""
        history = json.loads(self.done("inspect", model, "--json"))["history"]
        return [tuple(stage["learned"]) for stage in history["stages"]]


@pytest.fixture(scope="session")
def memgrow() -> Memgrow:
    return Memgrow()


@pytest.fixture(scope="session")
def data(stream: Stream, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three domains of pairs as files, by name."""
    paths = write_jsonl(stream, tmp_path_factory.mktemp("data"))
    return {path.stem: path for path in paths}


@pytest.fixture(scope="session")
def made(memgrow: Memgrow, data: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of pairs that has learnt the kitchen and the harbour. Not to be changed: see `model`."""
    folder = tmp_path_factory.mktemp("made") / "model"
    memgrow.done("adapt", folder, data["kitchen"], data["harbour"], *TINY, "--method", "finetune+slots+vocab")
    return folder


@pytest.fixture
def model(made: Path, tmp_path: Path) -> Path:
    """The same, to do with as one likes; nothing else is in its folder."""
    return Path(shutil.copytree(made, tmp_path / "models" / "model"))


@pytest.fixture(scope="session")
def reviews() -> list[dict[str, str]]:
    """Single texts of two labels."""
    words = {"good": ("fine", "lovely", "superb", "neat"), "bad": ("awful", "dull", "broken", "poor")}
    return [
        {"text": f"a {word} {thing}", "label": label}
        for thing in ("lamp", "chair", "kettle", "radio", "clock")
        for label in words
        for word in words[label]
    ]


@pytest.fixture(scope="session")
def made_of_texts(memgrow: Memgrow, reviews, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of single texts. Not to be changed."""
    folder = tmp_path_factory.mktemp("texts")
    memgrow.done("adapt", folder / "model", jsonl(folder / "reviews.jsonl", reviews), *TINY)
    return folder / "model"


def jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session", name="jsonl")
def jsonl_fixture() -> Callable[[Path, Iterable[Mapping[str, Any]]], Path]:
    return jsonl


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder, byte for byte, and every folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def untouched(model: Path):
    """At the end of the test everything beside and within the model must be as it was at the beginning."""
    before = contents(model.parent)
    yield model
    assert contents(model.parent) == before


@pytest.fixture
def never_made(tmp_path: Path):
    """The place of a model that must not come into being, nor anything beside it."""
    folder = tmp_path / "empty" / "model"
    folder.parent.mkdir()
    yield folder
    assert contents(folder.parent) == {}


@pytest.fixture(autouse=True)
def few_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bag of words as small as the models of these tests."""
    monkeypatch.setattr(baselines, "FEATURES", 2**8)
