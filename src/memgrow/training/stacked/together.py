"""The choice of the loop that trains a model, and a domain as several models of one shape learn it together.

What each learns is what it would have learnt alone, up to rounding: its first weights, its batches and its stopping are
its own. On a GPU a stack of ten costs about as much as one or two models.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from memgrow.data.batches import Encoded
from memgrow.methods import Plugins, Trains
from memgrow.methods.plugin import Parameters
from memgrow.models import Model, Tally, tally_of
from memgrow.progress import Progress
from memgrow.seeding import derive, seeded
from memgrow.training.loop import Outcome, train
from memgrow.training.recorded import recording_obstacle
from memgrow.training.resume import ResumeFolder
from memgrow.training.settings import TrainingSettings
from memgrow.training.stacked.data import DeviceData, rounded
from memgrow.training.stacked.kernels import prepare
from memgrow.training.stacked.model import Stack, fisher_together, obstacle
from memgrow.training.stacked.stepper import StackStepper, correct_of, logits_together


class Loop(NamedTuple):
    """A choice, and why."""

    name: str
    reason: str


PLAIN, STACKED, RECORDED = "plain", "stacked", "recorded"
REPLAYED = "steps are recorded once and replayed, so that the GPU does not wait for Python"
NOT_ON_CPU = "steps that are recorded and replayed pay on a GPU alone"
# How many numbers all texts may be when each is as long as the longest: a GiB, which a GPU can spare. A hundred
# thousand pairs of four hundred words are fewer; twenty thousand texts are more if one has twenty thousand words.
ROOM = 1 << 28
SIDE_BY_SIDE = 10  # weights of one model that are evaluated as a stack: what they compute takes memory as well


def choose_loop(
    model: Model,
    device: torch.device,
    *parts: Encoded,
    training: TrainingSettings | None = None,
    asked: str | None = None,
) -> Loop:
    """The faster of those that can train this model these parts of a domain, or the one that is asked for."""
    pretrained = model.encoder.is_pretrained
    reason = recording_obstacle(model) if pretrained else stacking_obstacle([model], training)
    if reason is not None:
        return Loop(PLAIN, reason)
    faster = RECORDED if pretrained else STACKED
    if asked is not None:
        return Loop(asked if asked == PLAIN else faster, "it was asked for")
    if device.type != "cuda":
        return Loop(PLAIN, NOT_ON_CPU)
    if sum(map(padded, parts)) > ROOM:
        return Loop(PLAIN, "all texts, made as long as the longest, take too much memory at once")
    return Loop(faster, REPLAYED)


def stacking_obstacle(models: Sequence[Model], training: TrainingSettings | None = None) -> str | None:
    """Why these models cannot be trained as a stack with these settings, if so."""
    if training is not None and not training.one_rate:
        return "a stack moves all parameters at one rate"
    return obstacle(models)


def padded(data: Encoded) -> int:
    """The count of numbers that the texts are when all are as long as the longest."""
    if not len(data):
        return 0
    return len(data) * len(data.texts[0]) * rounded(data.longest)


class StackedDomain:
    """A domain that models of one shape learn as a stack, each with a seed of its own; its data is on the device."""

    def __init__(self, models: Sequence[Model], data: Encoded, seeds: Sequence[int], device: torch.device) -> None:
        self.models, self.data, self.seeds, self.device = models, data, seeds, device
        self._stack, self._data = Stack(models), DeviceData(data, device)

    def prepare(self, validation: Encoded, batch: int) -> None:
        """Put the validation set on the device too, and begin to compile kernels, which takes seconds."""
        self._validation = DeviceData(validation, self.device)
        _prepare(self._stack, batch, self._data, self._validation)

    def logits(self, olds: Sequence[Model]) -> list[Tensor]:
        """The answers of the models as they were before to the domain's examples: (examples, labels) each."""
        return list(logits_together(Stack(olds), self._data.as_known_to(olds[0].vocabulary_size)))

    def train(
        self,
        name: str,
        settings: TrainingSettings,
        trains: Trains,
        plugins: Sequence[Plugins],
        resume: ResumeFolder,
        progress: Progress,
    ) -> list[Outcome]:
        """Train all models; leaves each with the weights of its best epoch."""
        with seeded(derive(self.seeds[0], "lockstep"), "train", device=self.device):
            stepper = StackStepper(
                self._stack, self._data, self._validation, settings=settings, trains=trains, plugins=plugins
            )
            outcomes = train(
                stepper,
                self.data,
                name=name,
                settings=settings,
                seeds=self.seeds,
                plugins=plugins,
                resume=resume,
                progress=progress,
                validation=len(self._validation.data),
            )
        for number, model in enumerate(self.models):
            self._stack.write(number, model)
        return outcomes

    def tally_each(self, number: int, variants: Iterable[Parameters]) -> list[Tally]:
        """One model's answers to the validation set with each of some weights; they stand side by side in a stack."""
        own = {name: p.detach() for name, p in self.models[number].named_parameters()}
        most = max(1, min(SIDE_BY_SIDE, ROOM // sum(p.numel() for p in own.values())))
        every: Iterator[Parameters] = iter(variants)
        tallies: list[Tally] = []
        while some := list(islice(every, most)):
            stack = Stack([self.models[number]])
            stack.parameters = {name: torch.stack([w.get(name, p) for w in some]) for name, p in own.items()}
            tallies += map(tally_of, correct_of(stack, self._validation))
        return tallies

    def seeded(self, number: int) -> AbstractContextManager[None]:
        """Within, chance is that of one of the models after a domain, as if it had learnt alone."""
        return seeded(self.seeds[number], "note", device=self.device)

    def fisher(self, examples: Sequence[Sequence[int]], variant: str) -> list[dict[str, Tensor]]:
        """For each model the diagonal of the Fisher over its own examples (equally many for each), by name."""
        with seeded(derive(self.seeds[0], "lockstep"), "note", device=self.device):
            return fisher_together(Stack(self.models), self._data, examples, variant)


def correct(models: Sequence[Model], data: Encoded, device: torch.device) -> list[list[bool]]:
    """For each of the models, which can be stacked, and each example whether it is answered rightly."""
    answers: list[list[bool]] = correct_of(Stack(models), DeviceData(data, device)).tolist()
    return answers


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
