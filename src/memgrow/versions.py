"""Versions of a model that its folder keeps: publishing one, which there are, and going back to one of them.

`write_checkpoint` keeps the version that it replaces, so that to publish is to save, and to roll back is to `undo`. A
version has the number of stages that it has been through, and shares with others, by hard links, the files that are
the same.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from memgrow.checkpoint import (
    CONFIG,
    FORMAT,
    HISTORY,
    NOT_UNDERSTOOD,
    checkpoint_files,
    pack,
    read_checkpoint,
    unpack_history,
)
from memgrow.errors import ModelError, SettingsError
from memgrow.folder_reader import Version, look_at_versions, read_folder
from memgrow.folder_writer import PATIENCE_S, write_folder
from memgrow.folders import put_aside
from memgrow.history import History, Stage
from memgrow.locking import hold
from memgrow.manifest import Manifest, NoVersionError, stored_at
from memgrow.models import ModelSettings
from memgrow.storage import load_json
from memgrow.training.resume import ResumeFolder
from memgrow.training.state import LearnerConfig, LearnerState
from memgrow.weight_files import BASE

KEEP_VERSIONS = 1  # that stay in the folder, where nobody has said how many
MOST_VERSIONS = 100  # the manifest, which names their files, is small


@dataclass(frozen=True)
class SavedVersion:
    """A version of a model in its folder."""

    number: int | None  # of stages; None: it is the newest, and damaged
    history: History | None  # None: it is damaged
    size: int  # bytes of its files
    own: int  # of these, what no later version in the folder has as well


@dataclass(frozen=True)
class Undone:
    """What was taken back, and what holds now."""

    taken_back: tuple[Stage, ...]  # none are known of a model that was damaged
    task: str
    history: History
    further: tuple[int, ...]  # numbers of versions that one can still go back to, the latest first


def write_checkpoint(
    path: str | Path,
    setup: LearnerConfig,
    learnt: LearnerState,
    earlier: Path | None = None,
    overwrite: bool = False,
    keep_versions: int | None = None,
) -> None:
    """Write a learner as a folder, in place of what was there; a reader never sees half of it.

    `earlier` is the folder of an earlier version: what it has of a large encoder is not stored once more, nor is what
    the folder that is replaced has. A model that has learnt other domains is replaced only to `overwrite` it.
    So many earlier versions stay in the folder as `keep_versions` says, or else as the folder's last writer said.
    """
    check_keep_versions(keep_versions)
    fingerprints = [stage.fingerprint for stage in learnt.history.stages]
    with hold(path, PATIENCE_S):
        if not overwrite:
            check_extends(path, fingerprints)
        places = dict.fromkeys(Path(place).absolute() for place in (path, earlier) if place is not None)
        files = pack(setup, learnt, [stored_at(place, BASE) for place in places])
        keep = Manifest.of(Path(path)).keep if keep_versions is None else keep_versions
        kept = _earlier_versions(Path(path), fingerprints, KEEP_VERSIONS if keep is None else keep)
        write_folder(path, files, FORMAT, earlier=kept, keep=keep)


def check_keep_versions(number: int | None) -> None:
    """Refuse a number of earlier versions that cannot be kept."""
    if number is not None and not 0 <= number <= MOST_VERSIONS:
        raise SettingsError(f"{number} earlier versions cannot be kept: give 0 to keep none, or up to {MOST_VERSIONS}")


def note_keep_versions(folder: str | Path, number: int) -> None:
    """Let a model that has nothing new to save keep so many earlier versions from now on; it stays as it is."""
    check_keep_versions(number)
    path = Path(os.path.realpath(folder))
    with hold(path, PATIENCE_S):
        manifest = Manifest.of(path)
        if number == manifest.keep:
            return
        files = read_folder(path, FORMAT, manifest.sha256.keys())
        stay = sorted(manifest.earlier, reverse=True)[:number]
        write_folder(path, files, manifest.format, earlier={one: manifest.earlier[one] for one in stay}, keep=number)


def check_extends(path: str | Path, fingerprints: Sequence[str]) -> None:
    """Refuse to replace a model that has learnt anything but the first of this data, in this order.

    So a model gives way to a later version of itself, and nothing that was learnt is lost. A folder whose history
    cannot be read is no model.
    """
    stages = _stages_in(stored_at(Path(path), HISTORY))
    if [fingerprint for fingerprint, _ in stages] != list(fingerprints[: len(stages)]):
        raise ModelError(
            f"{path} holds a model that has learnt {', '.join(dict(stages).values())}, and this is no later version of "
            "it: load that one and go on from it, choose another place, or give overwrite=True to lose it"
        )


def list_versions(folder: str | Path) -> list[SavedVersion]:
    """The model and the earlier versions that its folder keeps, the latest first. Reading needs no lock."""
    found: list[SavedVersion] = []
    seen: set[tuple[int, ...]] = set()
    for one in look_at_versions(folder, HISTORY, FORMAT):
        history = _history(one)
        number = one.number if one.number is not None or history is None else len(history.stages)
        own = sum(size for identity, size in one.sizes.items() if identity not in seen)
        found.append(SavedVersion(number, history, sum(one.sizes.values()), own))
        seen |= one.sizes.keys()
    return found


def newest_history(folder: str | Path, versions: Sequence[SavedVersion]) -> History:
    """That of the model itself, among the versions in its folder; an error says what is wrong if it is damaged."""
    if (history := versions[0].history) is None:
        checkpoint_files(folder)
        raise ModelError(f"the history of {folder} is damaged: `memgrow verify` says more")
    return history


def task_of(folder: str | Path) -> str | None:
    """The task of the model in a folder; None if it cannot be read."""
    try:
        task = load_json(checkpoint_files(folder), CONFIG).get("task")
    except (ModelError, AttributeError):
        return None
    return task if isinstance(task, str) else None


def undo(folder: str | Path, to: int | None = None) -> Undone:
    """Make a model what it was before its last stage, or after stage `to`; what came later is removed from the disk.

    A process that is killed meanwhile leaves the model as it was or as it is to be, and a reader sees one or the
    other. A model whose own files are damaged can be taken back, too.
    """
    path = _model_at(folder)
    with hold(path):
        newest, *earlier = list_versions(path)
        there = [one.number for one in earlier if one.number is not None]
        target = _target(folder, newest.number, there, to)
        _refuse_unfinished(folder, path, newest.number or 0, "what is to be taken back")
        manifest = Manifest.of(path)
        version = manifest.earlier[target]
        files = read_folder(path, FORMAT, version.sha256.keys() - {CONFIG}, target)  # if it is whole
        stays = {number: one for number, one in manifest.earlier.items() if number < target}
        write_folder(path, files, version.format, earlier=stays, keep=manifest.keep)
        now = list_versions(path)
    history = now[0].history
    assert history is not None
    taken = () if newest.history is None else tuple(newest.history.stages[target:])
    return Undone(
        taken, load_json(files, CONFIG)["task"], history, tuple(one.number for one in now[1:] if one.number is not None)
    )


@contextmanager
def changing(folder: str | Path) -> Iterator[None]:
    """Within, nobody else changes a model that is there and is to be changed by something else than an adaptation."""
    path = _model_at(folder)
    with hold(path):
        _refuse_unfinished(folder, path, list_versions(path)[0].number or 0, "the model as it is")
        yield


def _model_at(folder: str | Path) -> Path:
    path = Path(os.path.realpath(folder))
    if not path.is_dir() and put_aside(path) is None:  # where one that was killed has left it
        raise ModelError(f"there is no model at {folder}: check the name")
    return path


def _refuse_unfinished(folder: str | Path, path: Path, number: int, needed: str) -> None:
    resume = ResumeFolder.beside(path, number, {}, 0)
    resume.clear_ended()
    if resume.folder is not None and resume.folder.exists():
        raise ModelError(
            f"{folder} has an unfinished adaptation, which goes on from {needed}: finish it first "
            f"(run it again as it was), or remove {resume.folder} to give it up"
        )


def read_version(
    path: str | Path, version: int, device: torch.device, model: ModelSettings | None = None
) -> tuple[LearnerConfig, LearnerState]:
    """Read the version of a model that had been through so many stages, be it the newest or an earlier one."""
    for number in (version, None, version):  # a writer may make an earlier one of it meanwhile
        try:
            setup, learnt = read_checkpoint(path, device, model, number)
        except NoVersionError:
            continue
        if len(learnt.history.stages) == version:
            return setup, learnt
    there = [one.number for one in list_versions(path) if one.number is not None]
    raise NoVersionError(f"{path} keeps no version after stage {version}; {_in_words(there)}")


def _history(version: Version) -> History | None:
    try:
        return None if version.content is None else unpack_history({HISTORY: version.content})
    except NOT_UNDERSTOOD:
        return None


def _target(folder: str | Path, newest: int | None, earlier: Sequence[int], to: int | None) -> int:
    """The number of the version to go back to."""
    if not earlier:
        raise ModelError(
            f"{folder} keeps no earlier version, so there is nothing to undo: how many are kept is said to "
            "`memgrow adapt` with --keep-versions"
        )
    if to is None:
        return earlier[0]
    if to == newest:
        raise ModelError(f"{folder} is as it was after stage {to} already: there is nothing to undo")
    if to not in earlier:
        raise ModelError(f"{folder} cannot go back to stage {to}: {_in_words(earlier)}")
    return to


def _in_words(numbers: Sequence[int]) -> str:
    return f"there is stage {' and '.join(map(str, sorted(numbers)))}"


def _earlier_versions(path: Path, fingerprints: Sequence[str], most: int) -> dict[int, Manifest]:
    """The latest versions in a folder that a model which has learnt this data is a later version of.

    A version has the number of its stages. One that is damaged is not kept.
    """
    newest = Manifest.of(path)
    found: dict[int, Manifest] = {}
    for one in (*newest.earlier.values(), newest):
        order = [fingerprint for fingerprint, _ in _stages_in(path / one.folder / HISTORY)]
        if not 0 < len(order) < len(fingerprints) or order != list(fingerprints[: len(order)]):
            continue
        if 0 < one.format <= FORMAT and all((path / one.folder / name).is_file() for name in one.sha256):
            found[len(order)] = one
    return {number: found[number] for number in sorted(found, reverse=True)[:most]}


def _stages_in(file: Path) -> list[tuple[str, str]]:
    """Of each stage in a history that is on the disk: the fingerprint of the data, and the domains in words."""
    try:
        stages = json.loads(file.read_bytes())["stages"] if file.is_file() else []
        return [(str(stage["fingerprint"]), " and ".join(stage["learned"])) for stage in stages]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
