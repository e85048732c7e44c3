"""The version of a model that is being served, and the ways to another one: a publication, a roll-back, a change from
outside.

Publishing is `Learner.save` into the model's folder and rolling back is `versions.undo`, both under the folder's lock.
The folder is the only truth: whatever has changed it, the server loads what is there now and then exchanges one
reference. A batch that is being computed keeps the version it began with, so that no request is dropped.
"""

import os
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from memgrow import __version__, versions
from memgrow.data import Example
from memgrow.errors import ModelError, listed
from memgrow.folder_writer import PATIENCE_S
from memgrow.learner import Learner
from memgrow.locking import hold
from memgrow.manifest import MANIFEST
from memgrow.models import REPLY
from memgrow.reading import read_reply, read_words
from memgrow.report.learner import about
from memgrow.storage import finite, identity_of
from memgrow.versions import list_versions

NO_SLOTS = "This model has no slots that a text could read."
TRIES = 5  # to load a folder that changes meanwhile


@dataclass(frozen=True)
class Published:
    """One version of a model, loaded, with all that is told of it."""

    learner: Learner
    name: str
    identity: tuple[int, ...]  # of the folder's manifest: another one is another version
    versions: Sequence[dict[str, Any]]

    @classmethod
    def load(cls, folder: Path, device: str) -> "Published":
        """What the folder holds now."""
        for _ in range(TRIES):
            identity = manifest_identity(folder)
            learner = Learner.load(folder, device)
            kept = [_version_json(one) for one in list_versions(folder)]
            if identity is not None and manifest_identity(folder) == identity:
                return cls(learner, folder.name, identity, kept)
        raise ModelError(f"{folder} was changed {TRIES} times while it was loaded: wait until nobody changes it")

    @property
    def version(self) -> int:
        """The number of its stages, as `memgrow history` counts versions."""
        return len(self.learner.history.stages)

    def answers(self, examples: Sequence[Example]) -> list[dict[str, Any]]:
        """A label and its probabilities, or a reply, for each example."""
        if self.learner.task == REPLY:
            return [{"reply": answer.text, "ended": answer.ended} for answer in self.learner.reply(examples)]
        found = self.learner.predict(examples)
        return [{"label": one.label, "probabilities": one.probabilities} for one in found]

    def explain(self, example: Example) -> dict[str, Any]:
        """The answer, and for each word the shares that the slots of each domain have of what is read there."""
        learner = self.learner
        if learner.task == REPLY:
            (reply,) = learner.reply([example])
            answer, reading = {"reply": reply.text, "ended": reply.ended}, read_reply(learner, example, reply)
        else:
            (answer,), reading = self.answers([example]), read_words(learner, example)
        words = [asdict(word) for word in reading.words]
        return {**answer, "domains": reading.domains, "words": words, "note": None if reading.domains else NO_SLOTS}

    @cached_property
    def card(self) -> dict[str, Any]:
        """The model card."""
        learner, facts, settings = self.learner, asdict(about(self.learner)), asdict(self.learner.settings)
        facts["encoder"] = encoder_name(facts["encoder"])
        settings |= {"encoder": facts["encoder"]} if "encoder" in settings else {}
        history = learner.history.to_json()
        card: dict[str, Any] = finite(
            {
                "name": self.name,
                "kind": "responder" if learner.task == REPLY else "classifier",
                "version": self.version,
                "versions": self.versions,
                **facts,
                "stages": history["stages"],
                "matrix": history["matrix"],
                "baseline": history["baseline"],
                "summary": learner.history.summary(),
                "settings": {
                    "model": settings,
                    "training": asdict(learner.training),
                    "options": asdict(learner.options),
                    "seed": learner.seed,
                },
                "calibration": learner.calibration.to_json() if learner.calibration.domains else None,
                "rows_kept": {name: len(rows) for name, rows in learner.state.method_state.rows.items()},
                "memgrow": __version__,
            }
        )
        return card


class Publisher:
    """The folder of a model and the version of it that is served."""

    def __init__(self, folder: Path, device: str = "auto", keep_versions: int | None = None) -> None:
        self.folder, self.device, self._keep = Path(os.path.realpath(folder)), device, keep_versions
        self._changing = threading.Lock()  # threads that change or load; who reads needs none
        self._current = Published.load(self.folder, device)

    @property
    def current(self) -> Published:
        return self._current

    def refresh(self) -> bool:
        """Serve what the folder holds, if that has changed; whether it has."""
        with self._changing:
            if manifest_identity(self.folder) in (None, self._current.identity):
                return False
            return self._load()

    def publish(self, candidate: Path) -> int:
        """Make a trained model the next version; one that goes on from anything but the version on the disk is refused.

        It may be called again for the same candidate, as after a kill; the number of the version comes back.
        """
        learner = Learner.load(candidate, "cpu")
        ours = [stage.fingerprint for stage in learner.history.stages]
        with self._changing:
            with hold(self.folder, PATIENCE_S):
                now = versions.newest_history(self.folder, list_versions(self.folder))
                there = [stage.fingerprint for stage in now.stages]
                if there not in (ours, ours[:-1]):
                    learnt = listed(name for stage in now.stages for name in stage.learned)
                    raise ModelError(
                        f"the model has changed since this training began (it has learnt {learnt}): upload the file "
                        "again to learn it from there"
                    )
                if there != ours:
                    learner.save(self.folder, keep_versions=self._keep)
            self._load()
        return len(ours)

    def roll_back(self, to: int | None = None) -> int:
        """Go back to an earlier version, for good; its number comes back."""
        with self._changing:
            done = versions.undo(self.folder, to)
            self._load()
        return len(done.history.stages)

    def _load(self) -> bool:
        loaded = Published.load(self.folder, self.device)
        _ = loaded.card  # now, and not while somebody waits for it
        self._current = loaded
        return True


def encoder_name(encoder: str | None) -> str | None:
    """What is told of an encoder: of a folder on this machine its own name, and not where it lies."""
    return Path(encoder).name if encoder and Path(encoder).is_absolute() else encoder


def manifest_identity(folder: Path) -> tuple[int, ...] | None:
    """Tells versions apart; None while there is none, as where a folder is replaced in more than one step."""
    try:
        return identity_of((folder / MANIFEST).stat())
    except OSError:
        return None


def _version_json(one: versions.SavedVersion) -> dict[str, Any]:
    last = one.history.stages[-1] if one.history is not None and one.history.stages else None
    return {
        "number": one.number,
        "domain": " and ".join(last.learned) if last else None,
        "date": last.date if last else None,
        "bytes": one.size,
    }
