"""Sparse updates of a memory: only slots that the new domain reads more than earlier ones did may move.

What is kept of the past are counts: how often each slot was read. The idea is that of sparse memory finetuning
(arXiv 2510.15103); its TF-IDF over batches is taken over shares of reads here, as a bank of hundreds of slots has few
that a whole batch never reads.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.data.batches import Encoded, token_mask
from memgrow.errors import SettingsError
from memgrow.methods.plugin import MethodSettings, Parameters, Plugin
from memgrow.methods.trains import ALL, Trains, everything, trainable, what_is_new
from memgrow.models import REPLY, Classifier, Model, ModelSettings
from memgrow.nn import ResidualMemory

Counts = dict[str, Tensor]
"""By the name of a memory: how often each of its slots was read, (N), in float64 on the CPU."""


def memories_of(model: nn.Module) -> dict[str, ResidualMemory]:
    """The memories in the model's residual stream, by the names of these modules."""
    return {name: module for name, module in model.named_modules() if isinstance(module, ResidualMemory)}


def slots_and_head(old: Model | None, new: Model) -> Trains:
    """Keys and values of all memories, of which `SparseUpdates` lets few move, what is new, and the head."""
    if old is None:
        return everything(old, new)
    slots = {id(parameter) for memory in memories_of(new).values() for parameter in memory.bank.parameters()}
    moving = {name: ALL for name, parameter in trainable(new).items() if id(parameter) in slots}
    return Trains({**what_is_new(old, new).since, **moving})


@contextmanager
def counted_reads(model: Model) -> Iterator[Counts]:
    """Within, what the model's memories read is counted, wherever there is a word and not padding."""
    counts = {name: torch.zeros(len(memory.bank), dtype=torch.float64) for name, memory in memories_of(model).items()}
    inside: list[Tensor] = []  # (R, T) of the batch that is being read

    def look(encoder: nn.Module, given: tuple[Tensor, Tensor]) -> None:
        inside[:] = [token_mask(*given)]

    def counter(name: str) -> Callable[[nn.Module, tuple[Tensor], Tensor], None]:
        def count(memory: nn.Module, given: tuple[Tensor], output: Tensor) -> None:
            with torch.no_grad():
                counts[name] += cast(ResidualMemory, memory).counts(given[0], inside[0]).double().cpu()

        return count

    hooks = [model.encoder.register_forward_pre_hook(look)]
    hooks += [memory.register_forward_hook(counter(name)) for name, memory in memories_of(model).items()]
    try:
        yield counts
    finally:
        for hook in hooks:
            hook.remove()


def added(earlier: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> Counts:
    """The counts of both; slots that have joined since stand at the end and had none before."""
    return {name: _as_long(earlier.get(name), count) + count for name, count in new.items()}


def _as_long(earlier: Tensor | None, new: Tensor) -> Tensor:
    return torch.zeros_like(new) if earlier is None else F.pad(earlier, (0, len(new) - len(earlier)))


def scores(new: Tensor, earlier: Tensor) -> Tensor:
    """For counts (N) of a new domain's reads and of all earlier ones': how much each slot is the new domain's.

    The share of the new reads that go to the slot, times the logarithm of how much larger it is than the slot's share
    of the earlier reads: above zero where the new domain reads a slot more than the earlier ones did.
    """
    share = new / new.sum().clamp(min=1e-12)
    before = (earlier + 1) / (earlier.sum() + len(earlier))  # as if each had been read once more: none is zero
    return torch.xlogy(share, share / before)


def chosen_slots(new: Tensor, earlier: Tensor, most: int) -> Tensor:
    """Which slots may move (N): those of the highest scores, `most` of them at most, all above zero."""
    ranked = scores(new, earlier)
    best = ranked.argsort(descending=True, stable=True)[:most]
    return torch.zeros_like(ranked, dtype=torch.bool).index_fill(0, best, True) & (ranked > 0)


class SparseUpdates(Plugin):
    """Lets only some slots of each memory move, and slots that are new; counts of reads are all that is remembered."""

    needs_every_domain = True
    reads = ("sparse_slots",)

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__(settings)
        self.counts: Counts = {}
        self.moving: dict[str, Tensor] = {}  # by the name of a parameter: which of the old rows may move
        self._moved: list[int] = []  # slots of each memory that could, in the last domain
        self._were: dict[str, Tensor] = {}

    def refuses(self, task: str) -> str | None:
        return "sparse updates need a classifier; a model of replies has no such memory" if task == REPLY else None

    def before_domain(self, old: Model, ask: Callable[[], Tensor]) -> None:
        _check(old)
        with counted_reads(old) as new:
            ask()
        earlier = added(self.counts, {name: torch.zeros_like(count) for name, count in new.items()})
        self.moving, self._moved = {}, []
        for name, memory in memories_of(old).items():
            chosen = chosen_slots(new[name], earlier[name], self.settings.sparse_slots)
            self._moved.append(int(chosen.sum()))
            self.moving |= {f"{name}.bank.{part}": chosen.to(old.device) for part in ("keys", "values")}
            quiet = [torch.zeros(0, dtype=torch.bool)]
            quiet += [chosen[segment.start : segment.stop] for segment in memory.bank.segments if segment.quiet]
            self.moving[f"{name}.bank.bias"] = torch.cat(quiet).to(old.device)

    @torch.no_grad()
    def before_step(self, parameters: Parameters) -> None:
        self._were = {
            name: parameters[name][: len(moves)].clone() for name, moves in self.moving.items() if name in parameters
        }

    @torch.no_grad()
    def after_step(self, parameters: Parameters) -> None:
        for name, before in self._were.items():
            moves = self.moving[name].view(-1, *[1] * (before.ndim - 1))
            old = parameters[name][: len(before)]
            old.copy_(torch.where(moves, old, before))
        self._were = {}

    def recording_obstacle(self) -> None:
        """None: what may move is settled as a domain arrives."""

    def after_training(self, old: Model, new: Model) -> None:
        self.moving = {}

    def after_domain(self, model: Model, data: Encoded, device: torch.device) -> dict[str, Any]:
        _check(model)
        with counted_reads(model) as new:
            cast(Classifier, model).logits(data)
        self.counts = added(self.counts, new)
        note = {"sparse_slots": self.settings.sparse_slots, "slots_moved": self._moved}
        return note if self._moved else {}

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.counts)

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self.counts = {name: count.cpu() for name, count in tensors.items()}

    def keep_rows(self, kept: Mapping[str, Tensor]) -> None:
        for name, count in self.counts.items():
            if (rows := kept.get(f"{name}.bank.keys")) is not None:
                self.counts[name] = count[rows[rows < len(count)]]

    def fits(self, model: Model) -> bool:
        memories = memories_of(model)
        return self.counts.keys() <= memories.keys() and all(
            count.ndim == 1 and len(count) <= len(memories[name].bank) for name, count in self.counts.items()
        )


def needs_slots(settings: ModelSettings) -> str | None:
    """Why a model of these settings has no slots that could move, if so."""
    if settings.kind.is_pretrained and settings.slots:
        return None
    has = "with model.slots: 0 it has none" if settings.kind.is_pretrained else f"{settings.cell} has none"
    return (
        f"sparse moves slots that a memory in a Transformer has had from the first domain on, and {has}: "
        "give a pretrained encoder (--encoder) and slots (--set model.slots=256)"
    )


def _check(model: Model) -> None:
    if not any(len(memory.bank) for memory in memories_of(model).values()):
        raise SettingsError(
            "sparse updates move slots of a memory in a Transformer's layers, and this model has none: "
            "use a pretrained encoder, and slots from the first domain on (model.slots)"
        )
