"""Formats 1 and 2 of a model's folder: files beside the manifest, or in version-* folders. The next save converts them.

{"format": 2, "sha256": {...}, "folder": "version-1a2b3c4d", "keep": 1, "earlier": {"2": {"format": 2, ...}}}
"""

import re
from pathlib import Path
from typing import Any

from memgrow.data.disk import link_or_copy
from memgrow.storage.folder import MANIFEST, VERSIONS, ModelFolder, VersionFolder, checked_sums, seal, writing

FOLDER = re.compile("version-[0-9a-f]{8}")


def parse_manifest(path: Path, value: Any) -> tuple[tuple[VersionFolder, ...], int | None]:
    """The versions of an older folder, the current one first, and how many earlier ones to keep."""
    earlier = sorted(((int(number), one) for number, one in value.get("earlier", {}).items()), reverse=True)
    keep = value.get("keep")
    return (
        tuple(_version(path, one) for one in (value, *(one for _, one in earlier))),
        None if keep is None else int(keep),
    )


def convert(folder: ModelFolder) -> ModelFolder:
    """Write the versions of an older folder in format 3. A kill leaves the old folder or the new one."""
    versions: list[VersionFolder] = []
    with writing(folder.path):
        for number, old in enumerate(reversed(folder.versions), 1):
            new = folder.path / VERSIONS / f"{number:04}"
            new.mkdir(parents=True)
            for name in old.sha256:
                if (old.path / name).is_file():  # if not, it is damaged, and stays so
                    link_or_copy(old.path / name, new / name)
            seal(new, old.sha256)
            versions.insert(0, VersionFolder(new))
    folder.publish(versions, folder.keep, len(versions))
    return ModelFolder.read(folder.path)


def _version(path: Path, value: Any) -> VersionFolder:
    within = value.get("folder", ".")
    if within != "." and not FOLDER.fullmatch(within):
        raise ValueError("it leads out of the folder")
    return VersionFolder(path / within, checked_sums(path / MANIFEST, value))
