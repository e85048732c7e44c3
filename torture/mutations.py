"""Ways to damage a model's folder, drawn at random: each changes a copy, and says what it did and to which file.

A mutation that is `refit` has right checksums in the manifest, so that what lies behind the checksums is tried.
"""

import hashlib
import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
TENSORS = ".safetensors"
HUGE = (1 << 31, 1 << 40, 1 << 62, 1 << 63, 1 << 64, 10**30, 10**400, 10**4000)
NUMBERS = (-1, 0, 1, 2, 3, 7, 1000, 100_000, -(1 << 63), *HUGE, 1.5, 1e308, -0.0, float("inf"), float("nan"))
WORDS = ("", " ", "\x00", "\ud800", "../../x", "/etc/passwd", "a" * 100_000, "\u202e", "[red]", "\x1b[2J", "null")
VALUES: tuple[Any, ...] = (None, True, False, *NUMBERS, *WORDS, [], {}, [[]], [None], {"": None}, [0] * 10_000)
DEPTH = 100_000
OF_MANIFESTS = ("forgotten", "unnamed", "hostile_name", "other_folder", "manifest_of_strange_values")
LARGE = 24 << 20  # bytes of a JSON file that is there to fill the memory


@dataclass(frozen=True)
class Damage:
    """What was done to a folder: the file that should be named, unless it is the folder as a whole."""

    what: str
    file: str | None
    refit: bool = False


Mutation = Callable[[Path, random.Random], Damage]
MUTATIONS: dict[str, tuple[Mutation, int]] = {}  # with how often each is drawn


def mutation(weight: int) -> Callable[[Mutation], Mutation]:
    def add(function: Mutation) -> Mutation:
        MUTATIONS[function.__name__] = (function, weight)
        return function

    return add


def mutate(folder: Path, rng: random.Random) -> Damage:
    """Damage a folder in one of the ways; of those that can be, half have their checksums put right."""
    has_manifest = (folder / MANIFEST).is_file()
    possible = [one for name, one in MUTATIONS.items() if has_manifest or name not in OF_MANIFESTS]
    ((chosen, _),) = rng.choices(possible, [weight for _, weight in possible])
    return chosen(folder, rng)


def refit(folder: Path) -> None:
    """Put the checksums of a manifest right for the files that there are now."""
    path = folder / MANIFEST
    if not path.is_file():  # of an encoder that is not a model of ours
        return
    told = json.loads(path.read_bytes())
    for name in told["sha256"]:
        if (folder / name).is_file():
            told["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(told, indent=1))


def listed(folder: Path, within: bool = False) -> list[str]:
    """The names of a folder's files; also those of the earlier versions `within` it."""
    return sorted(
        path.relative_to(folder).as_posix()
        for path in (folder.rglob("*") if within else folder.iterdir())
        if not path.is_dir()
    )


def _any(folder: Path, rng: random.Random, suffix: str = "", manifest: bool = True) -> str:
    names = [name for name in listed(folder, manifest) if name.endswith(suffix) and (manifest or name != MANIFEST)]
    return rng.choice(names)


def _maybe_refit(folder: Path, rng: random.Random, damage: Damage) -> Damage:
    if damage.file is None or damage.file == MANIFEST or "/" in damage.file or rng.random() < 0.4:
        return damage
    refit(folder)
    return replace(damage, refit=True)


# Bytes


@mutation(20)
def flipped(folder: Path, rng: random.Random) -> Damage:
    name = _any(folder, rng)
    content = bytearray((folder / name).read_bytes())
    places = sorted(rng.sample(range(len(content)), min(len(content), rng.choice((1, 1, 1, 2, 8, 64)))))
    for place in places:
        content[place] ^= 1 << rng.randrange(8)
    (folder / name).write_bytes(content)
    return _maybe_refit(folder, rng, Damage(f"bits flipped in {name} at {places[:5]}", name))


@mutation(8)
def replaced_bytes(folder: Path, rng: random.Random) -> Damage:
    name = _any(folder, rng)
    content = bytearray((folder / name).read_bytes())
    start, length = rng.randrange(len(content)), rng.choice((1, 4, 16, 100))
    new = rng.choice((b"\x00" * length, b"\xff" * length, rng.randbytes(length), b"", b'"', b"}", b"[" * length))
    content[start : start + length] = new
    (folder / name).write_bytes(content)
    return _maybe_refit(folder, rng, Damage(f"{length} bytes of {name} at {start} became {new[:8]!r}", name))


@mutation(8)
def truncated(folder: Path, rng: random.Random) -> Damage:
    name = _any(folder, rng)
    size = (folder / name).stat().st_size
    keep = rng.choice((0, 1, 7, 8, 9, size // 2, size - 1, rng.randrange(size)))
    os.truncate(folder / name, min(keep, size - 1))
    return _maybe_refit(folder, rng, Damage(f"{name} cut to {keep} of {size}", name))


@mutation(4)
def lengthened(folder: Path, rng: random.Random) -> Damage:
    name = _any(folder, rng)
    more = rng.choice((b"\x00", b"}", b"{}", rng.randbytes(100), (folder / name).read_bytes()))
    with (folder / name).open("ab") as file:
        file.write(more)
    return _maybe_refit(folder, rng, Damage(f"{len(more)} bytes after {name}", name))


@mutation(1)
def sparse(folder: Path, rng: random.Random) -> Damage:
    name = _any(folder, rng)
    os.truncate(folder / name, rng.choice((1 << 30, 1 << 33, 1 << 40)))
    return Damage(f"{name} is huge and holds nothing", name)


# Files


@mutation(4)
def missing(folder: Path, rng: random.Random) -> Damage:
    name = _any(folder, rng)
    (folder / name).unlink()
    return Damage(f"{name} is missing", name)


@mutation(4)
def forgotten(folder: Path, rng: random.Random) -> Damage:
    """A file that neither is there nor is named."""
    name = _any(folder, rng, manifest=False)
    (folder / name).unlink()
    told = json.loads((folder / MANIFEST).read_bytes())
    del told["sha256"][name]
    (folder / MANIFEST).write_text(json.dumps(told))
    return Damage(f"{name} is neither there nor in the manifest", None)


@mutation(4)
def unnamed(folder: Path, rng: random.Random) -> Damage:
    name = _any(folder, rng, manifest=False)
    told = json.loads((folder / MANIFEST).read_bytes())
    del told["sha256"][name]
    (folder / MANIFEST).write_text(json.dumps(told))
    return Damage(f"{name} is not in the manifest", None)


@mutation(6)
def swapped(folder: Path, rng: random.Random) -> Damage:
    one, other = rng.sample(listed(folder), 2)
    content = (folder / one).read_bytes(), (folder / other).read_bytes()
    (folder / other).write_bytes(content[0])
    (folder / one).write_bytes(content[1])
    name = MANIFEST if MANIFEST in (one, other) else rng.choice((one, other))
    return _maybe_refit(folder, rng, Damage(f"{one} and {other} swapped", name))


@mutation(2)
def copied_over(folder: Path, rng: random.Random) -> Damage:
    one, other = rng.sample(listed(folder), 2)
    shutil.copyfile(folder / one, folder / other)
    return _maybe_refit(folder, rng, Damage(f"{one} in the place of {other}", other))


@mutation(4)
def not_a_file(folder: Path, rng: random.Random) -> Damage:
    name = _any(folder, rng)
    (folder / name).unlink()
    kind = rng.choice(("folder", "pipe", "/dev/zero", "/dev/stdin", "itself", "nowhere", "..", "/etc/passwd", "beside"))
    if kind == "folder":
        (folder / name).mkdir()
    elif kind == "pipe":
        os.mkfifo(folder / name)
    else:
        beside = next(one for one in listed(folder) if one != name)
        where = {"itself": Path(name).name, "nowhere": "nothing-here", "beside": beside}.get(kind, kind)
        (folder / name).symlink_to(where)
    return Damage(f"{name} is {kind}", name)


@mutation(2)
def pickled(folder: Path, rng: random.Random) -> Damage:
    """A pickle that would run a command, under the name of a file."""
    name = _any(folder, rng)
    (folder / name).write_bytes(b"cos\nsystem\n(S'touch pickle-has-run'\ntR.")
    return _maybe_refit(folder, rng, Damage(f"{name} is a pickle", name))


# The manifest


@mutation(8)
def hostile_name(folder: Path, rng: random.Random) -> Damage:
    told = json.loads((folder / MANIFEST).read_bytes())
    name = rng.choice(("/etc/passwd", "../x", "..", ".", "", "a/b", "x\x00y", "\ud800", "a" * 5000, "\\x", "c:x", "~"))
    told["sha256"][name] = hashlib.sha256(b"").hexdigest()
    (folder / MANIFEST).write_text(json.dumps(told))
    return Damage(f"the manifest names {name[:20]!r}", None)


@mutation(3)
def other_folder(folder: Path, rng: random.Random) -> Damage:
    told = json.loads((folder / MANIFEST).read_bytes())
    told["folder"] = rng.choice(("..", "/", "/etc", "version-00000000", "version-0000000g", "", 5, None, "./."))
    (folder / MANIFEST).write_text(json.dumps(told))
    return Damage(f"the manifest says that files are in {told['folder']!r}", None)


@mutation(4)
def manifest_of_strange_values(folder: Path, rng: random.Random) -> Damage:
    told = json.loads((folder / MANIFEST).read_bytes())
    value = rng.choice(VALUES)
    if rng.random() < 0.5:
        told[rng.choice(("format", "sha256"))] = value
    else:
        told["sha256"][rng.choice(sorted(told["sha256"]))] = value
    (folder / MANIFEST).write_text(json.dumps(told))
    return Damage(f"the manifest holds {str(value)[:20]!r}", None)


# JSON


def _json_files(folder: Path) -> list[str]:
    return [name for name in listed(folder) if name.endswith(".json")]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all parts of a value of JSON; of a long list to some."""
    found = [path] if path else []
    if isinstance(value, dict):
        parts = list(value.items())
    else:
        parts = list(enumerate(value[:20])) if isinstance(value, list) else []
    for key, part in parts:
        found += _places(part, (*path, key))
    return found


def _within(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


@mutation(40)
def strange_value(folder: Path, rng: random.Random) -> Damage:
    """One value of a JSON file becomes another one, or goes."""
    name = rng.choice([one for one in _json_files(folder) if one != MANIFEST])
    told = json.loads((folder / name).read_bytes())
    *way, key = place = rng.choice(_places(told))
    within = _within(told, tuple(way))
    old, new = within[key], None
    if rng.random() < 0.15:
        del within[key]
        done = "is gone"
    else:
        near: list[Any] = [old + 1, old - 1, old * 2, -old, str(old)] if isinstance(old, int | float) else []
        near += [old + "x", old[:-1], old.upper()] if isinstance(old, str) else []
        near += [old * 2, old[:-1], old[::-1]] if isinstance(old, list) else []
        new = rng.choice(near) if near and rng.random() < 0.5 else rng.choice(VALUES)
        within[key] = new
        done = f"became {str(new)[:20]!r}"
    (folder / name).write_text(json.dumps(told))
    refit(folder)
    return Damage(f"{name}: {place} {done}", name, refit=True)


@mutation(4)
def added_value(folder: Path, rng: random.Random) -> Damage:
    name = rng.choice([one for one in _json_files(folder) if one != MANIFEST])
    told = json.loads((folder / name).read_bytes())
    ways = [way for way in [(), *_places(told)] if isinstance(_within(told, way), dict)]
    if not ways:
        return flipped(folder, rng)
    within = _within(told, rng.choice(ways))
    key, value = rng.choice((*WORDS, "auto_map", "slots", "layers", "__class__")), rng.choice(VALUES)
    within[key] = value
    (folder / name).write_text(json.dumps(told))
    refit(folder)
    return Damage(f"{name} has {key[:20]!r}: {str(value)[:20]!r}", name, refit=True)


@mutation(6)
def twice(folder: Path, rng: random.Random) -> Damage:
    """A key that stands twice in an object, with two values."""
    name = rng.choice(_json_files(folder))
    told = json.loads((folder / name).read_bytes())
    if not isinstance(told, dict):
        return flipped(folder, rng)
    key, value = rng.choice(sorted(told)), rng.choice((*VALUES[:8], [], {}))
    pairs = [f"{json.dumps(one)}: {json.dumps(part)}" for one, part in told.items()]
    pairs.insert(rng.choice((0, len(pairs))), f"{json.dumps(key)}: {json.dumps(value)}")
    (folder / name).write_text("{" + ", ".join(pairs) + "}")
    if name != MANIFEST:
        refit(folder)
    return Damage(f"{name} has {key!r} twice", name, refit=name != MANIFEST)


@mutation(3)
def nested(folder: Path, rng: random.Random) -> Damage:
    name = rng.choice(_json_files(folder))
    depth = rng.choice((100, 900, 5_000, DEPTH))
    deep = rng.choice(("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth))
    told = json.loads((folder / name).read_bytes())
    if isinstance(told, dict) and rng.random() < 0.7:
        deepest = rng.choice(sorted(told))
        parts = {key: deep if key == deepest else json.dumps(part) for key, part in told.items()}
        deep = "{" + ", ".join(f"{json.dumps(key)}: {part}" for key, part in parts.items()) + "}"
    (folder / name).write_text(deep)
    if name != MANIFEST:
        refit(folder)
    return Damage(f"{name} is {depth} deep", name, refit=name != MANIFEST)


@mutation(1)
def bulky(folder: Path, rng: random.Random) -> Damage:
    """A JSON file that is larger in memory than on the disk."""
    name = rng.choice(_json_files(folder))
    piece = rng.choice((b"[],", b"{},", b'"",', b"0,", b"1e9,"))
    with (folder / name).open("wb") as file:
        file.write(b"[" + piece * (LARGE // len(piece)) + b"0]")
    if name != MANIFEST:
        refit(folder)
    return Damage(f"{name} is {LARGE >> 20} MB of {piece!r}", name, refit=name != MANIFEST)


# Tensors


@mutation(24)
def strange_header(folder: Path, rng: random.Random) -> Damage:
    """One value in the header of a file of tensors becomes another one."""
    name = _any(folder, rng, TENSORS)
    content = (folder / name).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    tensor = rng.choice(sorted(header.keys() - {"__metadata__"}))
    one = header[tensor]
    what = rng.choice(("shape", "dtype", "offsets", "name", "gone", "value", "key"))
    if what == "shape":
        one["shape"] = rng.choice(
            ([], [0], [-1], [1 << 62, 4], [1 << 63], [10**30], ["a"], [1.5], None, [1] * 10_000, [*one["shape"], 1])
        )
    elif what == "dtype":
        one["dtype"] = rng.choice(("F64", "F16", "BF16", "I32", "U32", "I64", "BOOL", "F8_E4M3", "XX", 5, None))
    elif what == "offsets":
        start, end = one["data_offsets"]
        one["data_offsets"] = rng.choice(
            ([end, start], [0, 0], [start, end + 4], [start + 4, end], [-1, end], [start, 1 << 63], [start], None, "ab")
        )
    elif what == "name":
        header[rng.choice((f"{tensor}x", "", "\x00", "a" * 10_000, tensor.upper()))] = header.pop(tensor)
    elif what == "gone":
        del header[tensor]
    elif what == "value":
        one[rng.choice(sorted(one))] = rng.choice(VALUES)
    else:
        header[rng.choice(("more", "__metadata__"))] = rng.choice(VALUES)
    packed = json.dumps(header).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(packed)) + packed + data)
    return _maybe_refit(folder, rng, Damage(f"{what} of {tensor} in the header of {name}", name))


@mutation(4)
def strange_length(folder: Path, rng: random.Random) -> Damage:
    name = _any(folder, rng, TENSORS)
    content = bytearray((folder / name).read_bytes())
    length = rng.choice((0, 1, 100, len(content), 1 << 31, 1 << 62, (1 << 64) - 1, 99_999_999))
    content[:8] = struct.pack("<Q", length)
    (folder / name).write_bytes(content)
    return _maybe_refit(folder, rng, Damage(f"the header of {name} has {length} bytes", name))


@mutation(4)
def no_number(folder: Path, rng: random.Random) -> Damage:
    """Some weights are no finite numbers."""
    name = _any(folder, rng, TENSORS)
    content = bytearray((folder / name).read_bytes())
    (length,) = struct.unpack("<Q", content[:8])
    place = rng.randrange((len(content) - 8 - length) // 4) * 4 + 8 + length
    content[place : place + 4] = struct.pack("<f", rng.choice((float("nan"), float("inf"), float("-inf"))))
    (folder / name).write_bytes(content)
    return _maybe_refit(folder, rng, Damage(f"a number of {name} is not finite", name))
