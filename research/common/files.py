"""Files of figures and sentences about them."""

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any


def atomic_write(path: Path, content: str | bytes) -> Path:
    """Write a file whole or not at all, in place of an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        Path(name).chmod(0o644)
        return Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def pack_json(value: Any) -> str:
    """JSON that a person can read."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def finite(value: Any) -> Any:
    """The same with None for numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def counted(count: int, what: str) -> str:
    """3 seeds, 1 seed."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def say(sentence: str) -> None:
    """Print a line at once, also into a file."""
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()
