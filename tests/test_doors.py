"""Files and processes have one door each: data/disk.py and data/processes.py."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "memgrow"
DOORS = {PACKAGE / "data" / "disk.py", PACKAGE / "data" / "processes.py"}
ANYWHERE = {
    "write_text",
    "write_bytes",
    "touch",
    "symlink_to",
    "hardlink_to",
    "mkstemp",
    "Popen",
    "ProcessPoolExecutor",
}
OF = {
    "os": r"open|fdopen|link|symlink|mkfifo|system|fork|popen|(posix_)?spawn.*|exec.*",
    "subprocess": r"run|call|check_\w+|getoutput|Popen",
    "multiprocessing": r"get_context|Process|Pool",
    "": "ProcessPoolExecutor",
}
WRITING = re.compile(r"(?=.*[wax+])[rwaxbt+]{1,3}")


def bypasses(source: str) -> Iterator[str]:
    """Calls that open a file to write, or start a process."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            of, _, name = ast.unparse(node.func).rpartition(".")
            given = [*node.args, *(one.value for one in node.keywords)]
            modes = [one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            writes = name == "open" and any(map(WRITING.fullmatch, modes)) and "os.devnull" not in ast.unparse(node)
            if name in ANYWHERE or writes or re.fullmatch(OF.get(of, "$"), name):
                yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("path", sorted({*PACKAGE.rglob("*.py")} - DOORS), ids=lambda path: path.name)
def test_files_are_written_and_processes_started_at_one_place(path):
    assert [*bypasses(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "line",
    [
        "os.open(path, flags)",
        "path.open('w')",
        "open(path, mode='xb')",
        "path.write_text('')",
        "subprocess.run(command)",
        "Popen(command)",
        "multiprocessing.get_context('spawn')",
        "os.execv(command, words)",
    ],
)
def test_a_way_around_is_found(line):
    assert [*bypasses(line)]
