"""Versions of a model: saving one, listing those that its folder keeps, and going back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from memgrow.errors import ModelError, SettingsError
from memgrow.evaluation.history import History, Stage
from memgrow.nn import distributed
from memgrow.storage.checkpoint import CONFIG, DAMAGED, find_version, read_history, read_stages, write_files
from memgrow.storage.folder import PATIENCE_S, ModelFolder, VersionFolder, hold, read_settled
from memgrow.training.progress import ResumeFolder
from memgrow.training.settings import LearnerConfig, LearnerState

KEEP_VERSIONS = 3  # earlier versions that a folder keeps by default
MAX_VERSIONS = 100


@dataclass(frozen=True)
class SavedVersion:
    number: int | None  # of stages; None: it is damaged
    history: History | None  # None: it is damaged
    size: int  # bytes of its files
    own: int  # of these, what no later version in the folder shares
    digest: str | None = None  # identifies its content


@dataclass(frozen=True)
class Undone:
    """What was taken back, and what holds now."""

    taken_back: tuple[Stage, ...]  # empty if the model was damaged
    task: str
    history: History
    further: tuple[int, ...]  # stages of the versions that one can still go back to, the latest first
    digest: str  # identifies the content of the version that holds now


def write_checkpoint(
    path: str | Path,
    config: LearnerConfig,
    state: LearnerState,
    earlier: Path | None = None,
    overwrite: bool = False,
    keep_versions: int | None = None,
) -> None:
    """Save a model as the current version of a folder. Readers see the previous version or this one.

    `earlier` is another folder with an earlier version, whose unchanged files are shared. A model that has learned
    other domains is replaced only with `overwrite`. `keep_versions` is remembered for later saves. Of several processes
    that train together the first one writes.
    """
    if not distributed.is_first():
        return
    check_keep_versions(keep_versions)
    fingerprints = [stage.fingerprint for stage in state.history.stages]
    with hold(path, PATIENCE_S):
        if not overwrite:
            check_extends(path, fingerprints)
        folder = ModelFolder.to_write(path)
        keep = folder.keep if keep_versions is None else keep_versions
        kept = [one for one in folder.versions if _is_earlier(one, fingerprints)]
        kept = kept[: KEEP_VERSIONS if keep is None else keep]
        with folder.new_version(kept, keep) as place:
            write_files(place, config, state, list(_places(folder, earlier)))


def _is_earlier(version: VersionFolder, fingerprints: Sequence[str]) -> bool:
    """Whether a version can be gone back to from a model that has learned this data."""
    order = [fingerprint for fingerprint, _ in read_stages(version)]
    return 0 < len(order) < len(fingerprints) and order == list(fingerprints[: len(order)])


def _places(folder: ModelFolder, other: Path | None) -> Iterator[Path]:
    """Where the newest versions lie whose files may be shared."""
    if folder.versions:
        yield folder.versions[0].path
    if other is not None:
        try:
            yield ModelFolder.read(other).versions[0].path
        except ModelError:  # it is gone
            return


def check_keep_versions(number: int | None) -> None:
    """Refuse a number of earlier versions that cannot be kept."""
    if number is not None and not 0 <= number <= MAX_VERSIONS:
        raise SettingsError(f"{number} earlier versions cannot be kept: give a number from 0 to {MAX_VERSIONS}")


def note_keep_versions(path: str | Path, number: int) -> None:
    """Set how many earlier versions a folder keeps, and remove those beyond."""
    check_keep_versions(number)
    with hold(path, PATIENCE_S):
        folder = ModelFolder.to_write(path)
        if number != folder.keep:
            folder.publish(folder.versions[: number + 1], number)


def check_extends(path: str | Path, fingerprints: Sequence[str]) -> None:
    """Refuse to replace a model that has learned anything but the first of this data, in this order."""
    try:
        stages = read_settled(path, lambda folder: read_stages(folder.versions[0]))
    except ModelError:  # no model, or one that cannot be read
        return
    if [fingerprint for fingerprint, _ in stages] != list(fingerprints[: len(stages)]):
        learned = ", ".join(dict.fromkeys(domains for _, domains in stages))
        raise ModelError(
            f"{path} holds a model that has learned {learned}, and this is no later version of it: "
            "load that one and go on from it, choose another place, or give overwrite=True to lose it"
        )


def list_versions(folder: str | Path) -> list[SavedVersion]:
    """The current version of a model and the earlier ones that its folder keeps, the newest first."""
    return read_settled(folder, _list_versions)


def _list_versions(folder: ModelFolder) -> list[SavedVersion]:
    found, seen = [], set[tuple[int, int]]()
    for version in folder.versions:
        try:
            history, sizes, digest = read_history(version), version.sizes(), version.digest
        except (*DAMAGED, OSError):
            if folder.raw != ModelFolder.read(folder.path).raw:
                raise  # removed meanwhile: listed again
            found.append(SavedVersion(None, None, 0, 0))
            continue
        own = sum(size for key, size in sizes.items() if key not in seen)
        seen |= sizes.keys()
        found.append(SavedVersion(len(history.stages), history, sum(sizes.values()), own, digest))
    return found


def newest_history(path: str | Path, versions: Sequence[SavedVersion]) -> History:
    """The history of the current version of these; a ModelError if it is damaged."""
    if versions[0].history is None:
        raise ModelError(f"{path} is damaged: `memgrow inspect --verify` says what is wrong, `memgrow undo` goes back")
    return versions[0].history


def undo(folder: str | Path, to: int | None = None) -> Undone:
    """Take a model back to before its last stage, or to after stage `to`. Later versions are removed.

    A model whose current version is damaged can be taken back, too.
    """
    ModelFolder.read(folder)
    with hold(folder):
        found = ModelFolder.to_write(folder)
        current, *earlier = found.versions
        newest = len(read_stages(current))
        if not earlier:
            raise ModelError(f"{folder} keeps no earlier version to go back to: see --keep-versions of `memgrow adapt`")
        if to is not None and to == newest:
            raise ModelError(f"{folder} is at stage {to} already: there is nothing to undo")
        target = earlier[0] if to is None else find_version(found, to)
        resume = ResumeFolder(folder, newest, {}, 0)
        resume.clear_ended()
        if resume.is_unfinished:
            raise ModelError(f"{folder} has an unfinished adaptation: run it again, or remove {resume.folder}")
        target.check()
        history, before = read_history(target), _list_versions(found)[0].history
        rest = earlier[earlier.index(target) + 1 :]
        found.publish([target, *rest], found.keep)
        return Undone(
            tuple(before.stages[len(history.stages) :]) if before else (),
            target.json(CONFIG)["task"],
            history,
            tuple(number for one in rest if (number := len(read_stages(one)))),
            target.digest,
        )
