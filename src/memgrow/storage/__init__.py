"""Models on disk. File helpers that the rest of the package uses can be imported from here."""

from memgrow.storage.files import (
    Shapes,
    atomic_folder,
    atomic_open,
    atomic_write,
    check_output,
    finite,
    flush,
    identity_of,
    open_output,
    pack_json,
    parse_json,
    stored_shapes,
)

__all__ = [
    "Shapes",
    "atomic_folder",
    "atomic_open",
    "atomic_write",
    "check_output",
    "finite",
    "flush",
    "identity_of",
    "open_output",
    "pack_json",
    "parse_json",
    "stored_shapes",
]
