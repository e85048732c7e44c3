"""One domain being learnt, by a grown copy of the learner that takes its place in the end."""

import copy
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from memgrow.data import Domain, Example
from memgrow.data.batches import Encoded, Tokenized, encode
from memgrow.device import warm_up
from memgrow.errors import DataError, SettingsError
from memgrow.history import Stage
from memgrow.methods import Grew, Trains, grow_for
from memgrow.models import REPLY, Classifier, Model, build
from memgrow.models.encoder import first_vectors
from memgrow.nn import count_parameters
from memgrow.progress import Progress
from memgrow.seeding import derive, seeded
from memgrow.text import Vocabulary
from memgrow.training.loop import Outcome, train
from memgrow.training.resume import ResumeFolder

KINDS = {1: "text", 2: "pair"}
READS = {"text": 1, "pair": 2, REPLY: 1}  # texts
ASKS = {"text": "one text", "pair": "two texts", REPLY: "one message"}


@dataclass(frozen=True)
class StageData:
    """The data of one stage: one domain, or several for a method that sees them together."""

    domains: tuple[Domain, ...]
    task: str
    labels: tuple[str, ...]

    @property
    def learned(self) -> tuple[str, ...]:
        return tuple(domain.name for domain in self.domains)

    @property
    def name(self) -> str:
        return "+".join(self.learned)

    @property
    def train(self) -> list[Example]:
        return [example for domain in self.domains for example in domain.train]

    @property
    def validation(self) -> list[Example]:
        return [example for domain in self.domains for example in domain.validation]

    @property
    def fingerprint(self) -> str:
        return "+".join(domain.fingerprint() for domain in self.domains)


def validate(domains: Sequence[Domain], task: str | None, labels: Sequence[str] | None) -> StageData:
    """A lesson of domains that can be learnt; task and labels, where not settled yet, are theirs."""
    for domain in domains:
        for part in ("train", "validation"):
            if not getattr(domain, part):
                raise DataError(f"{domain.name} has no {part} examples: give more rows, or that part's own file")
        if len(domain.labels) < 2 and not domain.has_replies:
            only = ", ".join(domain.labels) or "no label"
            raise DataError(f"all training examples of {domain.name} have one class ({only}): two are needed")
    first = domains[0].train[0]
    task = task or (KINDS[len(first.texts)] if first.reply is None else REPLY)
    known = tuple(labels or sorted({label for domain in domains for label in domain.labels}))
    for domain in domains:
        check_examples((*domain.train, *domain.validation, *domain.test), task, known)
    return StageData(tuple(domains), task, known)


def check_examples(examples: Iterable[Example], task: str, labels: Sequence[str] | None) -> None:
    """Every example has as many texts as the task asks for and, where labels are given, one of them, or a reply."""
    for number, example in enumerate(examples, 1):
        where = example.where or f"example {number}"
        if len(example.texts) != READS[task]:
            raise DataError(f"{where}: this model reads {ASKS[task]}, but the example has {len(example.texts)}")
        if (task == REPLY) != (example.reply is not None) and labels is not None:
            has = "no reply" if task == REPLY else "a reply and no label"
            raise DataError(
                f"{where}: this model answers with {'words' if task == REPLY else 'labels'}, but there is {has}"
            )
        if task != REPLY and labels is not None and example.label not in labels:
            raise DataError(f"{where}: unknown label {example.label!r}; this model knows {', '.join(labels)}")


def most_frequent_share(examples: Sequence[Example]) -> float:
    """What one gets right without reading: the share of the most frequent label; of replies, nothing."""
    if any(example.reply is not None for example in examples):
        return 0.0
    return max(Counter(example.label for example in examples).values()) / len(examples)


if TYPE_CHECKING:
    from memgrow.learner import Learner


@dataclass
class Learning:
    """A lesson that has begun. The learner itself is not touched; `after` is what it will be."""

    after: "Learner"  # with its grown model
    old: Model | None  # the model that met the domain, where its weights go on
    lesson: StageData
    tokenized: Tokenized
    data: Encoded
    validation: Encoded
    trains: Trains
    grew: Grew
    tested: dict[str, Domain]
    seed: int
    started: float

    @property
    def model(self) -> Model:
        return self.after.trained()

    def train(self, resume: ResumeFolder, progress: Progress) -> Outcome:
        with seeded(self.seed, "train", device=self.after.device):
            return train(
                self.model,
                self.data,
                self.validation,
                name=self.lesson.name,
                settings=self.after.training,
                trains=self.trains,
                plugins=self.after.plugins,
                seed=self.seed,
                resume=resume,
                progress=progress,
            )

    def before_domain(self) -> None:
        """Let the plugins prepare for a later domain."""
        if self.old is not None:
            self.after.plugins.before_domain(self.old, self._old_answers)

    def _old_answers(self) -> Tensor:
        assert isinstance(self.old, Classifier)  # others are refused at the beginning
        return self.old.logits(self.data.as_known_to(self.old.vocabulary_size))

    def after_training(self) -> None:
        """Let the method do what it does when training has ended."""
        if self.old is not None:
            self.after.plugins.after_training(self.old, self.model)

    def finish(
        self, outcome: Outcome, note: dict[str, Any] | None = None, scores: dict[str, float] | None = None
    ) -> Stage:
        """Take note of the domain and try the tests, unless that was done, and add the stage to the history."""
        after = self.after
        if note is None:
            note = after.plugins.after_domain(self.model, self.data, after.device, self.seed)
        self.model.requires_grad_(True)
        stage = Stage(
            learned=self.lesson.learned,
            method=after.method.name,
            grew=self.grew,
            parameters=count_parameters(self.model),
            examples=len(self.data),
            **asdict(outcome) | {"seconds": round(max(outcome.seconds, time.monotonic() - self.started), 3)},
            fingerprint=self.lesson.fingerprint,
            note=note,
        )
        after.history.add(stage, after.evaluate(self.tested.values()) if scores is None else scores)
        after.history.baseline |= {name: most_frequent_share(part.test) for name, part in self.tested.items()}
        return stage


def begin(
    learner: "Learner",
    domain: Domain,
    earlier: Sequence[Domain],
    watch: Iterable[Domain],
    vectors: str | Path | None,
    progress: Progress,
    like: Learning | None = None,
) -> Learning:
    """Check that the domain can be learnt, and grow a copy of the learner for it.

    `like` is another learner's learning of this very domain: what it has read need not be read once more.
    """
    started = time.monotonic()
    lesson = validate(_together(learner, domain, earlier), learner.task, learner.labels)
    if (reason := learner.plugins.refuses(lesson.task)) is not None:
        raise SettingsError(f"{learner.method.name}: {reason}")
    tested = {part.name: part for part in (*watch, *lesson.domains) if part.test}
    for part in tested.values():
        check_examples(part.test, lesson.task, lesson.labels)
    warm_up(learner.device)
    seed = derive(learner.seed, "stage", len(learner.history.stages))
    after = copy.copy(learner)
    after.task, after.labels = lesson.task, lesson.labels
    after.plugins, after.history = copy.deepcopy(learner.plugins), copy.deepcopy(learner.history)
    old = None if learner.method.afresh else learner.model
    with seeded(seed, "growth", device=learner.device):
        tokenized = learner.tokenized(lesson.train) if like is None else like.tokenized
        if tokenized.cut and like is None:
            limit = learner.training.max_words
            progress.note(f"{lesson.name}: only the first {limit} words are read of {tokenized.cut} text(s)")
        after.model, after.vocabulary, grew = _grown(learner, old, lesson, tokenized, vectors, progress)
    same = like is not None and like.after.vocabulary == after.vocabulary
    return Learning(
        after=after,
        old=old,
        lesson=lesson,
        tokenized=tokenized,
        data=like.data if like and same else encode(tokenized, after.vocabulary, lesson.labels),
        validation=like.validation if like and same else after.encode(lesson.validation),
        trains=learner.method.trains(old, after.trained()),
        grew=grew,
        tested=tested,
        seed=seed,
        started=started,
    )


def _together(learner: "Learner", domain: Domain, earlier: Sequence[Domain]) -> list[Domain]:
    """The domains of this stage: for a method that sees all at once, the earlier ones must be given again."""
    if not learner.method.together:
        return [domain]
    missing = [name for name in learner.history.domains if name not in {d.name for d in (*earlier, domain)}]
    if missing:
        raise SettingsError(
            f"{learner.method.name} trains on all domains at once and needs the data of {', '.join(missing)} again: "
            "give it too, or use a method that is incremental"
        )
    return [*earlier, domain]


def _grown(
    learner: "Learner",
    old: Model | None,
    lesson: StageData,
    tokenized: Tokenized,
    vectors: str | Path | None,
    progress: Progress,
) -> tuple[Model, Vocabulary, Grew]:
    """The model as it starts on a domain: a new one, or a copy of the old one that has grown."""
    settings, method = learner.settings, learner.method
    known = settings.encoder.first_vocabulary(settings) if old is None else learner.vocabulary
    vocabulary = known
    if old is None or "words" in method.grows:
        vocabulary = known.extended(tokenized.sentences(), learner.training.min_count)
    words = vocabulary.words[len(known) :]
    rows, found = first_vectors(words, settings.embedding, vectors)
    if vectors is not None:
        progress.note(f"{lesson.name}: {found} of {len(words)} new words have a vector in {Path(vectors).name}")
    if old is None:
        model = build(lesson.task, settings, len(vocabulary), len(lesson.labels), lesson.name).to(learner.device)
        if model.word_vectors is not None:
            with torch.no_grad():
                model.word_vectors.weight[len(known) :] = rows.to(learner.device)
        return model, vocabulary, Grew(settings.slots, settings.hidden, len(words), 1)
    model = copy.deepcopy(old)
    return model, vocabulary, grow_for(model, method, learner.options, lesson.name, rows)
