"""Hostile texts and files: every reader gives a result or a sentence, and never hangs.

Two kinds of fuzzing share the time: hypothesis builds inputs out of the parts of right ones, and atheris, where it is
installed, goes on from those that reached new lines of code.
"""

import csv
import gzip
import importlib.util
import io
import json
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from torture.budget import Budget, Counts, Report, tail
from torture.confined import confined
from torture.targets import TARGETS, Target, attempt

AT_ONCE = 200  # inputs between two looks at the clock
SLOW_S = 5.0  # of the processor, for one input of a few thousand bytes
LEAST_S = 3.0  # for each target, by each kind of fuzzing
START_S = 120.0  # until a process has begun, on a busy machine
RUNS = re.compile(rb"number_of_executed_units: (\d+)")
COVERED = re.compile(rb"DONE\s+cov: (\d+)")
COLUMNS = ("text", "label", "split", "premise", "hypothesis", "message", "response", "gold_label", "", "a")
GUIDED = importlib.util.find_spec("atheris") is not None


def run(budget: Budget, report: Report) -> Counts:
    """All targets by both kinds of fuzzing, each for its share of the time."""
    each = max(LEAST_S, budget.seconds / len(TARGETS) / (2 if GUIDED else 1))
    built = 0
    found: Counts = {"readers": len(TARGETS)}
    with tempfile.TemporaryDirectory() as place:
        for number, name in enumerate(TARGETS):
            built += by_parts(name, each, budget.random("fuzz", name).randrange(1 << 30), Path(place), report)
            report.tell(number + 1, len(TARGETS), f"readers, {built:,} inputs")
        found["inputs built of parts"] = built
        if GUIDED:
            inputs, branches = by_coverage(each, budget.seed, Path(place), report)
            found |= {"inputs guided by coverage": inputs, "branches of our code that they reached": branches}
    return found


# Built of parts


def by_parts(name: str, seconds: float, chance: int, place: Path, report: Report) -> int:
    """How many inputs a reader was given, in a child with bounds."""
    (folder := place / "by-parts" / name).mkdir(parents=True)
    work = partial(_examples, name, folder, seconds, chance)
    outcome = confined(work, cpu_s=int(seconds) + 60, wall_s=seconds + START_S, watched=False)
    if outcome.fault is not None:
        report.fail(f"{name}, an input built of parts (seed {chance}): {outcome.fault}")
        return 0
    return int(outcome.value)


def _examples(name: str, place: Path, seconds: float, chance: int) -> int:
    warnings.simplefilter("ignore")
    target, until, count = TARGETS[name], time.monotonic() + seconds, 0

    def try_one(content: bytes) -> None:
        nonlocal count
        count += 1
        began = time.process_time()
        attempt(target, content, place)
        assert time.process_time() - began < SLOW_S, "it takes too long"

    quietly = settings(
        max_examples=AT_ONCE,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )
    while time.monotonic() < until:
        seed(chance + count)(quietly(given(inputs(name, target))(try_one)))()
    return count


def inputs(name: str, target: Target) -> st.SearchStrategy[bytes]:
    """Bytes for a reader: anything, its words in any order, a right input with a part replaced, and its own kind."""
    words = st.sampled_from([*target.words, *(one.decode(errors="replace") for one in target.seeds)])
    joined = st.lists(words | st.text(max_size=8) | st.characters(), max_size=40).map("".join)
    kinds = [st.binary(max_size=300), joined.map(_bytes), st.builds(_spliced, st.sampled_from(target.seeds), *SPLICE)]
    if name in OWN:
        kinds.append(OWN[name]())
    return st.one_of(kinds)


SPLICE = (
    st.integers(0, 1 << 16),
    st.integers(0, 40),
    st.binary(max_size=20) | st.text(max_size=8).map(lambda t: _bytes(t)),
)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogatepass")


SPLICE = (st.integers(0, 1 << 16), st.integers(0, 40), st.binary(max_size=20) | st.text(max_size=8).map(_bytes))


def _spliced(content: bytes, place: int, length: int, new: bytes) -> bytes:
    start = place % (len(content) + 1)
    return content[:start] + new + content[start + length :]


def _values() -> st.SearchStrategy[Any]:
    plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
    return st.recursive(plain, lambda part: st.lists(part, max_size=3) | st.dictionaries(_names(), part, max_size=3))


def _names() -> st.SearchStrategy[str]:
    return st.sampled_from(COLUMNS) | st.text(max_size=3)


def _json_rows() -> st.SearchStrategy[bytes]:
    row = st.dictionaries(_names(), st.text(max_size=12) | _values(), max_size=5)
    escaped = st.booleans()
    lines = st.builds(lambda row, plain: _bytes(json.dumps(row, ensure_ascii=plain)), row, escaped)
    return st.lists(lines, max_size=6).map(b"\n".join)


def _rows_of(joint: str) -> st.SearchStrategy[bytes]:
    def written(rows: list[list[str]]) -> bytes:
        writer = csv.writer(text := io.StringIO(), delimiter=joint, escapechar="\\")
        writer.writerows(rows)
        return _bytes(text.getvalue())

    header = st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4)
    fields = st.lists(st.text(max_size=12), min_size=1, max_size=4)
    return st.builds(lambda first, rest: written([first, *rest]), header, st.lists(fields, max_size=5))


def _vectors() -> st.SearchStrategy[bytes]:
    number = st.floats().map(repr) | st.integers().map(str) | st.sampled_from(("1.", ".5", "+1", "1e-9", "x"))
    word = st.sampled_from(("the", "a", "\u00e9", "1", "")) | st.text(max_size=4)
    row = st.builds(lambda word, numbers: " ".join([word, *numbers]), word, st.lists(number, max_size=5))
    return st.lists(row, max_size=5).map("\n".join).map(_bytes)


def _settings() -> st.SearchStrategy[bytes]:
    names = st.sampled_from(("method", "seed", "model", "training", "options", "hidden", "rate", "keep", "x"))
    sections = st.dictionaries(names, st.dictionaries(names, _values(), max_size=4) | _values(), max_size=4)
    return sections.map(lambda told: _bytes(json.dumps(told, ensure_ascii=False)))


OWN: dict[str, Callable[[], st.SearchStrategy[bytes]]] = {
    "jsonl": _json_rows,
    "jsonl.gz": lambda: _json_rows().map(gzip.compress),
    "csv": lambda: _rows_of(","),
    "tsv": lambda: _rows_of("\t"),
    "vectors": _vectors,
    "vectors.gz": lambda: _vectors().map(gzip.compress),
    "recipe": _settings,
    "encoder folder": lambda: st.builds(
        lambda which, told: bytes([which]) + _bytes(json.dumps(told)), st.integers(0, 7), _values()
    ),
}


# Guided by coverage


def by_coverage(seconds: float, chance: int, place: Path, report: Report) -> tuple[int, int]:
    """How many inputs atheris gave to the readers, and how many branches of our code they reached."""
    (folder := place / "guided").mkdir()
    words = [sys.executable, "-m", "torture.guided", str(folder), str(int(seconds)), str(chance % (1 << 31)), *TARGETS]
    try:
        subprocess.run(words, capture_output=True, timeout=len(TARGETS) * (seconds + START_S), check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        report.fail(f"readers guided by coverage: {error} {tail(error.stderr or b'', 3000)!r}")
    inputs = branches = 0
    for number, name in enumerate(TARGETS):
        log = folder / str(number) / "log"
        told = log.read_bytes() if log.is_file() else b""
        runs, covered = RUNS.search(told), COVERED.search(told)
        if runs is None or covered is None:
            spoilt = [path for path in log.parent.glob("*-*") if path.name.startswith(("crash", "timeout", "oom"))]
            kept = [path.read_bytes()[:500] for path in spoilt]
            report.fail(f"{name}, an input guided by coverage: {kept} {tail(told, 3000)}")
        inputs += int(runs[1]) if runs else 0
        branches += int(covered[1]) if covered else 0
    return inputs, branches
