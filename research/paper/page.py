"""The pages on the paper's experiments: what is between their marks comes from the tables' JSON."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memgrow.errors import DataError
from research.common.files import atomic_write
from research.paper.figures import read_figures
from research.paper.report import LEGEND, dialogue_markdown, paper_markdown
from research.paper.session import DIALOGUE, THEOREM
from research.paper.tables import TABLES
from research.theorem.tables import theorem_markdown

PREFIX = "paper-"  # of a mark's name, before that of the table
TITLE = "# The paper's experiments on MultiNLI and on dialogue\n"
HOW = "legend"  # the one place that shows no table: how to read the others
PICTURES = {"slots": "slots.png", "theorem": "theorem.png", "conditions": "scaling.png"}

BLOCKS: dict[str, Callable[[dict[str, Any]], str]] = {
    **dict.fromkeys(TABLES, paper_markdown),
    **dict.fromkeys(DIALOGUE, dialogue_markdown),
    THEOREM: theorem_markdown,
}


def block(name: str, folder: Path, page: Path) -> str:
    """The part of a page on a table; `folder` has its JSON, and its picture if it has one."""
    if name == HOW:
        return LEGEND
    found = read_figures(folder, name)
    if found is None:
        raise DataError(f"{folder} has no {name}.json: run `python -m research.paper {name}` first")
    picture = folder / PICTURES.get(name, "")
    try:
        shown = f"\n\n![{found['title']}]({_link(picture, page)})" if picture.is_file() else ""
        return BLOCKS[name](found) + shown
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{folder / name}.json is of another version: run `python -m research.paper {name}` again"
        ) from error


def write_page(page: Path, folder: Path) -> list[str]:
    """Bring every marked place up to date, or begin a page; returns the tables that are shown.

    A page's tables may be on another beside it: tables.md is filled with README.md.
    """
    there = [name for name in BLOCKS if (folder / f"{name}.json").is_file()]
    if not there:
        raise DataError(f"{folder} has no tables for {page}: make some first, with `python -m research.paper all`")
    texts = {path: path.read_text(encoding="utf-8") for path in (page, _tables(page)) if path.is_file()}
    filled = {
        path: _filled(text, folder, path)
        for path, text in (texts or {page: TITLE + "".join(map(_place, (HOW, *there)))}).items()
    }
    for path, text in filled.items():
        atomic_write(path, text)
    return [name for name in BLOCKS if any(_mark(name).search(text) for text in filled.values())]


def _tables(page: Path) -> Path:
    return page.with_name("tables.md")


def _filled(text: str, folder: Path, page: Path) -> str:
    for name in (HOW, *BLOCKS):
        if _mark(name).search(text):
            made = block(name, folder, page)
            text = _mark(name).sub(lambda found, made=made: f"{found[1]}{made}\n{found[3]}", text)  # type: ignore[misc]
    return text


def _mark(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- figures: {PREFIX}{name} -->\n)(.*?)(<!-- end of figures -->)", flags=re.DOTALL)


def _place(name: str) -> str:
    return f"\n<!-- figures: {PREFIX}{name} -->\n<!-- end of figures -->\n"


def _link(picture: Path, page: Path) -> str:
    return Path(os.path.relpath(picture.resolve(), page.resolve().parent)).as_posix()
