"""Which command wrote each file of results/: docs/check.py asks whether it is named, and whether it exists."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.main import get_command

from memgrow.cli import app

RECORDS = {"runs", "runs-dialogue"}  # folders of what a command keeps to go on from, rather than of figures
# What does not name its command itself, as users get the same file or as it is made of records, and the page that does.
# (serving.json will, once it is measured again.)
NAMED_ON_PAGES = {
    "results/demo/demo.json": ("docs/results.md", "memgrow demo --methods"),
    "results/rehearsal.json": ("docs/how-it-works.md", "memgrow demo --methods"),
    "results/sentiment/compare.json": ("docs/results.md", "memgrow compare sentiment --methods"),
    "results/encoders/*.json": ("docs/encoders.md", "python benchmarks/encoder_study.py figures --picture"),
    "results/encoders/adapt-*/*.json": ("docs/encoders.md", "memgrow adapt model/"),
    "results/which-method/*.json": ("docs/which-method.md", "python benchmarks/which_method.py figures --picture"),
    "results/bag-of-words.json": ("docs/which-method.md", "python benchmarks/which_method.py references --data"),
    "results/serving.json": ("docs/service.md", "python benchmarks/serving.py --out results/serving.json"),
}


def as_typed(found: Mapping[str, Any]) -> str:
    """The command of results as a page shows it, to be typed in the root of the repository."""
    command = str(found["command"])
    return " && ".join(f"python {one}" if one.startswith("benchmarks/") else one for one in command.split(" && "))


def what_is_wrong(root: Path) -> Iterator[str]:
    """A sentence for each file whose command is not named, and for each command that the repository does not have."""
    files = (path for path in sorted((root / "results").rglob("*.json")) if not RECORDS & {*path.parts})
    for file in files:
        name = file.relative_to(root).as_posix()
        page, command = _named(root, name, json.loads(file.read_text(encoding="utf-8")))
        if command is None:
            yield f"{name} does not name the command that wrote it, and neither does {page or 'a page'}"
        elif wrong := _unknown(root, command):
            yield f"{name} was written by `{command}`, but {wrong}"


def _named(root: Path, name: str, found: Any) -> tuple[str | None, str | None]:
    """The page that names a file's command, None where the file does so itself; and the command, None if none does."""
    if isinstance(found, dict) and isinstance(found.get("command"), str):
        return None, found["command"]
    for pattern, (page, start) in NAMED_ON_PAGES.items():
        if Path(name).match(pattern):
            text = (root / page).read_text(encoding="utf-8")
            told = re.search(rf"{re.escape(start)}[^`\n]*", text)
            return page, told and told[0]
    return None, None


def _unknown(root: Path, command: str) -> str | None:
    """What of a command, or of several, is not in the repository: its program, its name, or one of its options."""
    if " && " in command:
        return next(filter(None, (_unknown(root, one) for one in command.split(" && "))), None)
    program, *rest = [word for word in shlex.split(command) if word != "python"]
    options = {word.partition("=")[0] for word in rest if word.startswith("--")}
    if program == "memgrow":
        commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
        if rest[0] not in commands:
            return f"there is no memgrow {rest[0]}"
        known = {option for parameter in commands[rest[0]].params for option in parameter.opts}
    elif program == "make":
        targets = re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
        return None if rest[0] in targets else f"there is no make {rest[0]}"
    elif not (script := root / program).is_file():
        return f"there is no {program}"
    else:
        known = {*re.findall(r"""["'](--[\w-]+)["']""", script.read_text(encoding="utf-8"))}
    return f"it has no {', '.join(sorted(options - known))}" if options - known else None
