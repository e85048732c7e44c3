"""A learner: made, saved and loaded. How it learns stands in `learning`, how it answers in `answering`."""

import operator
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from memgrow.answering import Answer, Prediction, Text
from memgrow.checkpoint import read_checkpoint
from memgrow.data.example import as_label, half_of_a_character
from memgrow.defaults import Defaults, defaults_for, defaults_here
from memgrow.device import find_device
from memgrow.domain_files import read_domain, with_domain, write_domain
from memgrow.domain_parts import Parts
from memgrow.drift import Reference
from memgrow.errors import SettingsError, listed
from memgrow.history import History, Stage
from memgrow.learning import Learning
from memgrow.learnt import Learnt, Setup
from memgrow.methods import MethodSettings, check_method, find_method
from memgrow.models import REPLY, TASKS, ModelSettings, PretrainedSettings
from memgrow.models.pretrained.files import EncoderFiles
from memgrow.text import Vocabulary
from memgrow.text.remembered_vectors import RememberedVectors
from memgrow.told_domain import AnswersBy
from memgrow.training.settings import TrainingSettings
from memgrow.versions import read_version, write_checkpoint

__all__ = ["Answer", "Learner", "Prediction", "Text"]


class Learner(Learning):
    """One model that meets domain after domain.

    It keeps no data of a domain that has been learnt. Only rehearsal keeps a few rows, as `Method.keeps_examples` says.
    """

    def __init__(
        self,
        method: str,
        task: str | None,
        labels: Sequence[str] | None,
        model: ModelSettings,
        training: TrainingSettings,
        options: MethodSettings,
        seed: int,
        device: str,
        files: EncoderFiles | None = None,
    ) -> None:
        """`files` are those of a pretrained encoder; without them the settings say where they are found."""
        self.method = find_method(method)
        check_method(self.method, model)
        if files is None:
            model, files = model.resolved()
        self.encoder = files
        if task is not None and task not in TASKS:
            raise SettingsError(f"there is no task {task!r}; there are {', '.join(TASKS)}")
        self.task, self._own = task, AnswersBy(None if labels is None else tuple(map(as_label, labels)))
        if len(set(self.labels or ())) < len(self.labels or ()):
            raise SettingsError(f"labels holds one label twice ({listed(self.labels or ())}): give each once")
        if any(half_of_a_character(label) for label in self.labels or ()):
            raise SettingsError("a label holds half a character, with which no model can be saved: write it otherwise")
        self.settings, self.training, self.options = model, training, options
        self.seed, self.device = operator.index(seed), find_device(device)
        self.vocabulary = Vocabulary()
        self.plugins = self.method.plugins(options)
        self.history = History()
        self.parts: Parts = {}
        self.reference = Reference()
        self.vectors: RememberedVectors | None = None  # that new words begin with, unless others are given
        self._folder: Path | None = None  # where it was last written to or read from
        self._sizes: Defaults | None = None  # what its sizes suit, if nobody named any

    def __repr__(self) -> str:
        return f"Learner({self.method.name}, {' -> '.join(self.history.domains) or 'nothing learnt yet'})"

    @classmethod
    def create(
        cls,
        method: str | None = None,
        *,
        encoder: str | Path | None = None,
        task: str | None = None,
        labels: Sequence[str] | None = None,
        model: ModelSettings | None = None,
        training: TrainingSettings | None = None,
        options: MethodSettings | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> "Learner":
        """A learner that has learnt nothing yet. The task, if not given, is that of the first domain.

        `labels` are those that it begins with, whatever the first domain has; others join as domains bring them.

        An `encoder` is a pretrained one: the name of one that `memgrow encoder list` shows, a folder or a hub name.
        What is not given is the default for that encoder or, without one, for a recurrent network; if no `model` is
        given either, its sizes suit the device: those of the recipe small on a CPU, the paper's on a GPU. Words are
        then as long as the vectors of the first domain, if it has any.
        """
        if encoder is not None and model is not None:
            if not isinstance(model, PretrainedSettings):
                raise SettingsError(
                    "ModelSettings are of a recurrent network: with an encoder give PretrainedSettings, or no model"
                )
            model = replace(model, encoder=str(encoder))
        chosen = defaults_here(find_device(device), task == REPLY) if model is None and encoder is None else None
        usual = chosen or defaults_for(model or encoder, task == REPLY)
        settings = (model or usual.model, training or usual.training, options or usual.options)
        learner = cls(method or usual.method, task, labels, *settings, seed, device)
        learner._sizes = chosen
        return learner

    def use(self, method: str, options: MethodSettings | None = None) -> None:
        """Go on with another method."""
        new, options = find_method(method), options or self.options
        check_method(new, self.settings)
        plugins = new.plugins(options)
        strange = plugins.inherit(self.plugins)
        if self.history.stages and any(part.needs_every_domain for part in strange):
            raise SettingsError(
                f"{new.name} takes note of every domain as it is learnt, but this model learnt "
                f"{', '.join(self.history.domains)} by {self.method.name}: start a new model with {new.name}"
            )
        self.method, self.options, self.plugins = new, options, plugins

    # Domains that move

    def export_domain(self, domain: str, path: str | Path) -> None:
        """Write what a domain has of its own, its slots and its head, as one small file."""
        write_domain(path, self.setup, self.learnt, domain)

    def import_domain(self, path: str | Path, name: str | None = None) -> Stage:
        """Take in a domain that `export_domain` wrote, under its own name or another; it needs the same encoder.

        It is read by `answering_for` alone: whoever does not tell a domain gets the answers of before.
        """
        learnt = with_domain(self.setup, self.learnt, read_domain(path), name)
        self.take(learnt)
        return learnt.history.stages[-1]

    # Keeping

    def save(self, path: str | Path, overwrite: bool = False, keep_versions: int | None = None) -> None:
        """Write the learner as a folder, in place of what was there; a reader never sees half of it.

        A model that has learnt domains which this learner has not learnt, in this order and from the same data, is
        replaced only to `overwrite` it. The folder keeps as many earlier versions as `keep_versions` says, or was said
        before, or one: see `undo`.
        """
        self._write(path, self.setup, self.learnt, overwrite, keep_versions)

    @classmethod
    def load(
        cls,
        path: str | Path,
        device: str = "auto",
        model: ModelSettings | None = None,
        version: int | None = None,
    ) -> "Learner":
        """Read a learner that `save` wrote; with a `version`, as it was after so many stages, if the folder keeps that.

        `model` takes the place of its settings; it may differ in what has had no effect, as a memory without slots.
        """
        if version is None:
            setup, learnt = read_checkpoint(path, find_device(device), model)
        else:
            setup, learnt = read_version(path, version, find_device(device), model)
        settings = (setup.model, setup.training, setup.options, setup.seed)
        learner = cls(setup.method.name, learnt.task, learnt.labels, *settings, device, setup.encoder)
        learner.vectors = setup.vectors
        learner.take(learnt)
        learner._folder = Path(path).absolute()
        return learner

    # Within

    @property
    def folder(self) -> Path | None:
        """The model's folder that it was last written to or read from, if there is one."""
        return self._folder

    @property
    def setup(self) -> Setup:
        """The method and the settings by which it learns."""
        return Setup(self.method, self.settings, self.training, self.options, self.seed, self.encoder, self.vectors)

    @property
    def learnt(self) -> Learnt:
        """The model, the vocabulary and the history so far."""
        own = self._own
        known = (self.task, own.labels, own.model, self.vocabulary, self.plugins, self.history)
        return Learnt(*known, own.calibration, self.parts, self.reference)

    def take(self, learnt: Learnt) -> None:
        """Know this from now on."""
        self._own = AnswersBy(learnt.labels, learnt.model, learnt.calibration)
        self.task, self.vocabulary = learnt.task, learnt.vocabulary
        self.plugins, self.history = learnt.plugins, learnt.history
        self.parts, self.reference = learnt.parts, learnt.reference

    def _write(
        self, path: str | Path, setup: Setup, learnt: Learnt, overwrite: bool, keep_versions: int | None = None
    ) -> None:
        write_checkpoint(path, setup, learnt, self._folder, overwrite, keep_versions)
        self._folder = Path(path).absolute()
