"""Reading takes a time that grows with the length of what is read and no faster, up to several megabytes.

Every reader gets inputs of one kind in two sizes. The time of the processor is compared, so that other processes do not
matter: eight times the length may take sixteen times as long, where a square would take sixty-four.
"""

import gzip
import io
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from memgrow.cli.recipe import LARGEST_FILE, read_recipe

from memgrow.data import load_stream
from memgrow.data.columns import DEFAULT_COLUMNS
from memgrow.data.disk import parse_json
from memgrow.data.files import line_chunks
from memgrow.data.inputs import inputs_from_lines
from memgrow.data.text import tokenize
from memgrow.data.vectors import read_vectors
from memgrow.data.vocabulary import Vocabulary
from memgrow.errors import MemgrowError, json_text, printable
from torture.budget import Budget, Counts, Report
from torture.confined import confined

SMALL, TIMES = 1 << 18, 8  # bytes of the smaller input, and how many times as long the larger one is
MOST = 16.0  # times as long
LEAST_S = 0.05  # of the smaller one, below which clocks and caches decide
CPU_S, WALL_S = 120, 600  # for one kind of input
PIECES = (
    *("a", "a ", "'", "n't ", "a.", "U.S", "1,", "1.5:", "-", "a-b'", "...", "--", "Mr. ", "-LRB-", "'tis ", "_", "\n"),
    *("e\u0301", "\u200d", "\u0f72", "\U0001f469\u200d", "\u202e", "\u00ad", "\x00", "\ufeff", "\u65e5", "\u2028"),
)
YAML = (b"{a: ", b"- a\n", b"a: [\n", b"'", b"? ", b"#", b"a: b\n")
JSON = (b'{"a": 1, "', b'"a",', b"\\u00e9", b"[1,")


@dataclass(frozen=True)
class Case:
    """Something that reads, and an input of about so many bytes."""

    name: str
    make: Callable[[int], bytes]
    read: Callable[[bytes, Path], object]
    small: int = SMALL


def run(budget: Budget, report: Report) -> Counts:
    """All cases once, in children with bounds; they are few."""
    done, worst = 0, 0.0
    with tempfile.TemporaryDirectory() as place:
        every = list(cases())
        for case in every:
            outcome = confined(partial(_times, case, Path(place)), cpu_s=CPU_S, wall_s=WALL_S, watched=False)
            if outcome.fault is not None:
                report.fail(f"{case.name}: {outcome.fault}")
            else:
                once, often = outcome.value
                grown = often / max(once, LEAST_S)
                worst = max(worst, grown)
                if grown > MOST:
                    report.fail(f"{case.name}: {TIMES} times the length takes {grown:.0f} times as long")
            done += 1
            report.tell(done, len(every), "kinds of inputs")
    return {
        "kinds of inputs": done,
        "bytes of the largest": SMALL * TIMES,
        f"times as long at {TIMES} times the length, at most": math.ceil(10 * worst) / 10,
    }


def _times(case: Case, place: Path) -> tuple[float, float]:
    """Seconds of the processor for a small input and a large one: the shortest of a few."""
    return _shortest(case, case.make(case.small), place, 2), _shortest(case, case.make(case.small * TIMES), place, 1)


def _shortest(case: Case, content: bytes, place: Path, tries: int) -> float:
    found = []
    for _ in range(tries):
        began = time.process_time()
        with suppress(MemgrowError):
            case.read(content, place)
        found.append(time.process_time() - began)
    return min(found)


def cases() -> Iterator[Case]:
    for piece in PIECES:
        yield Case(f"the tokeniser on {piece!a}", _repeated(piece.encode()), _words)
    yield Case("the printable form of control characters", _repeated(b"\x1b["), _shown)
    for name, start, row, end in FILES:
        yield Case(f"{name} with {row[:12]!r}", _around(start, row, end), _reader(name))
    for name, row in VECTORS:
        yield Case(f"{name} with {row[:12]!r}", _repeated(row), _vectors(name))
    for row in YAML:
        yield Case(f"a recipe of {row!r}", _repeated(row), _recipe, small=(LARGEST_FILE - 100) // TIMES)
    for row in JSON:
        yield Case(f"JSON of a model with {row!r}", _around(b"[", row, b"0]"), _parsed)


# Name of a file, how it begins, what is repeated, how it ends
FILES = (
    ("x.jsonl", b"", b'{"text": "so fine", "label": "good"}\n{"text": "dull", "label": "bad"}\n', b""),
    ("x.jsonl", b'{"text": "', b"a b ", b'", "label": "good"}\n'),
    ("x.jsonl", b'{"text":', b" ", b'"a"}\n'),
    ("x.jsonl", b'{"text": ', b"9", b"}\n"),
    ("x.jsonl", b'{"text": "', b"\\u00e9", b'"}\n'),
    ("x.jsonl", b"", b"\xff\xfe", b""),
    ("x.csv", b"text,label\n", b"a,good\nb,bad\n", b""),
    ("x.csv", b'text,label\n"', b'""', b'",good\n'),
    ("x.csv", b'text,label\n"', b"a line\n", b'",good\n'),
    ("x.csv", b"text", b",", b"\n"),
    ("x.tsv", b"text", b"\t", b"\n"),
    ("x.tsv", b"text\tlabel\n", b"a\tgood\nb\tbad\n", b""),
)
VECTORS = (
    ("v.txt", b"the 0.25 -1 .5 2\n"),
    ("v.txt", b"a a a 1 2\n"),
    ("v.txt", b"the " + b"1 " * 300 + b"\n"),
    ("v.txt", b"the 1e3 2e-9 nan\n"),
    ("v.txt", b" "),
    ("v.bin", b"9000000 2\nthe 12345678"),
)


def _repeated(piece: bytes) -> Callable[[int], bytes]:
    return lambda size: piece * (size // len(piece))


def _around(start: bytes, piece: bytes, end: bytes) -> Callable[[int], bytes]:
    return lambda size: start + piece * (size // len(piece)) + end


def _words(content: bytes, place: Path) -> None:
    tokens = tokenize(content.decode(errors="replace"))
    Vocabulary().extended([tokens]).encode(tokens)


def _shown(content: bytes, place: Path) -> None:
    text = content.decode()
    printable(text)
    json_text(text)


def _parsed(content: bytes, place: Path) -> None:
    with suppress(ValueError, RecursionError):
        parse_json(content)


def _recipe(content: bytes, place: Path) -> None:
    (path := place / "recipe.yaml").write_bytes(content)
    read_recipe(path)


def _reader(name: str) -> Callable[[bytes, Path], None]:
    def read(content: bytes, place: Path) -> None:
        (place / name).write_bytes(content)
        (place / f"{name}.gz").write_bytes(gzip.compress(content, 1))
        for path in (place / name, place / f"{name}.gz"):
            with suppress(MemgrowError):
                load_stream(path)
        list(inputs_from_lines(line_chunks(io.BytesIO(content)), DEFAULT_COLUMNS, "text"))

    return read


def _vectors(name: str) -> Callable[[bytes, Path], None]:
    def read(content: bytes, place: Path) -> None:
        (place / name).write_bytes(content)
        read_vectors(place / name, ["the", "a", json.dumps("x")])

    return read
