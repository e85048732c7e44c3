"""The stepper of a model with a pretrained encoder: on a GPU, steps are recorded and replayed.

A step of a small Transformer is hundreds of kernels of a few microseconds each, which Python cannot launch as fast as
they run. The naive twin is `PlainStepper`.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

import torch
from torch import Tensor

from memgrow.data.batches import Batch, Encoded
from memgrow.methods import Plugins, Trains
from memgrow.models import Classifier, Model
from memgrow.models.pretrained.encoder import PretrainedEncoder
from memgrow.training.graphs import Graphs, separated
from memgrow.training.plain_stepper import PlainStepper
from memgrow.training.settings import TrainingSettings
from memgrow.training.stacked.data import DeviceData, rounded

# Up to so many pieces, lengths are rounded up to a multiple of the other. Coarser than those of a stack: each length
# costs a tenth of a second to record, and padding little.
GRAINS = ((64, 16), (256, 32))


def padded_to(length: int, longest: int) -> int:
    """The length that a batch is padded to: no more than an encoder reads at most."""
    return min(rounded(length, GRAINS), longest)


def recording_obstacle(model: Model) -> str | None:
    """Why the steps of this model cannot be recorded, if so."""
    if not isinstance(model, Classifier) or not isinstance(model.encoder, PretrainedEncoder):
        return "only classifiers with a pretrained encoder are recorded"
    if not model.encoder.masks_itself:
        return f"the library decides in each step anew which attention mask {model.encoder.files.name} needs"
    if model.settings.domains_read:
        return "which domains' slots a text reads is decided text by text"
    return None


class RecordedStepper(PlainStepper):
    """Trains a classifier with a pretrained encoder. Examples are on the device; a step is told their numbers.

    Batches are padded to a rounded length and attention always has a mask, so that a step that is replayed, one that is
    not, and one after a resumed run give the same bits.
    """

    records = True

    def __init__(
        self,
        model: Model,
        data: Encoded,
        validation: Encoded,
        *,
        settings: TrainingSettings,
        trains: Trains,
        plugins: Plugins,
    ) -> None:
        super().__init__(model, data, validation, settings=settings, trains=trains, plugins=plugins)
        assert isinstance(model.encoder, PretrainedEncoder)
        self.examples = DeviceData(data, self.device, partial(padded_to, longest=model.encoder.longest))
        self.numbers = torch.zeros(settings.batch, dtype=torch.long, device=self.device)
        self._coming: Iterator[Tensor] = iter(())  # the numbers of the batches to come, on the device
        self._run = Graphs(lambda length: self._step(self.numbers, length), self.device)

    def epoch(self, number: int, orders: Sequence[Sequence[Sequence[int]]], first: int) -> Iterator[int]:
        (order,) = orders
        every = torch.tensor(list(chain.from_iterable(order))).to(self.device)  # at once, and not batch by batch
        self._coming = iter(torch.split(every, list(map(len, order)))[first:])
        yield from super().epoch(number, orders, first)

    def learn(self, indices: Sequence[int]) -> None:
        numbers, length = next(self._coming), self.examples.steps(torch.tensor(indices))
        if len(numbers) == len(self.numbers):
            self.numbers.copy_(numbers)
            self._run(length)
        else:  # one batch of an epoch may be smaller
            self._step(numbers, length)
        self.seen += len(indices)

    def finish(self) -> None:
        self._run.close()
        super().finish()

    def backward(self, loss: Tensor) -> None:
        # Not loss.backward(): what adds up gradients may live on, and belongs to the stream it was first used on.
        parameters = list(self.optimiser.parameters.values())
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        known = [(p, gradient) for p, gradient in zip(parameters, found, strict=True) if gradient is not None]
        for (parameter, _), gradient in zip(known, separated([gradient for _, gradient in known]), strict=True):
            parameter.grad = gradient

    def _step(self, numbers: Tensor, length: int) -> None:
        self.step(self._batch(numbers, length))
        self.optimiser.adam.zero_grad(set_to_none=True)  # what a graph needs only while it runs must not be held

    def _batch(self, numbers: Tensor, length: int) -> Batch:
        data = self.examples
        words = data.words[numbers, :, :length].transpose(0, 1).flatten(0, 1).long()  # (texts * B, length)
        return Batch(words, data.lengths[numbers].t().flatten(), data.labels[numbers], numbers)
