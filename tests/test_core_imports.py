"""The core needs torch, numpy, safetensors and the standard library, and nothing else."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import memgrow

HOUSE = Path(memgrow.__file__).parent
ALLOWED = {"torch", "numpy", "safetensors", "memgrow"} | sys.stdlib_module_names
# What stands around the core and may use more: the command line and what only it needs. All other files are core.
AROUND = {
    "cli.py",
    "options.py",
    "mistakes.py",
    "adaptation.py",
    "namesakes.py",
    "answers.py",
    "recipe.py",
    "demo.py",
    "report",
    "serve",
    "experiments",
    "commands",
}
CORE = sorted(path for path in HOUSE.rglob("*.py") if path.relative_to(HOUSE).parts[0] not in AROUND)
LAZY = {
    "metrics/student.py": {"scipy"},
    "metrics/bleu.py": {"sacrebleu"},
}  # within a function, with a sentence for those who do not have it
HEAVY = (
    "typer",
    "click",
    "rich",
    "yaml",
    "matplotlib",
    "scipy",
    "sacrebleu",
    "pydantic",
    "pandas",
    "sklearn",
    "datasets",
    "ray",
)

ALONE = '''
import sys

class Wall:
    """Stands before all finders, so that these modules are nowhere to be found. (torch looks for some of them.)"""

    finders = list(sys.meta_path)

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {heavy!r}:
            return None
        return next((spec for finder in self.finders if (spec := finder.find_spec(name, path, target))), None)

sys.meta_path[:] = [Wall()]
import torch
torch.set_num_threads(1)
import memgrow, memgrow.checkpoint, memgrow.metrics, memgrow.models, memgrow.nn, memgrow.text
from memgrow.data import load_stream, write_jsonl

settings = memgrow.ModelSettings(embedding=6, hidden=5, slots=4, perceptron=16)
learner = memgrow.Learner.create(
    model=settings, training=memgrow.TrainingSettings(epochs=1, batch=16), device="cpu"
)
files = write_jsonl(memgrow.synthetic_stream(domains=2, train=24, validation=6, test=6), sys.argv[1] + "/data")
learner.learn(load_stream(files).stream)
learner.save(sys.argv[1] + "/model")
again = memgrow.Learner.load(sys.argv[1] + "/model", device="cpu")
assert again.predict([("a", "b")]) == learner.predict([("a", "b")])
'''

NEW = """
import json, sys
import torch
before = set(sys.modules)
import memgrow
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def imported(path: Path) -> set[str]:
    """The top-level names of all import statements of a file, those within functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("memgrow" if node.level else (node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(HOUSE)))
def test_a_file_of_the_core_imports_only_what_every_user_has(path):
    assert imported(path) <= ALLOWED | LAZY.get(str(path.relative_to(HOUSE)), set())


def test_the_core_does_not_lean_on_what_stands_around_it():
    around = {f"memgrow.{name.removesuffix('.py')}" for name in AROUND}
    for path in CORE:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
                assert not any(name == one or name.startswith(one + ".") for name in names for one in around), path


def test_the_core_learns_saves_and_loads_where_nothing_else_is_installed(tmp_path):
    subprocess.run([sys.executable, "-c", ALONE.format(heavy=set(HEAVY)), str(tmp_path)], check=True)


def test_importing_memgrow_adds_little_to_importing_torch():
    done = subprocess.run([sys.executable, "-c", NEW], check=True, capture_output=True, text=True)
    new = json.loads(done.stdout)
    assert {name.split(".")[0] for name in new} <= ALLOWED
    around = {f"memgrow.{name.removesuffix('.py')}" for name in AROUND}
    assert not {name for name in new if ".".join(name.split(".")[:2]) in around}
    # Parts of torch that it loads only when asked: the compiler alone costs more than a second.
    assert not {name for name in new if name.startswith(("torch._dynamo", "torch._inductor", "torch.onnx"))}
