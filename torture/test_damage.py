"""A damaged folder is refused with one line, in bounded time and memory, and runs nothing, or is still the same model.

One whose checksums fit may be another model, but then one that works.
"""

import hashlib
import json
import os
import shutil
import struct
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

from memgrow import Learner, MemgrowError
from memgrow.cli import app
from torture.children import WRITES, bounded, run
from torture.models import Kind, state

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "models"
MADE = ("BiLSTM, F+M+V", "BiLSTM, rehearsal", "BiLSTM, EWC, no versions", "replies, F+M+V", "encoder, frozen+M")
OLD = ("0.1.0-classifier", "0.1.0-responder", "text-two-versions", "format-2-encoder")
MUTATIONS = 75  # of each model
SUMS, RESULT, LARGE = ("manifest.json", "checksums.json"), "result", 1 << 40
TEXTS = ("the soup is fine", "\u00e9\u0301 \U0001f469\u200d \u202e 3,000", "a" * 500, "word " * 50)
NUMBERS = (-1, 0, 1, 7, 100_000, 1 << 31, 1 << 62, 1 << 64, 10**400, 1.5, 1e308, float("inf"), float("nan"))
WORDS = ("", "\x00", "\ud800", "../../x", "/etc/passwd", "a" * 100_000, "\u202e", "\x1b[2J")
SHAPES = ([-1], [1 << 62, 4], ["a"], [1] * 10_000, [4, 1 << 63], "F64", "BF16", "XX")
VALUES: tuple[Any, ...] = (None, True, *NUMBERS, *WORDS, *SHAPES, [], {}, [[]], {"": None}, [0] * 10_000)
SPECIAL = ("/dev/zero", "/dev/stdin", "nowhere", "..", "/etc/passwd", SUMS[0])
PICKLE = b"cos\nsystem\n(S'touch pickle-has-run'\ntR."
FORBIDDEN = {
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pickle.find_class", "socket.connect"),
    *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "shutil.rmtree"),
}


@pytest.mark.parametrize("name", [*MADE, *OLD])
def test_damaged_folders(
    name: str, kinds: dict[str, Kind], tmp_path: Path, rng: Random, count: Callable[[str, int], None]
) -> None:
    subject = GOLDEN / name if name in OLD else kinds[name].make(tmp_path / "subject", domains=2)
    whole, found, faults = state(subject, versions=False), Counter[str](), []
    os.chdir(tmp_path)
    for _ in range(MUTATIONS):
        model = shutil.copytree(subject, tmp_path / "m")
        what, refitted = damage(model, rng)
        Path(RESULT).write_text("")
        ended = run(lambda model=model: Path(RESULT).write_text(tried(model, whole)), watched)  # type: ignore[misc]
        result = Path(RESULT).read_text()
        found[result] += 1
        if ended.code or result not in ("refused", "same", "another") or (result == "another" and not refitted):
            faults.append(f"{what}{' (refitted)' * refitted}: {result} {ended.output[-1500:]}")
        shutil.rmtree(model)
    assert not faults, "\n".join(faults[:10])
    assert not Path("pickle-has-run").exists()
    count("mutations", MUTATIONS)
    count("refused with one line", found["refused"])
    count("still the same model", found["same"])
    count("another working model, with checksums that fit", found["another"])


def watched() -> None:
    """Bound what the child may use, and let it change, start and fetch nothing."""
    bounded()

    def watch(event: str, given: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(given[2], int) and given[2] & WRITES
        if event in FORBIDDEN or (writes and isinstance(given[0], str) and not given[0].endswith(("/null", RESULT))):
            sys.stderr.write(f"it did {event} {given!r:.200}\n")
            os._exit(1)

    sys.addaudithook(watch)


def tried(model: Path, whole: str) -> str:
    """Load, verify and ask a model: refused, same, another, or what is wrong."""
    error = fault = None
    try:
        same = state(model, versions=False) == whole
        fault = None if same else wrong_answers(Learner.load(model, device="cpu"))
    except MemgrowError as raised:
        error = str(raised)
    verified = CliRunner().invoke(app, ["inspect", str(model), "--verify"], prog_name="memgrow", catch_exceptions=False)
    if error is not None:
        if "\n" in error or len(error) > 700:
            return f"no line: {error[:500]!r}"
        return "refused" if verified.exit_code in (1, 2) else f"verify finds nothing, but loading says {error}"
    if not same:
        return fault or "another"
    return "refused" if verified.exit_code else "same"  # an earlier version may be damaged


def wrong_answers(learner: Learner) -> str | None:
    if learner.task == "reply":
        scores = [answer.score for answer in learner.reply(TEXTS)]
        return None if all(score <= 0 for score in scores) else f"its replies have the scores {scores}"
    found = learner.predict([(text, text) if learner.task == "pair" else text for text in TEXTS])
    right = all(abs(sum(one.probabilities.values()) - 1) < 1e-3 for one in found)  # not where one is NaN
    return None if right else f"its probabilities are {found}"


# Mutations


def damage(folder: Path, rng: Random) -> tuple[str, bool]:
    """Damage a file. Whether all checksums fit: half of the time they are put right, as far as they can be."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    sums = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in files}
    path = rng.choice(files)
    changes = {".json": (change_json, change_json), ".safetensors": (change_header,)}
    change = rng.choice((change_bytes, *changes.get(path.suffix, ()), change_file))
    what = f"{path.relative_to(folder)}, {change(path, rng)}"
    lists = [one for one in folder.rglob("*.json") if one.name in SUMS and one.is_file()]
    if path in lists or not path.is_file() or path.stat().st_size >= LARGE or rng.random() < 0.5:
        return what, path.name in SUMS
    for one in lists:
        text = one.read_text(errors="replace")
        for old, file in sums.items():
            text = text.replace(old, hashlib.sha256(file.read_bytes()).hexdigest()) if file.is_file() else text
        one.write_text(text)
    return what, True


def change_bytes(path: Path, rng: Random) -> str:
    content, length = bytearray(path.read_bytes()), rng.choice((1, 4, 100))
    start, kind = (
        rng.randrange(len(content) + 1),
        rng.choice(("flip", "flip", "replace", "cut", "append", "nest", "fill")),
    )
    if kind == "flip":
        content[start % len(content)] ^= 1 << rng.randrange(8)
    elif kind == "replace":
        content[start : start + length] = rng.choice((bytes(length), rng.randbytes(length), b"", b"["))
    elif kind == "cut":
        del content[rng.choice((0, 1, 8, start, len(content) - 1)) :]
    elif kind == "append":
        content += rng.choice((b"\x00", b"}", b"{}", bytes(content)))
    else:
        content = bytearray(b"[" * 100_000 if kind == "nest" else b"[" + b"[]," * (1 << 20) + b"0]")
    path.write_bytes(content)
    return f"{kind} at {start}"


def change_file(path: Path, rng: Random) -> str:
    other, kind = (
        rng.choice(list(path.parent.iterdir())),
        rng.choice(("none", "swap", "pickle", "pipe", "large", *SPECIAL)),
    )
    if kind == "swap" and other.is_file() and other != path:
        content = path.read_bytes()
        shutil.copyfile(other, path)
        other.write_bytes(content)
    elif kind == "pickle":
        path.write_bytes(PICKLE)
    elif kind == "large":
        os.truncate(path, LARGE)
    else:
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        elif kind in SPECIAL:
            path.symlink_to(kind)
    return f"{kind} {other.name}"


def change_json(path: Path, rng: Random) -> str:
    value = within = json.loads(path.read_bytes())
    while isinstance(within, dict | list) and within:
        key = rng.choice(list(within) if isinstance(within, dict) else range(len(within)))
        if not isinstance(within[key], dict | list) or rng.random() < 0.3:
            break
        within = within[key]
    if not within:
        return change_bytes(path, rng)
    old = within[key]
    near: list[Any] = [old + 1, -old, str(old)] if isinstance(old, int | float) else []
    near += [old + "x", old.upper()] if isinstance(old, str) else [old[:-1], old * 2] if isinstance(old, list) else []
    within[key] = new = rng.choice(near) if near and rng.random() < 0.5 else rng.choice(VALUES)
    if rng.random() < 0.15:
        del within[key]
    elif isinstance(within, dict) and rng.random() < 0.2:
        within[rng.choice(WORDS)] = new
    path.write_text(json.dumps(value))
    return f"{key} was {old!r:.30}, is {new!r:.30}"


def change_header(path: Path, rng: Random) -> str:
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    tensor = rng.choice(sorted(header.keys() - {"__metadata__"}))
    field, new = rng.choice(("shape", "dtype", "data_offsets", "name")), rng.choice(VALUES)
    if field == "name":
        header[rng.choice((f"{tensor}x", "", "\x00", "a" * 10_000))] = header.pop(tensor)
    else:
        header[tensor][field] = new
    written = json.dumps(header).encode()
    size = rng.choice((len(written), len(written), 1 << 40))
    path.write_bytes(struct.pack("<Q", size) + written + content[8 + length :])
    return f"{field} of {tensor} is {new!r:.30}"
