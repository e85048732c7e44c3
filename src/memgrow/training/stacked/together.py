"""Several learners that differ in their seed alone, taught side by side: many seeds for little more than one.

What each learns is what it would have learnt alone, up to rounding: its first weights, its batches and its stopping are
its own. On a GPU a stack of ten costs about as much as one or two models.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import torch

from memgrow.adaptation import Learning, begin
from memgrow.data import Domain
from memgrow.data.batches import Encoded
from memgrow.history import Stage
from memgrow.methods import Plugins
from memgrow.models import Model
from memgrow.progress import NoProgress, Progress
from memgrow.seeding import derive, seeded
from memgrow.training.resume import ResumeFolder
from memgrow.training.stacked.data import DeviceData, rounded
from memgrow.training.stacked.kernels import prepare
from memgrow.training.stacked.model import Stack, fisher_together, obstacle
from memgrow.training.stacked.stepper import Keeper, correct_of, logits_together, train_together


class Loop(NamedTuple):
    """A choice, and why."""

    name: str
    reason: str


PLAIN, STACKED = "plain", "stacked"
FASTER_ON = {
    "cuda": Loop(STACKED, "steps are recorded once and replayed, so that the GPU does not wait for Python"),
    "cpu": Loop(PLAIN, "steps that are recorded and replayed pay on a GPU alone"),
}
# How many numbers all texts may be when each is as long as the longest: a GiB, which a GPU can spare. A hundred
# thousand pairs of four hundred words are fewer; twenty thousand texts are more if one has twenty thousand words.
ROOM = 1 << 28
FORCED: str | None = None  # one of the two names, whatever the device: for comparing them


def choose_loop(model: Model, device: torch.device, *parts: Encoded) -> Loop:
    """The faster of those that can teach this model these parts of a domain, which a stack keeps on the device."""
    reason = obstacle([model])
    if reason is not None:
        return Loop(PLAIN, reason)
    if FORCED is not None:
        return Loop(FORCED, "it was asked for")
    faster = FASTER_ON.get(device.type, FASTER_ON["cpu"])
    if faster.name == STACKED and sum(map(padded, parts)) > ROOM:
        return Loop(PLAIN, "all texts, made as long as the longest, take too much memory at once")
    return faster


def padded(data: Encoded) -> int:
    """How many numbers the texts are when all are as long as the longest."""
    if not len(data):
        return 0
    return len(data) * len(data.texts[0]) * rounded(max(map(data.length, range(len(data)))))


if TYPE_CHECKING:
    from memgrow.learner import Learner


def adapt_together(
    learners: Sequence["Learner"],
    domain: Domain,
    *,
    earlier: Sequence[Domain] = (),
    vectors: str | Path | None = None,
    progress: Progress | None = None,
) -> list[Stage]:
    """Let all learners learn a domain: as one stack, or one after another where they cannot be stacked."""
    progress = progress or NoProgress()
    learnings: list[Learning] = []
    for learner in learners:
        like = learnings[0] if learnings else None
        learnings.append(begin(learner, domain, earlier, (), vectors, progress, like))
    first = learnings[0]
    alike = all(learning.data is first.data for learning in learnings)
    reason = obstacle([learning.model for learning in learnings]) if alike else "their vocabularies differ"
    if reason is None and first.old is not None:
        before_domain(learnings)
    # Asked when all has been set up: a plugin may begin to remember as the domain arrives.
    reason = reason or first.after.plugins.stacking_obstacle()
    if reason is not None:
        progress.note(f"{domain.name}: the learners are taught one after another, as {reason}")
        return [learner.adapt(domain, earlier=earlier, vectors=vectors, progress=progress) for learner in learners]
    stages = adapt_stack(learnings, progress)
    for learner, learning in zip(learners, learnings, strict=True):
        learner.__dict__ = learning.after.__dict__
    return stages


def adapt_stack(learnings: Sequence[Learning], progress: Progress, resume: ResumeFolder | None = None) -> list[Stage]:
    """Teach learners that can be stacked; a resume, where there is one of them alone, lets a killed run go on."""
    first = learnings[0]
    device = first.after.device
    stack = Stack([learning.model for learning in learnings])
    data, validation = DeviceData(first.data, device), DeviceData(first.validation, device)
    _prepare(stack, first.after.training.batch, data, validation)
    with seeded(derive(first.seed, "lockstep"), "train", device=device):
        outcomes = train_together(
            stack,
            data,
            validation,
            name=first.lesson.name,
            settings=first.after.training,
            trains=first.trains,
            plugins=[learning.after.plugins for learning in learnings],
            seeds=[learning.seed for learning in learnings],
            progress=progress,
            keeper=Keeper(first.model, resume) if resume else None,
        )
    for number, learning in enumerate(learnings):
        stack.write(number, learning.model)
        learning.after_training()
    afters = [learning.after for learning in learnings]
    domain = StackedDomain([learning.model for learning in learnings], data, device, [one.seed for one in learnings])
    notes = Plugins.after_domain_together([after.plugins for after in afters], domain)
    answers = {name: correct_together(afters, part) for name, part in first.tested.items()}
    scores = [{name: fmean(right[number]) for name, right in answers.items()} for number in range(len(afters))]
    finished = zip(learnings, outcomes, notes, scores, strict=True)
    return [learning.finish(outcome, note, score) for learning, outcome, note, score in finished]


def _prepare(stack: Stack, batch: int, data: DeviceData, validation: DeviceData) -> None:
    """Kernels take seconds to compile: that begins as soon as their sizes are known."""
    if len(stack) > 1:
        return  # products of all models at once take the steps
    texts = data.words.shape[1]
    whole = min(batch, len(data.data))
    trained = {
        whole,
        len(data.data) % batch or whole,
        data.rows(whole, data.words.shape[2]),
    }  # with the last, the longest
    tried = {len(indices) for indices, _, _ in validation.in_batches(1)}
    for column in stack.columns:
        for examples in sorted(trained, reverse=True):  # the usual ones first
            prepare(column, texts * examples, with_gradient=True)
        for examples in tried:
            prepare(column, texts * examples, with_gradient=False)


def before_domain(learnings: Sequence[Learning]) -> None:
    """Let all plugins prepare for a domain; where one asks for the old models' answers, all are asked at once."""
    data = learnings[0].data
    device = learnings[0].after.device
    olds = [learning.old for learning in learnings if learning.old is not None]
    answers: list[torch.Tensor] = []

    def ask(number: int) -> torch.Tensor:
        if not answers:
            answers.extend(logits_together(Stack(olds), DeviceData(data, device).as_known_to(olds[0].vocabulary_size)))
        return answers[number]

    for number, (learning, old) in enumerate(zip(learnings, olds, strict=True)):
        learning.after.plugins.before_domain(old, partial(ask, number))


def note_together(learners: Sequence["Learner"], domain: Domain) -> None:
    """Let learners take note of their first domain after the event, as they would have when they learnt it."""
    models = [learner.trained() for learner in learners]
    data = learners[0].encode(domain.train)
    seeds = [derive(learner.seed, "stage", 0) for learner in learners]
    if obstacle(models) is None:
        device = learners[0].device
        noted = StackedDomain(models, DeviceData(data, device), device, seeds)
        Plugins.after_domain_together([learner.plugins for learner in learners], noted)
        return
    for learner, model, seed in zip(learners, models, seeds, strict=True):
        learner.plugins.after_domain(model, data, learner.device, seed)


class StackedDomain:
    """A domain that the models of a stack have learnt."""

    def __init__(self, models: Sequence[Model], data: DeviceData, device: torch.device, seeds: Sequence[int]) -> None:
        self.models, self.data, self.device = models, data.data, device
        self._staged, self._seeds = data, seeds

    def seeded(self, number: int) -> AbstractContextManager[None]:
        return seeded(self._seeds[number], "note", device=self.device)

    def fisher(self, examples: Sequence[Sequence[int]], variant: str) -> list[dict[str, torch.Tensor]]:
        with seeded(derive(self._seeds[0], "lockstep"), "note", device=self.device):
            return fisher_together(Stack(self.models), self._staged, examples, variant)


def correct_together(learners: Sequence["Learner"], domain: Domain, split: str = "test") -> list[list[bool]]:
    """Which examples of one part of a domain each learner answers rightly."""
    models = [learner.trained() for learner in learners]
    examples = getattr(domain, split)
    same = all(learner.vocabulary == learners[0].vocabulary for learner in learners)
    if not same or obstacle(models) is not None or not examples:
        return [learner.correct(domain, split) for learner in learners]
    answers: list[list[bool]] = correct_of(
        Stack(models), DeviceData(learners[0].encode(examples), learners[0].device)
    ).tolist()
    return answers
