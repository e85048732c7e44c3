"""The model that is being served, and how it changes: by publishing, by rollback, or by another command.

The model's folder is the only truth: whatever has changed it, the service loads what is there and then replaces one
reference. A batch that is being computed keeps the model it began with, so that no request is lost.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memgrow import __version__
from memgrow.data import Example
from memgrow.data.disk import finite
from memgrow.errors import MemgrowError, ModelError, listed
from memgrow.evaluation.attention import read_reply, read_words
from memgrow.evaluation.drift import DriftMonitor
from memgrow.evaluation.model_tables import about, verdict_of
from memgrow.learner import Learner
from memgrow.models import REPLY
from memgrow.serve.settings import ServeSettings
from memgrow.storage import versions
from memgrow.storage.folder import PATIENCE_S, ModelFolder, hold

NO_SLOTS = "This model has no slots that a text could read."
TRIES = 5  # to load a folder that changes meanwhile
CHUNK = 500_000  # probabilities in memory at once


@dataclass(frozen=True)
class ServedModel:
    """One version of a model, loaded."""

    learner: Learner
    digest: str  # of the content: another version has another one
    card: bytes  # JSON
    monitor: DriftMonitor

    @classmethod
    def load(cls, folder: Path, settings: ServeSettings) -> "ServedModel":
        for _ in range(TRIES):
            digest = digest_of(folder)
            learner = Learner.load(folder, settings.device)
            kept = versions.list_versions(folder)
            if digest is not None and digest_of(folder) == digest:
                card = json.dumps(finite(_card(learner, folder.name, digest, kept))).encode()
                return cls(learner, digest, card, learner.drift_monitor(settings.window))
        raise ModelError(f"{folder} changed {TRIES} times while it was loaded: wait until no other command changes it")

    @property
    def identity(self) -> dict[str, Any]:
        """The number of stages, as in `memgrow inspect`, and the digest."""
        return {"version": len(self.learner.history.stages), "digest": self.digest}

    def predict(self, examples: Sequence[Example]) -> Iterator[dict[str, Any]]:
        """A label and its probabilities, or a reply, for each example."""
        if self.learner.task == REPLY:
            yield from ({"reply": one.text, "ended": one.ended} for one in self.learner.reply(examples))
            return
        chunk = max(1, CHUNK // max(1, len(self.learner.labels or ())))
        for start in range(0, len(examples), chunk):
            for one in self.learner.predict(examples[start : start + chunk]):
                yield {"label": one.label, "probabilities": one.probabilities}

    def stream(self, example: Example, put: Callable[[str | None], None], sampling: dict[str, Any]) -> dict[str, Any]:
        """A reply, whose pieces `put` gets while it is written, and None at its end."""
        try:
            (reply,) = self.learner.reply([example], on_text=put, **sampling)
            return {"reply": reply.text, "ended": reply.ended}
        except MemgrowError as error:
            return {"detail": str(error)}
        finally:
            put(None)

    def explain(self, example: Example) -> dict[str, Any]:
        """The prediction, and for each word how much attention the slots of each domain get."""
        learner = self.learner
        if learner.task == REPLY:
            (reply,) = learner.reply([example])
            output, reading = {"reply": reply.text, "ended": reply.ended}, read_reply(learner, example, reply)
        else:
            (output,), reading = self.predict([example]), read_words(learner, example)
        words = [asdict(word) for word in reading.words]
        return {**output, "domains": reading.domains, "words": words, "note": None if reading.domains else NO_SLOTS}


class Publisher:
    """The folder of a model, and the version of it that is served."""

    def __init__(self, folder: Path, settings: ServeSettings) -> None:
        self.folder, self._settings = Path(os.path.realpath(folder)), settings
        self._changing = threading.Lock()  # for threads that change or load; readers need none
        self.current = ServedModel.load(self.folder, settings)

    def refresh(self) -> bool:
        """Serve what the folder holds, if it has changed; whether it has."""
        with self._changing:
            if digest_of(self.folder) in (None, self.current.digest):
                return False
            self._load()
            return True

    def publish(self, candidate: Path) -> ServedModel:
        """Save a trained model as the next version, if it continues the current one.

        May be called again for the same candidate, as after a crash.
        """
        learner = Learner.load(candidate, "cpu")
        trained = [stage.fingerprint for stage in learner.history.stages]
        with self._changing:
            with hold(self.folder, PATIENCE_S):
                now = versions.newest_history(self.folder, versions.list_versions(self.folder))
                there = [stage.fingerprint for stage in now.stages]
                if there not in (trained, trained[:-1]):
                    raise ModelError(
                        f"the model has changed since this training began (it now knows {listed(now.domains)}): "
                        "upload the file again"
                    )
                if there != trained:
                    learner.save(self.folder, keep_versions=self._settings.keep_versions)
            return self._load()

    def roll_back(self, to: int | None = None) -> ServedModel:
        """Go back to an earlier version; later ones are removed."""
        with self._changing:
            versions.undo(self.folder, to)
            return self._load()

    def _load(self) -> ServedModel:
        self.current = ServedModel.load(self.folder, self._settings)
        return self.current


def digest_of(folder: Path) -> str | None:
    """Identifies the content of a model's current version; None while there is none."""
    try:
        return ModelFolder.read(folder).versions[0].digest
    except ModelError:
        return None


def _card(learner: Learner, name: str, digest: str, kept: Sequence[versions.SavedVersion]) -> dict[str, Any]:
    facts, settings, history = about(learner), asdict(learner.settings), learner.history.to_json()
    if Path(settings.get("encoder", "")).is_absolute():  # clients need not see the folder
        facts["encoder"] = settings["encoder"] = Path(settings["encoder"]).name
    return {
        "name": name,
        "kind": "responder" if learner.task == REPLY else "classifier",
        "version": len(learner.history.stages),
        "digest": digest,
        "versions": [_version(one) for one in kept],
        **facts,
        "stages": history["stages"],
        "matrix": history["matrix"],
        "baseline": history["baseline"],
        "summary": learner.history.summary(),
        "verdict": asdict(verdict_of(learner)),
        "settings": {
            "model": settings,
            "training": asdict(learner.training),
            "options": asdict(learner.options),
            "seed": learner.seed,
        },
        "calibration": learner.calibration.to_json() if learner.calibration.domains else None,
        "memgrow": __version__,
    }


def _version(one: versions.SavedVersion) -> dict[str, Any]:
    last = one.history.stages[-1] if one.history is not None and one.history.stages else None
    domain, date = (" and ".join(last.learned), last.date) if last else (None, None)
    return {"number": one.number, "domain": domain, "date": date, "bytes": one.size, "digest": one.digest}
