"""The memories in the residual stream of a Transformer: where they stand, what they are given, and how they grow."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn

from memgrow.data.batches import Encoded, by_length, collate, token_mask
from memgrow.errors import SettingsError
from memgrow.models.encoder import Encoder
from memgrow.models.pretrained.files import EncoderFiles
from memgrow.models.pretrained.settings import PretrainedSettings
from memgrow.nn import Growth, MemoryBank
from memgrow.nn.residual_memory import ResidualMemory

FIRST_TEXTS = 256  # of a domain, whose queries its slots may start at


class MemoryHook:
    """Adds what a memory has to say to the output of a layer.

    An object and not a function, so that a copied model reads its own memory.
    """

    def __init__(self, memory: ResidualMemory) -> None:
        self.memory = memory
        self.inputs: list[Tensor] | None = None  # a list that is given the layer's output, where somebody wants it

    def __call__(self, layer: nn.Module, given: Any, output: Any) -> Any:
        states, rest = (output[0], output[1:]) if isinstance(output, tuple) else (output, None)
        if self.inputs is not None:
            self.inputs.append(states)
        if not len(self.memory.bank):
            return None
        half = states.dtype == torch.bfloat16  # then the weights of layers have been cast, and those of memories not
        with torch.autocast(states.device.type, torch.bfloat16) if half else nullcontext():
            states = self.memory(states)
        return states if rest is None else (states, *rest)


class WithMemories(Encoder):
    """An encoder around a Transformer (`backbone`) with `memories` after some of its layers, which grow by domains."""

    settings: PretrainedSettings
    files: EncoderFiles
    backbone: nn.Module
    width: int  # of the states
    padding: int  # the piece that stands for none

    def _add_memories(self, layers: nn.ModuleList) -> None:
        self._places = places = self.settings.memory_places(len(layers))
        if places[-1] >= len(layers):
            asked, name = self.settings.memory_layers, self.files.name
            raise SettingsError(f"memory_layers {asked!r}: {name} has {len(layers)} layers: choose among these")
        key_size, best, kind = self.settings.key_size, self.settings.best, self.settings.memory
        memories = [ResidualMemory(self.width, key_size=key_size, best=best, kind=kind) for _ in places]
        self.memories = cast(list[ResidualMemory], nn.ModuleList(memories))
        self._hooks = [MemoryHook(memory) for memory in self.memories]
        for place, hook in zip(places, self._hooks, strict=True):
            layers[place].register_forward_hook(hook)

    @property
    def memory_layers(self) -> tuple[int, ...]:
        """The layers, counted from 1, after which its memories stand."""
        return tuple(place + 1 for place in self._places)

    @property
    def banks(self) -> Sequence[MemoryBank]:
        return [memory.bank for memory in self.memories]

    # Reading

    @abstractmethod
    def states(self, words: Tensor, there: Tensor, full: bool = False) -> Tensor:
        """The states of the last layer (R, T, width) at pieces (R, T), of which only some are there, or `full` all."""

    @torch.no_grad()
    def reading(self, words: Tensor, lengths: Tensor) -> list[dict[str, Tensor]]:
        weights = self.slot_weights(words, lengths)
        return [memory.bank.share(each) for memory, each in zip(self.memories, weights, strict=True)]

    def slot_weights(self, words: Tensor, lengths: Tensor) -> list[Tensor]:
        there = token_mask(words, lengths)
        with self.memory_inputs() as inputs:
            self.states(words, there)
        pairs = zip(self.memories, inputs, strict=True)
        return [memory.weights(states.float()) * there.unsqueeze(-1) for memory, states in pairs]

    @torch.no_grad()
    def additions(self, words: Tensor, lengths: Tensor) -> list[dict[str, float]]:
        """For each memory, how long what each domain's slots add is beside the states, at a mean piece of the rows."""
        there = token_mask(words, lengths)
        with self.memory_inputs() as inputs:
            self.states(words, there)
        found = []
        for memory, given in zip(self.memories, inputs, strict=True):
            states = given.float()[there]  # (pieces, width)
            size = states.norm(dim=-1)
            added = memory.contents(states).items()
            found.append({name: float((content.norm(dim=-1) / size).mean()) for name, content in added})
        return found

    @contextmanager
    def memory_inputs(self) -> Iterator[list[Tensor]]:
        """Within, the states (R, T, width) that the memories are given, one after another."""
        inputs: list[Tensor] = []
        for hook in self._hooks:
            hook.inputs = inputs
        try:
            yield inputs
        finally:
            for hook in self._hooks:
                hook.inputs = None

    # Growing

    @property
    def growing(self) -> Sequence[ResidualMemory]:
        return self.memories

    @torch.no_grad()
    def start_slots(self, domain: str, data: Encoded) -> None:
        """Let the domain's newest slots start at queries that its texts ask, so that all of them are near something."""
        was_training = self.training
        self.eval()
        device = next(self.parameters()).device
        chosen = data.some(torch.randperm(len(data))[:FIRST_TEXTS].tolist())
        asked: list[list[Tensor]] = [[] for _ in self.memories]
        for indices in by_length(chosen, 32):
            batch = collate(chosen, indices, device)
            there = token_mask(batch.words, batch.lengths)
            with self.memory_inputs() as inputs:
                self.states(batch.words, there)
            for queries, memory, states in zip(asked, self.memories, inputs, strict=True):
                queries.append(memory.queries(states[there].float(), domain))
        for queries, memory in zip(asked, self.memories, strict=True):
            memory.start_keys(domain, torch.cat(queries))
        self.train(was_training)

    def _grow(self, slots: int, domain: str | None, initial_logit_bias: float = 0.0) -> None:
        growth = Growth()
        self.plan(growth, slots=slots, domain=domain, initial_logit_bias=initial_logit_bias)
        growth.commit()
