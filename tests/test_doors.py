"""Files and processes have one door each: data/disk.py and data/processes.py."""

import ast
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from memgrow.data.processes import process_pool, start_module

PACKAGE = Path(__file__).parents[1] / "src" / "memgrow"
DOORS = {PACKAGE / "data" / "disk.py", PACKAGE / "data" / "processes.py"}
ANYWHERE = re.compile(
    "write_text|write_bytes|touch|symlink_to|hardlink_to|mkstemp|mkdtemp|NamedTemporaryFile|extractall|save_file|"
    "Popen|ProcessPoolExecutor|create_subprocess_.*|startfile"
)
OF = {
    "os": r"open|fdopen|link|symlink|mkfifo|system|fork|popen|(posix_)?spawn.*|exec.*",
    "subprocess": r"run|call|check_\w+|getoutput|getstatusoutput|Popen",
    "multiprocessing": r"get_context|Process|Pool|Manager",
    "shutil": r"copy.*|move|unpack_archive",
    "pty": ".*",
    "torch": "save",
    "np": "save.*",
}
WRITING = re.compile(r"(?=.*[wax+])[rwaxbt+]{1,3}")


def bypasses(source: str) -> Iterator[str]:
    """Calls and imports that open a file to write, or start a process."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):  # a call of an imported name would not be found
            found = any(re.fullmatch(OF.get(node.module or "", "$"), one.name) for one in node.names)
        elif isinstance(node, ast.Import):
            found = any(one.asname and one.name in OF and one.asname not in OF for one in node.names)
        elif isinstance(node, ast.Call):
            of, _, name = ast.unparse(node.func).rpartition(".")
            given = [*node.args, *(one.value for one in node.keywords)]
            modes = [one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            writes = name == "open" and any(map(WRITING.fullmatch, modes)) and "os.devnull" not in ast.unparse(node)
            found = bool(ANYWHERE.fullmatch(name) or writes or re.fullmatch(OF.get(of, "$"), name))
        else:
            continue
        if found:
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
        "shutil.copyfile(source, target)",
        "save_file(tensors, path)",
        "torch.save(model, path)",
        "subprocess.run(command)",
        "Popen(command)",
        "from subprocess import run",
        "import subprocess as processes",
        "multiprocessing.get_context('spawn')",
        "asyncio.create_subprocess_exec(command)",
        "os.execv(command, words)",
    ],
)
def test_a_way_around_is_found(line):
    assert [*bypasses(line)]


def test_a_module_imports_nothing_of_the_working_folder(tmp_path):
    (tmp_path / "platform.py").write_text("raise SystemExit(3)\n")
    with start_module("platform", cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        assert process.wait(60) == 0


def test_a_pool_imports_nothing_of_the_working_folder(tmp_path, monkeypatch):
    for name in ("multiprocessing.py", "pickle.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\nraise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    with process_pool(1) as pool:
        assert pool.submit(os.getpid).result(60) != os.getpid()
    assert not (tmp_path / "imported").exists()
