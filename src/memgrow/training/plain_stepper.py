"""The stepper of one model of any kind: an update for each batch, with the hooks of its method."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

import torch
from torch import Tensor, nn

from memgrow.data.batches import Batch, Encoded, collate
from memgrow.methods import OptimiserState, Plugins, Trains
from memgrow.models import Model
from memgrow.training.evaluation import with_weights
from memgrow.training.optimiser import optimiser_for
from memgrow.training.resume import under
from memgrow.training.settings import TrainingSettings


class PlainStepper:
    """Trains one model of any kind."""

    records: ClassVar[bool] = False  # whether steps are recorded on a GPU and replayed

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
        self.model, self.data, self.validation = model, data, validation
        self.trains, self.plugins, self.settings, self.clip = trains, plugins, settings, settings.clip
        trains.prepare(model)
        self.device = model.device
        self.batches = -(-len(data) // settings.batch)  # of an epoch
        self.warm_up = plugins.warm_up_epochs(self.batches)
        self.optimiser = optimiser_for(
            model,
            trains,
            plugins,
            settings.rate,
            settings.new_rate,
            one_rate=settings.one_rate,
            capturable=self.records and self.device.type == "cuda",
        )
        self.best = self._snapshot()
        self.running = torch.zeros(2, dtype=torch.double, device=self.device)
        self.seen = 0

    def epoch(self, number: int, orders: Sequence[Sequence[Sequence[int]]], first: int) -> Iterator[int]:
        (order,) = orders
        if first == 0:
            self.running.zero_()
            self.seen = 0
        self.model.train()
        with self.optimiser.serving(self.model.word_vectors):
            for done, indices in enumerate(order[first:], first + 1):
                if not self.settings.one_rate:
                    self.optimiser.scale_rates(
                        self.settings.rate_factor(number * self.batches + done - 1, self.batches)
                    )
                self.learn(indices)
                yield done
        self.optimiser.flush()

    def learn(self, indices: Sequence[int]) -> None:
        """One step on the examples of those numbers."""
        self.seen += self.step(collate(self.data, indices, self.device))

    def step(self, batch: Batch) -> int:
        """One update; nothing is read back from the device. Returns the number of answers."""
        optimiser, plugins = self.optimiser, self.plugins
        optimiser.adam.zero_grad(set_to_none=True)
        optimiser.begin(lambda: batch.words)
        output = self.model.training_step(batch)
        parameters = dict(self.model.named_parameters())
        output_loss = None if output.logits is None else plugins.output_loss(output.logits, batch.examples)
        terms = (output.loss, plugins.weight_loss(parameters), output_loss)
        self.backward(torch.stack([term for term in terms if term is not None]).sum())
        self.trains.mask_gradients(self.model)
        nn.utils.clip_grad_norm_(optimiser.moving(), self.clip)
        plugins.before_step(optimiser.parameters)
        optimiser.step()
        plugins.after_step(optimiser.parameters)
        plugins.follow_weights(optimiser.adam, self.batches)
        self.running += torch.stack((output.total, output.right.to(output.total)))
        return output.seen

    def backward(self, loss: Tensor) -> None:
        """Give parameters their gradients."""
        loss.backward()  # type: ignore[no-untyped-call]

    def finite(self) -> list[bool]:
        sums = [parameter.detach().sum() for parameter in self.optimiser.parameters.values()]
        return [not sums or bool(torch.stack(sums).isfinite().all())]

    def score(self) -> list[float]:
        with self._evaluated():
            return [self.model.score(self.validation)]

    def keep(self, places: Sequence[int]) -> None:
        if places:
            with self._evaluated():
                self.best = self._snapshot()

    def narrow(self, places: Sequence[int]) -> None:
        raise AssertionError("there is but one model")

    def optimiser_state(self, place: int, kinds: Collection[str] | None = None) -> OptimiserState:
        return self.optimiser.after_last_step(torch.clone, kinds)

    def state(self) -> dict[str, Tensor]:
        tensors = {f"model/{name}": tensor for name, tensor in self.trains.changing(self.model).items()}
        tensors |= {f"best/{name}": tensor for name, tensor in self.best.items()}
        return tensors | {f"optimiser/{name}": tensor for name, tensor in self.optimiser.state().items()}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        for part in ("model", "best"):
            if missing := self.trains.changing(self.model).keys() - under(tensors, part).keys():
                raise ValueError(f"{part}/{min(missing)} is missing")
        self._put(under(tensors, "model"))
        self.best = {name: tensor.to(self.device) for name, tensor in under(tensors, "best").items()}
        self.optimiser.load_state(under(tensors, "optimiser"))

    def finish(self) -> None:
        self._put(self.best)

    def _put(self, changed: Mapping[str, Tensor]) -> None:
        self.model.load_state_dict({**self.model.state_dict(), **changed})

    def _snapshot(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.trains.changing(self.model).items()}

    def _evaluated(self) -> AbstractContextManager[None]:
        """Within, the weights that a plugin wants evaluated stand in the place of those that train."""
        parameters = dict(self.model.named_parameters())
        return with_weights(self.model, self.plugins.evaluated_weights(self.optimiser.adam, parameters))
