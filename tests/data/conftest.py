"""Small files, made where a test needs them."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write text or bytes to a file of that name; a name that ends in .gz is compressed."""

    def write_file(name: str, content: str | bytes) -> Path:
        raw = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return path

    return write_file


@pytest.fixture
def write_rows(write: Write) -> Write:
    """Write dictionaries as JSON lines."""

    def write_file(name: str, rows: list[dict[str, Any]]) -> Path:
        return write(name, "".join(json.dumps(row) + "\n" for row in rows))

    return write_file


@pytest.fixture
def reviews(write_rows: Write) -> Write:
    """Write this many different reviews of alternating labels; what is given by name joins each row."""

    def write_file(name: str, count: int = 100, **further: str) -> Path:
        stem = name.split(".")[0]
        return write_rows(
            name,
            [{"text": f"{stem} review {i}", "label": ("good", "bad")[i % 2], **further} for i in range(count)],
        )

    return write_file
