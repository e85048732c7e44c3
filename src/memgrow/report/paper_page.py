"""The page on the paper's experiments: what lies between its marks is made from the tables' JSON, the rest by hand."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memgrow.errors import DataError
from memgrow.experiments.paper.files import read_figures
from memgrow.experiments.paper.tables import DIALOGUE, TABLES
from memgrow.report.paper_dialogue_page import dialogue_markdown
from memgrow.report.paper_markdown import markdown
from memgrow.report.paper_text import LEGEND
from memgrow.report.paper_theorem import theorem_markdown
from memgrow.storage import atomic_write

PREFIX = "paper-"  # of a mark's name, before that of the table
TITLE = "# The paper's experiments on MultiNLI and on dialogue\n"
HOW = "legend"  # the one place that shows no table: how to read the others
PICTURES = {"slots": "slots.png", "theorem": "theorem.png", "conditions": "scaling.png"}

BLOCKS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    **dict.fromkeys(TABLES, markdown),
    **dict.fromkeys(DIALOGUE, dialogue_markdown),
    "theorem": theorem_markdown,
}


def block(name: str, folder: Path, page: Path) -> str:
    """What the page has of a table; `folder` has its JSON, and its picture if it has one."""
    if name == HOW:
        return LEGEND
    figures = read_figures(folder, name)
    if figures is None:
        raise DataError(f"{folder} has no {name}.json: run `memgrow paper {name}` first")
    picture = folder / PICTURES.get(name, "")
    shown = f"\n\n![{figures['title']}]({_link(picture, page)})" if picture.is_file() else ""
    try:
        return BLOCKS[name](figures) + shown
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{folder / name}.json is not what this memgrow writes: remove it, and run `memgrow paper {name}` again"
        ) from error


def write_page(page: Path, folder: Path) -> list[str]:
    """Bring every marked place of the page up to date, or begin a page; returns the tables that it shows."""
    there = [name for name in BLOCKS if (folder / f"{name}.json").is_file()]
    if not there:
        raise DataError(f"{folder} has no tables for {page}: make some first, with `memgrow paper all`")
    text = page.read_text(encoding="utf-8") if page.is_file() else TITLE + "".join(map(_place, (HOW, *there)))
    shown = [name for name in (HOW, *BLOCKS) if _mark(name).search(text)]
    for name in shown:
        made = block(name, folder, page)
        text = _mark(name).sub(lambda found, made=made: f"{found[1]}{made}\n{found[3]}", text)  # type: ignore[misc]
    atomic_write(page, text)
    return [name for name in shown if name != HOW]


def _mark(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- figures: {PREFIX}{name} -->\n)(.*?)(<!-- end of figures -->)", flags=re.DOTALL)


def _place(name: str) -> str:
    return f"\n<!-- figures: {PREFIX}{name} -->\n<!-- end of figures -->\n"


def _link(picture: Path, page: Path) -> str:
    return Path(os.path.relpath(picture.resolve(), page.resolve().parent)).as_posix()
