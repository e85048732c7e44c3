"""How large memgrow is, beside the limits that are aimed at; it fails nothing.

python benchmarks/size.py            (or: make size)
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from memgrow.data import synthetic_stream, write_jsonl

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "memgrow"
KERNELS = SOURCE / "nn" / "kernels"
FENCED = ("memgrow.nn.kernels.cuda", "memgrow.serve", "memgrow.service", "research")  # not loaded with Learner
POSITIONAL = 6

# Runs a command, then prints the modules of memgrow whose functions were called and those that were loaded.
TRACE = """
import atexit, inspect, json, os, sys, threading
called = set()
def profile(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<"):
        called.add(code.co_filename)
def tell():
    sys.setprofile(None)
    ours = sorted(name for name in called if os.sep + "memgrow" + os.sep in name and "site-packages" not in name)
    loaded = [name for name in sys.modules if name.startswith("memgrow")]
    open(os.environ["TRACED"], "w").write(json.dumps([ours, loaded]))
atexit.register(tell)
threading.setprofile(profile)
sys.setprofile(profile)
from memgrow.__main__ import main
main()
"""


def main() -> None:
    rows = list(measured())
    width = max(len(what) for what, _, _ in rows)
    print(f"{'what':{width}}  {'now':>9}  {'limit':>7}")
    for what, now, limit in rows:
        over = "  over" if isinstance(limit, int) and isinstance(now, int) and now > limit else ""
        shown = [f"{number:,}" if isinstance(number, int) else number for number in (now, limit)]
        print(f"{what:{width}}  {shown[0]:>9}  {shown[1]:>7}{over}")
    for name in long_signatures():
        print(f"six required positional parameters: {name}")


def measured() -> Iterator[tuple[str, int | str, int | str]]:
    files = [path for path in SOURCE.rglob("*.py") if not path.is_relative_to(KERNELS)]
    tests = list((ROOT / "tests").rglob("*.py"))
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown, groups = commands()
    entered, loaded = traced()
    yield "lines of Python in src, without nn/kernels", sum(map(lines, files)), 18_000
    yield "files of Python in src, without nn/kernels", len(files), 130
    yield "names at the package root", len(root_names()), 12
    yield "commands that memgrow --help shows", shown, 16
    yield "groups of commands", groups, 4
    yield "functions with six required positional parameters", len(list(long_signatures())), 0
    yield "hooks of a method", hooks(), 10
    yield "modules entered by adapt --encoder", entered["adapt"], 45
    yield "modules entered by predict", entered["predict"], 30
    yield "modules loaded by adapt --encoder", loaded["adapt"], "-"
    yield "fenced modules loaded with Learner", len(fenced()), 0
    yield "layers of import-linter", layers(), 8
    yield "lines of tests", sum(map(lines, tests)), 12_000
    yield "test functions", sum(path.read_text("utf-8").count("def test_") for path in tests), 900
    yield "words of README and docs", sum(len(path.read_text("utf-8").split()) for path in pages), 20_000
    yield "lines of torture, benchmarks and docs scripts", scripts(), 3_000


def lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def scripts() -> int:
    return sum(lines(path) for folder in ("torture", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py"))


def root_names() -> list[str]:
    packages = [path.parent.name for path in SOURCE.glob("*/__init__.py")]
    return packages + [path.stem for path in SOURCE.glob("*.py") if not path.stem.startswith("__")]


def commands() -> tuple[int, int]:
    """Commands of `memgrow --help`, and the panels that they stand in."""
    from typer.main import get_command

    from memgrow.cli import app

    found = [one for one in get_command(app).commands.values() if not one.hidden]  # type: ignore[attr-defined]
    return len(found), len({getattr(one, "rich_help_panel", None) for one in found})


def long_signatures() -> Iterator[str]:
    for path in sorted(set(SOURCE.rglob("*.py")) - set((KERNELS / "cuda").rglob("*.py"))):
        tree = ast.parse(path.read_text("utf-8"))
        methods = {one for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for one in node.body}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args]
                required = len(given) - len(node.args.defaults) - (node in methods and given[:1] != [])
                if required >= POSITIONAL:
                    yield f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}, {required}"


def hooks() -> int | str:
    """Public methods of the class Method."""
    if not (path := SOURCE / "methods" / "base.py").exists():
        return "-"
    (method,) = (
        node
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and node.name == "Method"
    )
    return sum(isinstance(one, ast.FunctionDef) and not one.name.startswith("_") for one in method.body)


def traced() -> tuple[dict[str, int], dict[str, int]]:
    """How many modules of memgrow two commands enter, and load, with a tiny encoder."""
    sys.path.insert(0, str(ROOT))
    from tests.support.tiny_encoder import make_encoder

    entered, loaded = {}, {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (data,) = write_jsonl(synthetic_stream(domains=1, train=32, validation=8, test=8), folder / "data")
        encoder = str(make_encoder(folder / "encoder"))
        (folder / "asked.jsonl").write_text('{"premise": "a", "hypothesis": "b"}\n')
        words = {
            "adapt": ["adapt", "model", str(data), "--encoder", encoder, "--set", "epochs=1"],
            "predict": ["predict", "model", "--file", "asked.jsonl"],
        }
        for name, command in words.items():
            environment = {**os.environ, "TRACED": str(folder / name)}
            run = [sys.executable, "-c", TRACE, *command]
            subprocess.run(run, cwd=folder, env=environment, check=True, capture_output=True)
            called, modules = json.loads((folder / name).read_text())
            entered[name], loaded[name] = len(called), len(modules)
    return entered, loaded


def fenced() -> list[str]:
    """Modules that `from memgrow import Learner` loads and should not."""
    code = "import json, sys; from memgrow import Learner; print(json.dumps(list(sys.modules)))"
    found = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    return [name for name in found if any(name == one or name.startswith(f"{one}.") for one in FENCED)]


def layers() -> int:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    return max((len(one["layers"]) for one in contracts if one["type"] == "layers"), default=0)


if __name__ == "__main__":
    main()
