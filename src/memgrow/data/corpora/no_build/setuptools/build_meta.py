"""Stands in for setuptools where pip fetches a source archive: no line of the archive's own code is run.

Before it saves an archive, pip asks a build backend for the package's metadata, and setuptools would run the package's
setup.py to answer. This backend copies the answer that lies in every source archive, in the file PKG-INFO.
"""

import shutil
from email.parser import BytesHeaderParser
from pathlib import Path


class Unbuilt:
    """The two hooks of a build backend that pip calls for metadata, from within the unpacked archive."""

    def get_requires_for_build_wheel(self, config_settings: object = None) -> list[str]:
        return []

    def prepare_metadata_for_build_wheel(self, metadata_directory: str, config_settings: object = None) -> str:
        with Path("PKG-INFO").open("rb") as file:
            told = BytesHeaderParser().parse(file)
        folder = Path(metadata_directory, f"{told['Name'].replace('-', '_')}-{told['Version']}.dist-info")
        folder.mkdir()
        shutil.copyfile("PKG-INFO", folder / "METADATA")
        return folder.name


__legacy__ = Unbuilt()  # the backend that pip takes where an archive names none
