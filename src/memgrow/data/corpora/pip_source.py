"""The source archive or the wheel of a package, as a file, from whatever index the user has set pip to.

Nothing of it is built, installed or run.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path

from memgrow.data.corpora.download import Checksum, Watch, no_progress
from memgrow.errors import DataError

NO_BUILD = Path(__file__).with_name("no_build")
LOOK_EVERY_S = 0.2  # at how much pip has fetched


class UnreachableError(DataError):
    """There is no way to the package index: another package would not be had either."""


@dataclass(frozen=True)
class Kind:
    """What pip is asked for: its name, the options that ask for it and for nothing else, and variables for pip."""

    name: str
    options: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()  # folders to put before all others that Python searches


# As an option --use-pep517 is gone from newer pips, and as a variable these pay no heed to it.
SOURCE = Kind(
    "source archive", ("--no-binary", ":all:", "--no-build-isolation"), {"PIP_USE_PEP517": "1"}, (str(NO_BUILD),)
)
WHEEL = Kind("wheel", ("--only-binary", ":all:"))

# What pip says, and what it means to a user; the first that fits is taken.
SIGNS = (
    (
        DataError,
        "DO NOT MATCH THE HASHES",
        "what the package index has as {package} is not the archive that memgrow knows (its SHA-256 differs), and "
        "nothing of it was used; try again, or set another index for pip",
    ),
    (
        UnreachableError,
        "Retrying (",
        "pip cannot reach the package index for {package}; check the network and pip's settings (pip config list), "
        "or give a copy of the {kind} with --from FILE",
    ),
    (
        DataError,
        "No matching distribution",
        "the package index that pip is set to has no {kind} of {package}, or did not answer; set another index "
        "for pip, or give a copy of the {kind} with --from FILE",
    ),
)


def fetch_source(name: str, version: str, folder: Path, checksum: Checksum, watch: Watch = no_progress) -> Path:
    """Fetch the archive into the folder and return its path. pip checks its SHA-256 first, and runs no code of it."""
    wanted = f"{name}=={version} --hash=sha256:{checksum.sha256}"
    archive = _fetch(SOURCE, f"{name} {version}", wanted, folder, checksum.size, watch)
    try:
        checksum.check(archive, archive.name, watch)
    except DataError:
        archive.unlink()
        raise
    return archive


def fetch_wheel(name: str, version: str, folder: Path, size: int | None = None, watch: Watch = no_progress) -> Path:
    """Fetch the wheel of about `size` bytes into the folder; whoever unpacks it checks what is inside."""
    return _fetch(WHEEL, f"{name} {version}", f"{name}=={version}", folder, size, watch)


def _fetch(kind: Kind, package: str, wanted: str, folder: Path, size: int | None, watch: Watch) -> Path:
    # Not importlib.util.find_spec: when somebody looks for pip with it, setuptools takes its distutils back for good,
    # and torch.compile then fails in this process.
    if PathFinder.find_spec("pip") is None:
        raise DataError(
            f"{package} is fetched with pip, which this Python does not have; run `python -m ensurepip`, "
            f"or give a copy of the {kind.name} with --from FILE"
        )
    with tempfile.TemporaryDirectory(dir=folder, prefix=".pip-") as place:
        requirements, working, fetched = (Path(place, part) for part in ("requirements.txt", "working", "fetched"))
        requirements.write_text(f"{wanted}\n", encoding="utf-8")
        working.mkdir()
        hashes = ("--require-hashes",) if "--hash" in wanted else ()
        words = ("download", *hashes, "--no-deps", "--requirement", str(requirements), "--dest", str(fetched))
        pip = _start_pip(kind, words, working)
        said = None
        try:
            while said is None:
                watch(f"pip fetches {package}", _largest(working, size), size)
                with suppress(subprocess.TimeoutExpired):
                    said, _ = pip.communicate(timeout=LOOK_EVERY_S)
        finally:
            if pip.poll() is None:
                pip.kill()
                pip.wait()
        if pip.returncode != 0:
            raise _error(said, package, kind)
        (archive,) = fetched.iterdir()
        return archive.replace(folder / archive.name)


def _start_pip(kind: Kind, words: tuple[str, ...], working: Path) -> subprocess.Popen[str]:
    paths = os.pathsep.join(filter(None, [*kind.path, os.environ.get("PYTHONPATH")]))
    variables = {**os.environ, **kind.variables, "PYTHONPATH": paths, "TMPDIR": str(working)}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "pip", *words, *kind.options, "--disable-pip-version-check"],
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )


def _largest(folder: Path, most: int | None) -> int:
    """The size of the largest file, which is the one being fetched: pip's cache may keep a second copy beside it."""
    largest = 0
    for inside, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # it has been moved away
                largest = max(largest, Path(inside, name).stat().st_size)
    return largest if most is None else min(largest, most)


def _error(said: str, package: str, kind: Kind) -> DataError:
    for error, sign, meaning in SIGNS:
        if sign in said:
            return error(meaning.format(package=package, kind=kind.name))
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    last = (errors or lines or ["it said nothing"])[-1]
    return DataError(
        f"pip could not fetch {package} ({last}); put that right, or give a copy of the {kind.name} with --from FILE"
    )
