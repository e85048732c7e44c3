"""The tutorial as a notebook: docs/tutorial.md is the source, docs/tutorial.ipynb is made from it.

    python docs/notebook.py --write         writes the notebook
    python docs/notebook.py --run OUT       runs it in an empty folder (needs the extra docs) and keeps what it printed

Shell commands become cells of bash, so that the notebook needs no kernel but Python's.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TUTORIAL, NOTEBOOK = ROOT / "docs/tutorial.md", ROOT / "docs/tutorial.ipynb"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n", flags=re.DOTALL | re.MULTILINE)
CELLS = {"python": "", "shell": "%%bash\n"}  # the languages that are run, and what their cells begin with
MARKS = re.compile(r"^<!-- .*? -->\n", flags=re.MULTILINE)
TIMEOUT_S = 300  # for one cell


def cells(page: str) -> Iterator[tuple[str, str]]:
    """The page in pieces: what is to be read, and what is to be run."""
    rest = 0
    for fence in FENCE.finditer(page):
        language, code = fence.groups()
        if language in CELLS:
            yield "markdown", page[rest : fence.start()]
            yield "code", CELLS[language] + code
            rest = fence.end()
    yield "markdown", page[rest:]


def notebook(page: str) -> dict[str, Any]:
    """The notebook of a page, in Jupyter's format 4."""
    made = []
    for number, (kind, text) in enumerate(cells(MARKS.sub("", page))):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        made.append({**cell, "source": text.strip().splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def written() -> str:
    """What docs/tutorial.ipynb should hold."""
    return json.dumps(notebook(TUTORIAL.read_text(encoding="utf-8")), indent=1, ensure_ascii=False) + "\n"


def run(out: Path) -> None:
    """Run the notebook from top to bottom; a cell that fails raises what it said."""
    import nbformat
    from nbclient import NotebookClient
    from traitlets.config import Config

    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    book = nbformat.reads(written(), as_version=4)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as place:
        # Sockets rather than ports, which others can reach. Their place is a whole path: the kernel works in another
        # folder than this process, and a name alone would be another file for each of them.
        sockets = Config({"KernelManager": {"transport": "ipc", "ip": str(Path(place, "kernel"))}})
        NotebookClient(book, timeout=TIMEOUT_S, resources={"metadata": {"path": folder}}, config=sockets).execute()
    out.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(book, out)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--write"]:
            NOTEBOOK.write_text(written(), encoding="utf-8")
        case ["--run", out]:
            run(Path(out).absolute())
        case _:
            raise SystemExit("usage: python docs/notebook.py --write | --run OUT")
