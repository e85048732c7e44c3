"""What every part of the run gets: how long it may take, its chance, and whom it tells what it found."""

import json
import os
import random
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from memgrow.data.disk import atomic_write, pack_json
from memgrow.nn.seeding import derive

Counts = dict[str, int | float | str]  # by what was counted, in the words of the table; a string says in which way
ROOT = Path(__file__).parents[1]  # of the project
# Where a path of the machine begins, all but its last name: within quotes it may hold spaces.
QUOTED = re.compile(r"""(?<=["'])/[^"'\n]*/(?=[^"'/\n]+["'])""")
BARE = re.compile(r"""(?<![\w.~/-])/(?:[^\s/"'`:;,()<>\[\]{}|]+/)+""")
LINE_S = 10.0  # between two lines of progress where nobody watches


@dataclass(frozen=True)
class Budget:
    """The time that a part has, and the seed that all of its chance comes from."""

    seconds: float
    seed: int
    workers: int = 1  # processes that may compute at once
    began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        return self.began + self.seconds - time.monotonic()

    @property
    def over(self) -> bool:
        return self.left <= 0

    def random(self, *names: str | int) -> random.Random:
        """Chance of its own for each use: what else is done, and how quickly, does not change it."""
        return random.Random(derive(self.seed, *names))


class Report:
    """Shows how a part gets on, and keeps what failed."""

    def __init__(self, part: str, seed: int) -> None:
        self.part, self.seed = part, seed
        self.failures: list[str] = []
        self._told = 0.0

    def tell(self, done: int, of: int, what: str) -> None:
        """So many of so many are done."""
        watched, now = sys.stderr.isatty(), time.monotonic()
        if watched or done == of or now - self._told >= LINE_S:
            self._told = now
            sys.stderr.write(f"\r\033[K{self._line(done, of, what)}" if watched else f"{self._line(done, of, what)}\n")
            sys.stderr.flush()

    def _line(self, done: int, of: int, what: str) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"{self.part}: {done:,} of {of:,} {what}{failed}"

    def fail(self, what: str) -> None:
        """Something that is promised did not hold."""
        what = without_machine_paths(what)  # the record is committed
        self.failures.append(what)
        clear = "\r\033[K" if sys.stderr.isatty() else ""
        sys.stderr.write(f"{clear}{self.part}: FAILED: {what}\n")

    @property
    def repeat(self) -> str:
        return f"python -m torture --parts {self.part} --seed {self.seed}"


def without_machine_paths(text: str) -> str:
    """The text with paths within the project beginning there, and of all others the last name."""
    for root in {str(ROOT), os.path.realpath(ROOT)}:
        text = re.sub(rf"(?<![\w.~/-]){re.escape(root)}/", "", text)
    return BARE.sub("", QUOTED.sub("", text))


def tail(said: str | bytes, length: int) -> str:
    """The end of what a process said; its paths are cut short first, as a piece of one would not be known for it."""
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return without_machine_paths(text)[-length:]


@dataclass(frozen=True)
class Outcome:
    """What a part has done."""

    counts: Counts
    seconds: float
    seed: int
    failures: tuple[str, ...] = ()


def merge(path: Path, machine: Mapping[str, str | int], outcomes: Mapping[str, Outcome]) -> None:
    """Write what the parts counted to a file, beside what it has of other parts."""
    parts = json.loads(path.read_bytes())["parts"] if path.is_file() else {}
    for name, one in outcomes.items():
        parts[name] = {
            "counts": one.counts,
            "seconds": round(one.seconds),
            "seed": one.seed,
            "failures": list(one.failures),
            **machine,
        }
    atomic_write(path, pack_json({"command": "make torture", "parts": parts}))
