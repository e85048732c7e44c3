"""The files of a saved model, and models whose files were changed with their checksums."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memgrow.storage.folder import CHECKSUMS, ModelFolder


def stored(model: Path) -> Path:
    """The folder with the files of a model's current version."""
    return ModelFolder.read(model).versions[0].path


def read_stored(model: Path, name: str) -> Any:
    return json.loads((stored(model) / name).read_text(encoding="utf-8"))


def change(model: Path, name: str, content: bytes | Mapping[str, Any] | None) -> None:
    """Change a file, or remove it, so that its checksum is right; a mapping is merged into its JSON."""
    path = stored(model) / name
    sums = json.loads((path.parent / CHECKSUMS).read_text())
    if isinstance(content, Mapping):
        content = json.dumps(read_stored(model, name) | dict(content)).encode()
    path.unlink(missing_ok=True)  # another version may share it
    sums["sha256"].pop(name, None)
    if content is not None:
        path.write_bytes(content)
        sums["sha256"][name] = hashlib.sha256(content).hexdigest()
    (path.parent / CHECKSUMS).write_text(json.dumps(sums))
