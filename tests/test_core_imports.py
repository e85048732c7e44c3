"""The core needs torch, numpy, safetensors and the standard library when it runs.

Which module may import which is said in pyproject.toml and held by import-linter (`make lint`).
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import memgrow

AROUND = (
    "memgrow.cli",
    "memgrow.report",
    "memgrow.export",
    "memgrow.serve",
    "memgrow.sklearn",
)
# What pyproject.toml forbids the core, and what typer, rich and matplotlib bring along
ABSENT = {
    *(
        "click",
        "datasets",
        "fastapi",
        "huggingface_hub",
        "matplotlib",
        "onnx",
        "onnxruntime",
        "pandas",
        "PIL",
        "pydantic",
    ),
    *("pyarrow", "ray", "rich", "sacrebleu", "scipy", "sklearn", "tokenizers", "transformers", "typer", "yaml"),
    *("starlette", "uvicorn"),
}

ALONE = '''
import sys

class Wall:
    """Stands before all finders, so that these modules are nowhere to be found. (torch looks for some of them.)"""

    finders = list(sys.meta_path)

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            return None
        return next((spec for finder in self.finders if (spec := finder.find_spec(name, path, target))), None)

sys.meta_path[:] = [Wall()]
import importlib, pkgutil
import torch
torch.set_num_threads(1)
import memgrow
from memgrow.data import load_stream, write_jsonl

core = [name for name in ("memgrow." + module.name for module in pkgutil.iter_modules(memgrow.__path__))
        if name not in {around!r}]
assert "memgrow.learner" in core
for name in core:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", ()), name + "."):
        if ".no_build." not in module.name:  # a stand-in for setuptools, which pip alone looks at
            importlib.import_module(module.name)

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

# In a fresh process, one after another
STEPS = (
    "import torch",
    "from memgrow import *",
    "import memgrow.evaluation.significance",
    "from memgrow.report.plots import draw_matrices",
    "import io; matrix = memgrow.evaluation.history.AccuracyMatrix().with_row(['a'], {'a': 1.0}); "
    "draw_matrices({'F': matrix}, io.BytesIO(), '')",
)
TELLING = f"""
import json, sys
known, told = set(), []
for step in {STEPS!r}:
    exec(step)
    told.append(sorted(set(sys.modules) - known))
    known |= set(sys.modules)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """The modules that each step loads."""
    done = subprocess.run([sys.executable, "-c", TELLING], check=True, capture_output=True, text=True)
    return dict(zip(("torch", "memgrow", "figures", "plots", "picture"), json.loads(done.stdout), strict=True))


@pytest.mark.slow
def test_all_of_the_core_can_be_imported_and_learns_saves_and_loads_where_nothing_else_is_installed(tmp_path):
    alone = ALONE.format(absent=ABSENT, around=set(AROUND))
    subprocess.run([sys.executable, "-c", alone, str(tmp_path)], check=True)


@pytest.mark.slow
def test_importing_memgrow_adds_little_to_importing_torch(loaded):
    new = loaded["memgrow"]
    assert {name.split(".")[0] for name in new} <= {
        "torch",
        "numpy",
        "safetensors",
        "memgrow",
        *sys.stdlib_module_names,
    }
    assert not [name for name in new if name.startswith(AROUND)]
    # Parts of torch that it loads only when asked: the compiler alone costs more than a second.
    assert not [name for name in new if name.startswith(("torch._dynamo", "torch._inductor", "torch.onnx"))]


def test_every_public_name_is_where_it_was_and_so_are_the_packages_that_used_to_come_along():
    for name in memgrow.__all__:
        assert getattr(memgrow, name) is not None
    assert set(memgrow.__all__) <= set(dir(memgrow))
    assert memgrow.nn.MemoryLSTM is memgrow.MemoryLSTM
    for unknown in ("no_such_name", "_no_such_name"):
        assert not hasattr(memgrow, unknown)


@pytest.mark.slow
def test_scipy_is_loaded_only_when_a_figure_needs_it(loaded):
    assert not [name for name in loaded["memgrow"] + loaded["figures"] if name.startswith("scipy")]


@pytest.mark.slow
def test_matplotlib_is_loaded_only_for_a_picture_and_leaves_the_callers_own_alone(loaded):
    before = loaded["memgrow"] + loaded["figures"] + loaded["plots"]
    assert not [name for name in before if name.startswith("matplotlib")]
    assert "matplotlib.figure" in loaded["picture"]
    assert "matplotlib.pyplot" not in loaded["picture"]


def further(nodes: list[ast.AST]) -> set[str]:
    """The packages that these statements import, beyond those which the core needs."""
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    known = {*sys.stdlib_module_names, "memgrow", "torch", "numpy", "safetensors"}
    return {name.split(".")[0] for name in names} - known - {""}


def when_imported(node: ast.AST) -> Iterator[ast.AST]:
    """The statements that run as a module is imported: in classes and conditions too, but in no function."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from when_imported(child)


def test_no_file_of_the_core_imports_what_only_some_users_have():
    """Inside of functions too; import-linter forbids packages by name, this holds for any that may come."""
    house = Path(memgrow.__file__).parent
    around = {name.removeprefix("memgrow.") for name in AROUND}
    found, at_once = set(), {}
    for path in house.rglob("*.py"):
        if path.relative_to(house).parts[0].removesuffix(".py") in around or "no_build" in path.parts:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found |= {(path.parent.name, package) for package in further(list(ast.walk(tree)))}
        if packages := further(list(when_imported(tree))):
            at_once[path.name] = packages
    encoders = {("pretrained", name) for name in ("huggingface_hub", "onnx", "tokenizers", "transformers")}
    # Extras, loaded when a file, a figure or an encoder needs them, and a notebook's own shell within one
    assert found == {("data", "pyarrow"), ("metrics", "scipy"), *encoders}
    assert not at_once, "inside of functions alone: who has them shall not wait for them"
