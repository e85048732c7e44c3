"""The optimiser of what trains: Adam by name, at one rate or several; word vectors and slots wait where that pays."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from memgrow.methods import OptimiserState, Plugins, Trains
from memgrow.methods.plugin import WEIGHT
from memgrow.methods.trains import ALL
from memgrow.models import Model
from memgrow.nn import MemoryBank
from memgrow.training.lazy_adam import ActiveRows, LazyAdam
from memgrow.training.waiting_slots import WaitingSlots, waiting_banks

LARGE = 5000  # words: with fewer, a batch of usual size needs so many of them that plain Adam is as fast or faster
MOMENTS = ("exp_avg", "exp_avg_sq")  # what Adam keeps of each entry of a parameter
FULL_RATE = "full_rate"  # of a group of the optimiser, before a schedule scales it


class Optimiser:
    """Adam over parameters by name. Whoever trains calls `begin`, `step` and `flush`, whether rows wait or not."""

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        rate: float | Mapping[str, float],
        capturable: bool = False,
        waits: str | None = None,
        one_rate: bool = True,
        banks: Sequence[tuple[MemoryBank, int]] = (),
    ) -> None:
        """Parameters by name, and the rate of all or of each; `waits` names a table whose rows wait for their batch.

        So do the slots of `banks`, each with the number of its first slots that are frozen.

        Where steps are recorded and there is not `one_rate` from first to last, rates are numbers on the device.
        """
        self.parameters, self._waits = dict(parameters), waits
        rates = rate if isinstance(rate, Mapping) else dict.fromkeys(parameters, rate)
        device = next((p.device for p in parameters.values()), None) if capturable and not one_rate else None
        groups: list[dict[str, Any]] = [
            {
                "params": [p for name, p in parameters.items() if rates[name] == one],
                "lr": one if device is None else torch.tensor(one, device=device),
                FULL_RATE: one,
            }
            for one in dict.fromkeys(rates.values())
        ]
        self.adam = torch.optim.Adam(groups, fused=True, capturable=capturable)
        self.lazy = None if waits is None else LazyAdam(self.parameters[waits], self.adam)
        self.slots = WaitingSlots(banks, self.adam)
        self.rows: ActiveRows | None = None  # of the present batch

    def scale_rates(self, factor: float) -> None:
        """Let each group move at that share of its rate until further notice."""
        for group in self.adam.param_groups:
            now = group[FULL_RATE] * factor
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(now)  # where a recorded step looks for it
            else:
                group["lr"] = now

    def begin(self, words: Callable[[], Tensor]) -> dict[str, Tensor]:
        """Begin a batch that reads those rows of the table; returns what is to have gradients, by name."""
        if self.lazy is None or self._waits is None:
            return self.parameters
        self.rows = self.lazy.activate(words())
        return {**self.parameters, self._waits: self.rows.vectors}

    def moving(self) -> list[Tensor]:
        """All that a backward pass may have given a gradient."""
        rows = [] if self.rows is None else [self.rows.vectors]
        return [*self.parameters.values(), *rows, *self.slots.moving()]

    def step(self) -> None:
        """Move all parameters by their gradients."""
        self.adam.step()
        if self.lazy is not None and self.rows is not None:
            self.lazy.step(self.rows)
        self.slots.step()
        self.rows = None  # what a recorded graph needs only while it runs must not be held

    def flush(self) -> None:
        """Bring rows that have waited up to date: before a model is evaluated, not before it is saved."""
        self.rows = None
        if self.lazy is not None:
            self.lazy.flush()
        self.slots.flush()

    @contextmanager
    def serving(self, embedding: nn.Embedding | None) -> Iterator[None]:
        """Within, an embedding whose table waits hands out the rows of the present batch, and so do banks."""
        with ExitStack() as stack:
            if self.lazy is not None and embedding is not None:
                hook = embedding.register_forward_hook(
                    lambda _, given, __: None if self.rows is None else self.rows(given[0])
                )
                stack.callback(hook.remove)
            stack.enter_context(self.slots.serving())
            yield

    def after_last_step(
        self, value: Callable[[Tensor], Tensor], kinds: Collection[str] | None = None
    ) -> OptimiserState:
        """By parameter Adam's state, what plugins put into it and, as WEIGHT, itself: of these kinds, or all.

        Each tensor is turned into a value.
        """
        known = {name: {**self.adam.state.get(p, {}), WEIGHT: p.detach()} for name, p in self.parameters.items()}
        return {
            name: {kind: value(tensor) for kind, tensor in state.items() if kinds is None or kind in kinds}
            for name, state in known.items()
        }

    def state(self) -> dict[str, Tensor]:
        """Adam's state of each parameter, and what plugins put into it, as kind/name."""
        known = {name: self.adam.state.get(parameter, {}) for name, parameter in self.parameters.items()}
        return {f"{kind}/{name}": tensor for name, kinds in known.items() for kind, tensor in kinds.items()}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take up what `state` gave."""
        for key, tensor in tensors.items():
            kind, name = key.split("/", 1)
            if name in self.parameters:  # an empty one may be left out
                parameter = self.parameters[name]
                if kind in MOMENTS and tensor.shape != parameter.shape:
                    raise ValueError(f"{key} is of another shape than {name}")
                self.adam.state[parameter][kind] = tensor.to(parameter.device)


def optimiser_for(
    model: Model,
    trains: Trains,
    plugins: Plugins,
    rate: float,
    new_rate: float | None = None,
    *,
    one_rate: bool = True,
    parameters: Mapping[str, Tensor] | None = None,
    capturable: bool = False,
) -> Optimiser:
    """The optimiser of what trains in a model; of a stack of such models, with the `parameters` of all of them.

    What nothing has trained before moves at the `new_rate`. Rows can wait only while there is `one_rate` from first to
    last.

    Word vectors wait where there are many and nothing but a batch's own words looks at them. With 77,000 words of 300
    numbers, a step at the paper's sizes took 0.69 to 0.78 s instead of 0.80 to 0.97 s on two busy CPU cores.
    """
    banks = waiting_banks(model, trains, plugins) if one_rate and parameters is None else []
    if parameters is None:
        parameters = {name: p for name, p in model.named_parameters() if name in trains.since}
    rates = {name: rate if new_rate is None or name not in trains.new else new_rate for name in parameters}
    waits = _waiting(model, trains, plugins, parameters) if one_rate else None
    return Optimiser(parameters, rates, capturable, waits, one_rate, banks)


def _waiting(model: Model, trains: Trains, plugins: Plugins, parameters: Mapping[str, Tensor]) -> str | None:
    """The name of the table of word vectors, if its rows can wait and that pays."""
    table = model.word_vectors
    if table is None or table.num_embeddings < LARGE or plugins.sees_every_step or model.scores_by_vectors:
        return None
    name = model.name_of(table.weight)
    return name if name in parameters and trains.since.get(name) == ALL else None
