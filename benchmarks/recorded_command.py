"""The command that a benchmark was really given, as it is written into its results."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER, FILE = "FOLDER", "FILE"  # stand for paths that another machine does not have


def recorded_command(script: str, words: Sequence[str] | None = None, earlier: str | None = None) -> str:
    """The command line of a script (its `__file__`), from the root of the repository.

    A path outside the repository is replaced by FOLDER or FILE. `earlier` is the command in the file that the results
    are added to: unless it was the same one, both are told.
    """
    given = sys.argv[1:] if words is None else words
    command = shlex.join([f"benchmarks/{Path(script).name}", *map(_without_machine, given)])
    known = earlier.split(" && ") if earlier else []
    return " && ".join(known if command in known else [*known, command])


def _without_machine(word: str) -> str:
    """A word as any machine may read it; also one such as --out=PATH or NAME=PATH."""
    name, sign, value = word.rpartition("=")
    path = Path(value)
    if not (path.is_absolute() or ".." in path.parts or value.startswith("~")):
        return word
    whole = path.expanduser().resolve()
    if whole.is_relative_to(ROOT):
        return f"{name}{sign}{whole.relative_to(ROOT).as_posix()}"
    return f"{name}{sign}{FOLDER if whole.is_dir() else FILE}"
