"""Formats 1 and 2 of a model's folder: files beside the manifest, or in version-* folders. The next save converts them.

{"format": 2, "sha256": {...}, "folder": "version-1a2b3c4d", "keep": 1, "earlier": {"2": {"format": 2, ...}}}
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memgrow.data.disk import link_or_copy
from memgrow.storage.folder import OLD_VERSION, VersionFolder, checked_sums, seal


def parse_manifest(path: Path, value: Any) -> tuple[tuple[VersionFolder, ...], int | None]:
    """The versions of an older folder, the current one first, and how many earlier ones to keep."""
    earlier = sorted(((int(number), one) for number, one in value.get("earlier", {}).items()), reverse=True)
    versions = []
    for one in (value, *(one for _, one in earlier)):
        within = one.get("folder", ".")
        if within != "." and not OLD_VERSION.fullmatch(within):
            raise ValueError("it leads out of the folder")
        versions.append(VersionFolder(path / within, checked_sums(path / "manifest.json", one)))
    keep = value.get("keep")
    return tuple(versions), None if keep is None else int(keep)


def convert(versions: Sequence[VersionFolder], place: Path) -> list[VersionFolder]:
    """Write older versions as 0001, 0002, ... of format 3, by hard links."""
    converted = []
    for number, old in enumerate(reversed(versions), 1):
        new = place / f"{number:04}"
        new.mkdir(parents=True)
        for name in old.sha256:
            if (old.path / name).is_file():  # if not, it is damaged, and stays so
                link_or_copy(old.path / name, new / name)
        seal(new, old.sha256)
        converted.append(VersionFolder(new))
    return converted[::-1]
