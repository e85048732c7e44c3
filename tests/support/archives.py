"""Small archives in the layout of the real ones, and a web server that can be as unreliable as real ones."""

import hashlib
import io
import os
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest.mock import patch

import pytest

from memgrow.data.corpora.download import Checksum
from memgrow.data.corpora.pip_source import UnreachableError
from memgrow.data.corpora.sentiment import INNER as RATINGS_ARCHIVE
from memgrow.data.corpora.sentiment import RATINGS
from memgrow.errors import DataError
from memgrow.models.pretrained.catalogue import KNOWN, KnownEncoder, Wheel
from memgrow.models.pretrained.fetch import get
from tests.support.multinli_layout import write_multinli

INNER, MISMATCHED = "multinli_1.0", "multinli_1.0_dev_mismatched.jsonl"


def checksum_of(content: bytes) -> Checksum:
    return Checksum(len(content), hashlib.sha256(content).hexdigest())


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
        if not all(f"has no wheel of {one}" in str(error) for one in KNOWN[encoder].wheels):
            raise  # of a package that is there, and is not what it should be
        pytest.skip(f"did not run: {error}")


def known_encoder(contents: Mapping[str, bytes], *wheels: Wheel) -> KnownEncoder:
    """A row of the table of encoders, called tiny, for these files out of any of these wheels."""
    sums = {name: checksum_of(content) for name, content in contents.items()}
    return KnownEncoder(
        name="tiny",
        what="a tiny BERT",
        licence="MIT",
        seen="no text at all",
        origin="made in a test",
        wheels=wheels,
        files={name: (checksum.size, checksum.sha256) for name, checksum in sums.items()},
    )


@dataclass
class Web:
    """A server for tests: what it serves, how it fails, and what it was asked."""

    content: bytes
    ranges: bool = True  # answers a wish for the rest of a file
    shift: int = 0  # by how many bytes the rest it sends is not what was asked for
    announces: bool = True  # says how long an answer is
    status: int | None = None  # answers nothing but this
    breaks: list[int] = field(default_factory=list)  # after how many bytes each answer in turn ends too early
    asked: list[str | None] = field(default_factory=list)  # the Range of each request
    url: str = ""


class Server(ThreadingHTTPServer):
    """Has nothing to say of a client that has heard enough."""

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(web: Web) -> Iterator[Web]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wish = self.headers.get("Range")
            web.asked.append(wish)
            if web.status is not None:
                self.send_error(web.status)
                return
            start = int(wish.removeprefix("bytes=").rstrip("-")) if wish and web.ranges else None
            first = (start or 0) + (web.shift if start else 0)
            body = web.content[first:]
            sent = web.breaks.pop(0) if web.breaks else len(body)  # before the client hears anything and asks again
            self.send_response(200 if start is None else 206)
            if start is not None:
                self.send_header("Content-Range", f"bytes {first}-{len(web.content) - 1}/{len(web.content)}")
            if web.announces:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:sent])

        def log_message(self, *args: object) -> None:
            pass

    direct = patch.dict(os.environ, {"no_proxy": "*"})  # whatever way to the web the machine is set to
    with direct, Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        web.url = f"http://127.0.0.1:{server.server_port}/archive.zip"
        try:
            yield web
        finally:
            server.shutdown()
            thread.join()
