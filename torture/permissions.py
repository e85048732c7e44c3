"""Models and data that a user may not read or write: a sentence before anything is changed, and success once he may."""

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memgrow.data import synthetic_stream, write_jsonl
from torture.budget import Counts, Report, tail
from torture.cases import TINY, bits, learnt, settings
from torture.commands import Ended, import_all, start

NOBODY = 65534  # whom root becomes: nothing is forbidden to root


@dataclass(frozen=True)
class Scene:
    """A model in a folder, and data."""

    folder: Path
    model: Path
    data: Path

    def files(self) -> list[Path]:
        return [self.folder, *self.folder.rglob("*")]


def _closed(mode: int, *names: str) -> Callable[[Scene], None]:
    """Give what has these names in the scene another mode."""

    def close(scene: Scene) -> None:
        for name in names:
            (scene.folder / name).chmod(mode)

    return close


def _others(scene: Scene) -> None:
    """The model belongs to somebody else, who lets all read it."""
    for path in (scene.model.parent, scene.model, *scene.model.iterdir()):
        os.chown(path, 0, 0)


def _lock_of_another(scene: Scene) -> None:
    lock = scene.model.with_name(".m.lock")
    lock.touch(mode=0o600)
    os.chown(lock, 0, 0)


@dataclass(frozen=True)
class Obstacle:
    """What keeps a user from adapting a model, and whether that must be refused."""

    name: str
    hinder: Callable[[Scene], None]
    refused: bool = True
    needs_root: bool = False
    new: bool = False  # there is no model yet


OBSTACLES = (
    Obstacle("the model is read-only", _closed(0o555, "models/m")),
    Obstacle("the folder above is read-only", _closed(0o555, "models"), refused=False),
    Obstacle("both are read-only", _closed(0o555, "models/m", "models")),
    Obstacle("the folder above cannot be entered", _closed(0o600, "models")),
    Obstacle("the model cannot be entered", _closed(0o600, "models/m")),
    Obstacle("its weights cannot be read", _closed(0o000, "models/m/model.safetensors")),
    Obstacle("its manifest cannot be read", _closed(0o000, "models/m/manifest.json")),
    Obstacle("its history cannot be read", _closed(0o000, "models/m/history.json")),
    Obstacle("its files are read-only", _closed(0o444, "models/m/model.safetensors", "models/m/manifest.json"), False),
    Obstacle("the data cannot be read", lambda scene: scene.data.chmod(0o000)),
    Obstacle("no model can be made there", _closed(0o555, "models"), new=True),
    Obstacle("no model can be made where nobody may enter", _closed(0o600, "models"), new=True),
    Obstacle("the model is another's", _others, needs_root=True),
    Obstacle("the lock's file is another's", _lock_of_another, needs_root=True),
)


def permissions(report: Report) -> Counts:
    """Meet every obstacle once, as a user who is not root."""
    met = 0
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        first, second = write_jsonl(synthetic_stream(2, train=48, validation=24, test=24, seed=3), Path(folder, "data"))
        made, after, alone = (_place(Path(folder, name)) for name in ("made", "after", "alone"))
        ends = [
            import_all(["adapt", Path(folder, "m"), first, "--device", "cpu", *settings(*TINY)], Path(folder, "said"))
        ]
        ends = [_adapt(made, first, *settings(*TINY)), _adapt(alone, second, *settings(*TINY))]
        ends += [_adapt(after, data, *words) for data, words in ((first, settings(*TINY)), (second, ()))]
        if any(one.code for one in ends):
            raise RuntimeError(f"without an obstacle: {[one.last_line for one in ends]}")
        for number, one in enumerate(OBSTACLES):
            if one.needs_root and not root:
                continue
            met += 1
            scene = _scene(Path(folder, str(number)), None if one.new else made, second)
            wrong = _meet(one, scene, bits(alone if one.new else after), settings(*TINY) if one.new else ())
            report.tell(number + 1, len(OBSTACLES), "obstacles")
            if wrong:
                report.fail(f"{one.name}: {wrong}")
    return {"missing permissions": met}


def _place(folder: Path) -> Path:
    """For a model that anybody may make."""
    folder.mkdir()
    folder.chmod(0o777)
    return folder / "m"


def _scene(folder: Path, model: Path | None, data: Path) -> Scene:
    scene = Scene(folder, folder / "models" / "m", folder / data.name)
    scene.model.parent.mkdir(parents=True)
    shutil.copy(data, scene.data)
    if model is not None:
        shutil.copytree(model, scene.model)
    _open_all(scene)
    return scene


def _open_all(scene: Scene) -> None:
    """All is the user's own, and open to him."""
    for path in scene.files():
        path.chmod(0o755 if path.is_dir() else 0o644)
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)


def _meet(one: Obstacle, scene: Scene, expected: dict[str, bytes], words: tuple[str, ...]) -> str | None:
    """What is wrong with how a command met an obstacle, and with what it made when that was gone."""
    one.hinder(scene)
    before = _contents(scene)
    ended = _adapt(scene.model, scene.data, *words)
    if one.refused and (not ended.refused or _contents(scene) != before):
        changed = sorted({*_contents(scene).items()} ^ {*before.items()})
        return f"ended with {ended.code}, and said {tail(ended.err, 1000)!r}; changed: {[name for name, _ in changed]}"
    if not one.refused and ended.code != 0:
        return f"ended with {ended.code}: {ended.last_line}"
    _open_all(scene)
    if one.refused and (ended := _adapt(scene.model, scene.data, *words)).code != 0:
        return f"when it was gone it ended with {ended.code}: {ended.last_line}"
    if bits(scene.model) != expected:
        return f"the model with {learnt(scene.model)} domains is not what it is without the obstacle"
    return None


def _adapt(model: Path, data: Path, *words: str) -> Ended:
    said = Path(f"{model.parents[1]}-said")  # opened by root
    return start(["adapt", model, data, "--device", "cpu", *words], said, _become_nobody).ended()


def _become_nobody() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _contents(scene: Scene) -> dict[str, tuple[int, bytes]]:
    """Every file with its mode."""
    return {str(path): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"") for path in scene.files()}
