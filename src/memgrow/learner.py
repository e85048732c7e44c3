"""A learner walks through domains (the paper's Algorithm 1): adapt, evaluate, predict, save, load."""

import copy
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from memgrow.admission import Lesson, admit, check_examples, most_frequent_share
from memgrow.batches import Encoded, Worded, collate, encode, split_words
from memgrow.checkpoint import read_folder, write_folder
from memgrow.data import Domain, Example, Stream
from memgrow.device import find_device
from memgrow.errors import DataError, MemgrowError, ModelError, SettingsError
from memgrow.history import History, Stage
from memgrow.methods import Grew, MethodSettings, find_method, grow_for
from memgrow.models import TASKS, Classifier, ModelSettings
from memgrow.models.embedding import first_vectors
from memgrow.nn import count_parameters
from memgrow.progress import Progress, Silence
from memgrow.randomness import derive, seeded
from memgrow.saved import pack, unpack
from memgrow.text import Vocabulary
from memgrow.training import TrainingSettings, accuracy_of, probabilities, train
from memgrow.workspace import Workspace

Text = str | tuple[str, str] | Example


@dataclass(frozen=True)
class Prediction:
    """The most probable label, and the probability of each."""

    label: str
    probabilities: dict[str, float]


class Learner:
    """One model that meets domain after domain. It keeps no data of a domain once that has been learnt."""

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
    ) -> None:
        self.method = find_method(method)
        if task is not None and task not in TASKS:
            raise SettingsError(f"there is no task {task!r}; there are {', '.join(TASKS)}")
        self.task, self.labels = task, None if labels is None else tuple(labels)
        self.settings, self.training, self.options = model, training, options
        self.seed, self.device = seed, find_device(device)
        self.model: Classifier | None = None
        self.vocabulary = Vocabulary()
        self.past = self.method.remembers(options)
        self.history = History()

    @classmethod
    def create(
        cls,
        method: str = "F+M+V",
        *,
        task: str | None = None,
        labels: Sequence[str] | None = None,
        model: ModelSettings | None = None,
        training: TrainingSettings | None = None,
        options: MethodSettings | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> "Learner":
        """A learner that has learnt nothing yet. Task and labels, if not given, are those of the first domain."""
        settings = (model or ModelSettings(), training or TrainingSettings(), options or MethodSettings())
        return cls(method, task, labels, *settings, seed, device)

    # Learning

    def adapt(
        self,
        domain: Domain,
        *,
        earlier: Sequence[Domain] = (),
        watch: Iterable[Domain] = (),
        vectors: str | Path | None = None,
        folder: str | Path | None = None,
        save_every: float = 60.0,
        progress: Progress | None = None,
    ) -> Stage:
        """Learn a domain; the learner is unchanged until that has succeeded.

        `watch` are domains whose test examples are tried afterwards, beside this one's. `vectors` is a file of word
        vectors for new words. With a `folder` the learner is saved there at the end, and until then its state is
        kept in folder.adapting, so that a run that was killed goes on where it was and ends with the same bits.
        `earlier` are all domains before this one, for a method that trains on them together.
        """
        lesson = admit(self._together(domain, earlier), self.task, self.labels)
        tested = {part.name: part for part in (*watch, *lesson.domains) if part.test}
        for part in tested.values():
            check_examples(part.test, lesson.task, lesson.labels)
        started, progress, number = time.monotonic(), progress or Silence(), len(self.history.stages)
        key = {"data": lesson.fingerprint, "settings": self._key(lesson, vectors)}
        workspace = (
            Workspace.beside(folder, number, key, save_every) if folder else Workspace(None, number, key, save_every)
        )
        seed = derive(self.seed, "stage", number)

        after = copy.copy(self)  # becomes this learner when all has gone well
        after.task, after.labels = lesson.task, lesson.labels
        after.past, after.history = copy.deepcopy(self.past), copy.deepcopy(self.history)
        with seeded(seed, "growth", device=self.device):
            worded = split_words(lesson.train, self.training.max_words)
            if worded.cut:
                limit = self.training.max_words
                progress.note(f"{lesson.name}: only the first {limit} words are read of {worded.cut} text(s)")
            after.model, after.vocabulary, grew = self._grown(lesson, worded, vectors, progress)
            data = encode(worded, after.vocabulary, lesson.labels)
            outcome = train(
                after.model,
                data,
                after._encode(lesson.validation, lesson.labels),
                name=lesson.name,
                settings=self.training,
                trains=self.method.trains(None if self.method.afresh else self.model, after.model),
                past=self.past,
                seed=seed,
                workspace=workspace,
                progress=progress,
            )
            torch.manual_seed(derive(seed, "note"))
            note = after.past.take_note(after.model, data, self.device)

        after.model.requires_grad_(True)
        stage = Stage(
            learned=lesson.learned,
            method=self.method.name,
            grew=grew,
            parameters=count_parameters(after.model),
            examples=len(data),
            **asdict(outcome) | {"seconds": round(max(outcome.seconds, time.monotonic() - started), 3)},
            fingerprint=lesson.fingerprint,
            note=note,
        )
        after.history.add(stage, after.evaluate(tested.values()))
        after.history.baseline |= {name: most_frequent_share(part.test) for name, part in tested.items()}
        if folder:
            after.save(folder)
            workspace.clear()
        self.__dict__ = after.__dict__
        return stage

    def learn(self, stream: Iterable[Domain], **options: Any) -> History:
        """Adapt to each domain of a stream in turn, testing all of its domains after each.

        A domain that has been learnt from this very data is skipped, so that a learner loaded after a broken run goes
        on. A method that trains on all domains together does so once.
        """
        domains = Stream(stream)
        for number, domain in enumerate(domains):
            if self.history.has(domain.fingerprint()):
                continue
            if not self.method.together:
                self.adapt(domain, watch=domains, **options)
            elif number == len(domains) - 1:
                self.adapt(domain, earlier=domains[:-1], watch=domains, **options)
        return self.history

    def use(self, method: str, options: MethodSettings | None = None) -> None:
        """Go on with another method."""
        new, options = find_method(method), options or self.options
        past = new.remembers(options)
        if type(past) is type(self.past):
            past.restore(self.past.tensors())
        elif past.needs_every_domain and self.history.stages:
            raise SettingsError(
                f"{new.name} takes note of every domain as it is learnt, but this model learnt "
                f"{', '.join(self.history.domains)} by {self.method.name}: start a new model with {new.name}"
            )
        self.method, self.options, self.past = new, options, past

    # Answering

    def evaluate(self, domains: Domain | Iterable[Domain], split: str = "test") -> dict[str, float]:
        """Accuracy on one part (train, validation or test) of each domain."""
        model, scores = self.trained(), {}
        for domain in [domains] if isinstance(domains, Domain) else domains:
            examples = getattr(domain, split)
            if not examples:
                raise DataError(f"{domain.name} has no {split} examples to evaluate on")
            scores[domain.name] = accuracy_of(model, self._encode(examples, self.labels))
        return scores

    def predict(self, texts: Sequence[Text]) -> list[Prediction]:
        """Labels and probabilities of texts (of pairs for a pair model), without being told their domain."""
        model = self.trained()
        rows = probabilities(model, self._encode([_as_example(text) for text in texts], None)).tolist()
        named = [dict(zip(self.labels or (), row, strict=True)) for row in rows]
        return [Prediction(max(chances, key=lambda label: chances[label]), chances) for chances in named]

    @torch.no_grad()
    def reading(self, text: Text) -> list[dict[str, torch.Tensor]]:
        """For each bank, the share of attention that each domain's slots get at each word: (texts, words)."""
        model = self.trained().eval()
        batch = collate(self._encode([_as_example(text)], None), [0], self.device)
        return model.encoder.reading(batch.words, batch.lengths)

    # Keeping

    def save(self, path: str | Path) -> None:
        """Write the learner as a folder, in place of what was there; a reader never sees half of it."""
        write_folder(path, pack(self))

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> "Learner":
        """Read a learner that `save` wrote."""
        files = read_folder(path)
        try:
            return unpack(cls, files, device)
        except MemgrowError:
            raise
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ModelError(f"{path} is not a model that this memgrow understands: {error}") from error

    # Within

    def _together(self, domain: Domain, earlier: Sequence[Domain]) -> list[Domain]:
        """The domains whose data this stage sees: one, unless the method openly asks for all of them."""
        if not self.method.together:
            return [domain]
        missing = [name for name in self.history.domains if name not in {d.name for d in (*earlier, domain)}]
        if missing:
            raise SettingsError(
                f"{self.method.name} trains on all domains at once and needs the data of {', '.join(missing)} again: "
                "give it too, or use a method that is incremental"
            )
        return [*earlier, domain]

    def _grown(
        self, lesson: Lesson, worded: Worded, vectors: str | Path | None, progress: Progress
    ) -> tuple[Classifier, Vocabulary, Grew]:
        """The model as it starts on a domain: a new one, or a copy of the old one that has grown."""
        new = self.model is None or self.method.afresh
        known = Vocabulary() if new else self.vocabulary
        vocabulary = known
        if new or "words" in self.method.grows:
            vocabulary = known.extended(worded.sentences(), self.training.min_count)
        words = vocabulary.words[len(known) :]
        rows, found = first_vectors(words, self.settings.embedding, vectors)
        if vectors is not None:
            progress.note(f"{lesson.name}: {found} of {len(words)} new words have a vector in {Path(vectors).name}")
        if self.model is None or new:
            build = TASKS[lesson.task]
            model = build(self.settings, len(vocabulary), len(lesson.labels), lesson.name).to(self.device)
            with torch.no_grad():
                model.encoder.embedding.weight[len(known) :] = rows.to(self.device)
            return model, vocabulary, Grew(self.settings.slots, self.settings.hidden, len(words), 1)
        model = copy.deepcopy(self.model)
        return model, vocabulary, grow_for(model, self.method, self.options, lesson.name, rows)

    def trained(self) -> Classifier:
        """The model, once there is one."""
        if self.model is None:
            raise ModelError("this learner has learnt nothing yet: give it a domain with `adapt` first")
        return self.model

    def _encode(self, examples: Sequence[Example], labels: Sequence[str] | None) -> Encoded:
        check_examples(examples, self.task or "", labels)
        return encode(split_words(examples, self.training.max_words), self.vocabulary, labels or ())

    def _key(self, lesson: Lesson, vectors: str | Path | None) -> str:
        """Tells a training from others with the same data, so that a run resumes its own and no other."""
        file = str(Path(vectors).resolve()) if vectors else None
        parts = (self.method.name, self.settings, self.training, self.options, self.seed, file)
        return repr((*parts, lesson.task, lesson.labels, [stage.fingerprint for stage in self.history.stages]))


def _as_example(text: Text) -> Example:
    return text if isinstance(text, Example) else Example(text) if isinstance(text, str) else Example(*text)
