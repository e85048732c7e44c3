"""A file against the size and the SHA-256 that it must have."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memgrow.errors import DataError

CHUNK = 1 << 18

Watch = Callable[[str, int, int | None], None]  # what is being done, how many bytes are done, of how many if known


def unseen(doing: str, done: int, total: int | None) -> None:
    """Watches nothing."""


@dataclass(frozen=True, slots=True)
class Seal:
    """What tells one archive from every other."""

    size: int | None  # bytes; None where nobody has published it, and the SHA-256 must do
    sha256: str

    def check(self, path: Path, where: str, watch: Watch = unseen) -> None:
        """Raise an error unless the file is the one meant; `where` says in the message where it came from."""
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            raise DataError(
                f"{where} is not the archive that memgrow knows: it has {size:,} bytes and not {self.size:,}; "
                "fetch it again, or have another copy"
            )
        digest = hashlib.sha256()
        with path.open("rb") as file:
            done = 0
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                done += len(chunk)
                watch("checking", done, size)
        if digest.hexdigest() != self.sha256:
            raise DataError(
                f"{where} is not the archive that memgrow knows: its SHA-256 is {digest.hexdigest()[:12]}... and not "
                f"{self.sha256[:12]}...; fetch it again, or have another copy"
            )
