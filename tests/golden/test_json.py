"""`--json` output of the main commands keeps its keys and types; `json/*.json` hold them, written by memgrow 0.2.

New keys may join. `python -m tests.golden.test_json` writes the files again, where a change of output is meant.
"""

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memgrow.cli import app

SHAPES = Path(__file__).parent / "json"
SIZES = ("hidden=5", "embedding=6", "model.slots=4", "perceptron=8", "epochs=1", "batch=16")
TINY = " ".join(f"--set {size}" for size in SIZES)
MAY_GO = {"domains_read", "quiet", "old_rate", "sparse_slots", "pictures", "reference"}  # what memgrow 1.0 leaves out
# Run in this order, as they build on each other.
COMMANDS = {
    "adapt": f"adapt model kitchen.jsonl --method F+M+V {TINY}",
    "adapt-watch": "adapt model harbour.jsonl --watch kitchen.jsonl",
    "predict": "predict model --file asked.jsonl",
    "evaluate": "evaluate model kitchen.jsonl harbour.jsonl",
    "inspect": "inspect model",
    "inspect-text": "inspect model a-fine-pan",
    "verify": "inspect model --verify",
    "watch": "drift model asked.jsonl",
    "report": "report model kitchen.jsonl harbour.jsonl -o page.html",
    "undo": "undo model",
    "methods": "methods",
    "compare": f"compare kitchen.jsonl harbour.jsonl --methods F+V --seeds 1 --out runs {TINY}",
    "adapt-replies": f"adapt talk replies.jsonl --method F+V {TINY}",
    "predict-replies": "predict talk hello",
    "evaluate-replies": "evaluate talk replies.jsonl",
}


def shape(value: object) -> Any:
    """Keys and types: an object of shapes, a list of the shapes among its items, or the name of a type."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items() if key not in MAY_GO}
    if isinstance(value, list):
        found: list[Any] = []
        for one in map(shape, value):
            if one not in found:
                found.append(one)
        return found
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}
    return kinds[type(value)]


def missing(expected: Any, found: Any, where: str = "") -> Iterable[str]:
    """What `expected` has and `found` lacks. Null and an empty list may become something."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, one in expected.items():
            if key in found:
                yield from missing(one, found[key], f"{where}.{key}")
            else:
                yield f"{where}.{key} is missing"
    elif isinstance(expected, list) and isinstance(found, list):
        for one in expected:
            faults = [list(missing(one, other, f"{where}[]")) for other in found] or [[f"{where} is empty"]]
            yield from min(faults, key=len)
    elif expected not in ("null", found):
        yield f"{where} is {found}, not {expected}"


def write_data(folder: Path) -> None:
    words = {"good": ("fine", "lovely", "superb", "neat"), "bad": ("awful", "dull", "broken", "poor")}
    things = {"kitchen": ("pan", "kettle", "oven", "stove", "spoon"), "harbour": ("boat", "anchor", "rope", "mast")}
    for name, nouns in things.items():
        rows = [{"text": f"a {w} {n}", "label": label} for n in nouns for label in words for w in words[label]]
        write_rows(folder / f"{name}.jsonl", rows)
    write_rows(folder / "asked.jsonl", [{"text": "a fine pan"}, {"text": "a dull rope"}])
    talk = [{"message": f"where is train {n}", "response": f"on track {n % 5}"} for n in range(30)]
    write_rows(folder / "replies.jsonl", talk)


def write_rows(path: Path, rows: Iterable[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def run_commands(folder: Path) -> dict[str, Any]:
    """The shape of what each command prints: of its JSON or, for JSON lines, a list of the lines."""
    write_data(folder)
    shapes = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("memgrow.evaluation.drift.EXACT_TEXTS", 1)
        patch.setattr("memgrow.evaluation.drift.MIN_TEXTS", 20)  # for `watch`
        for name, words in COMMANDS.items():
            result = CliRunner().invoke(app, [*words.split(), "--json"], prog_name="memgrow", env={"COLUMNS": "80"})
            assert result.exit_code == 0, f"{words}: {result.output} {result.exception!r}"
            try:
                shapes[name] = shape(json.loads(result.stdout))
            except json.JSONDecodeError:
                shapes[name] = shape([json.loads(line) for line in result.stdout.splitlines()])
    return shapes


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_commands(tmp_path_factory.mktemp("json"))


@pytest.mark.parametrize("name", COMMANDS)
def test_json_keeps_its_keys_and_types(name: str, found: dict[str, Any]) -> None:
    expected = json.loads((SHAPES / f"{name}.json").read_text(encoding="utf-8"))
    if isinstance(expected, dict):
        expected = {key: one for key, one in expected.items() if key not in MAY_GO}
    assert not list(missing(expected, found[name]))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for command, one in run_commands(Path(made)).items():
            (SHAPES / f"{command}.json").write_text(json.dumps(one, indent=1) + "\n", encoding="utf-8")
