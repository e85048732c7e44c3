"""LSTM, GRU and RNN with a memory bank: the contract of torch.nn's layers, plus slots that can grow."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from memgrow.errors import SettingsError
from memgrow.nn import kernels
from memgrow.nn.autograd import plain_operations_needed
from memgrow.nn.growing_recurrent import GrowingRecurrent
from memgrow.nn.kernels import Direction, Memory, State
from memgrow.nn.packing import Packed, like, pack, previous, rows_packed, states_like

LARGE_SEGMENT = 1 << 15  # numbers that are copied in the time that a further operation for each of some steps takes


class MemoryRecurrent(GrowingRecurrent):
    """The base of the three layers. Each layer and direction has a bank of its own, which is read before every step.

    With `cuda_graphs`, the backend cuda records calls of one shape that repeat, and replays them.
    """

    def directions(
        self, layer: int, initial: Sequence[State], segments: Sequence[int] | Tensor | None = None
    ) -> list[Direction]:
        """The states, weights and slots of each direction of one layer; `initial` has the first state of each.

        The slots are those of all segments, or of the segments of these numbers: for all rows, or (B, count) for each.
        """
        banks = [self.bank(layer, d) for d in range(len(initial))]
        memories: list[Memory | None]
        if isinstance(segments, Tensor) and self.reads_stretches(segments):
            memories = [bank.memory_by_stretch(segments[:, 0]) for bank in banks]
        elif isinstance(segments, Tensor):
            slots = banks[0].slots_of(segments)
            memories = [bank.memory_by_row(slots) for bank in banks]
        else:
            memories = [bank.memory if segments is None else bank.memory_of(segments) for bank in banks]
        return [
            Direction(state, self.weights(layer, d), memory, reverse=d == 1)
            for d, (state, memory) in enumerate(zip(initial, memories, strict=True))
        ]

    def reads_stretches(self, segments: Tensor) -> bool:
        """Whether rows that read these segments (B, count) do so where the slots lie, and not from copies of them.

        That takes less time where slots are large.
        """
        bank = self.bank(0, 0)
        if torch.is_grad_enabled() or segments.shape[1] > 1 or bank.keys.device.type != "cpu":
            return False
        if torch.compiler.is_compiling() or plain_operations_needed() is not None:
            return False
        return (bank.keys.numel() + bank.values.numel()) // len(bank.segments) >= LARGE_SEGMENT

    def backend_for(self, input: Any) -> tuple[str, str]:
        """The backend that runs the first layer on such an input, and why it is that one."""
        packed = self._pack(input)
        directions = self.directions(0, self._initial(None, packed)[: self.num_directions])
        return kernels.choose(self.cell, packed.data, directions, self.backend)

    def forward(self, input: Any, hx: Any = None, segments: Sequence[int] | Tensor | None = None) -> tuple[Any, Any]:
        """As torch's layers: `input` is (T, B, I), (B, T, I) with batch_first, (T, I), or a PackedSequence.

        With `segments`, the slots of these segments of each bank are read, and no others; a tensor (B, count) has
        those of each sequence.
        """
        packed = self._pack(input)
        if isinstance(segments, Tensor):
            segments = rows_packed(segments, packed)
        layers, finals = self._run(packed, self._initial(hx, packed), segments)
        output = like(layers[-1], packed, self.batch_first)
        states = [states_like(torch.stack(parts), packed) for parts in zip(*finals, strict=True)]
        return output, tuple(states) if len(states) > 1 else states[0]

    def reading(self, input: Any, hx: Any = None, segments: Sequence[int] | None = None) -> list[Any]:
        """For each bank, the weight of every slot at every step, in the form of `input` (T, B, slots)."""
        packed = self._pack(input)
        initial = self._initial(hx, packed)
        layers, _ = self._run(packed, initial, segments)
        answers = []
        for index, bank in enumerate(self.banks):
            layer, direction = divmod(index, self.num_directions)
            states = layers[layer].chunk(self.num_directions, dim=-1)[direction]
            queries = previous(states, initial[index][0], packed.batch_sizes, reverse=direction == 1)
            answers.append(like(bank.attend(queries, segments)[1], packed, self.batch_first))
        return answers

    def _run(
        self, packed: Packed, initial: list[State], segments: Sequence[int] | Tensor | None = None
    ) -> tuple[list[Tensor], list[State]]:
        """The output of each layer, packed, and the last state of each layer and direction."""
        data = packed.data
        layers: list[Tensor] = []
        finals: list[State] = []
        for layer in range(self.num_layers):
            first = layer * self.num_directions
            directions = self.directions(layer, initial[first : first + self.num_directions], segments)
            data, last = kernels.run(self.cell, data, packed.batch_sizes, directions, self.backend, self.recordings)
            finals += last
            layers.append(data)
            if layer + 1 < self.num_layers:
                data = nn.functional.dropout(data, self.dropout, self.training)
        return layers, finals

    def _pack(self, input: Any) -> Packed:
        packed = pack(input, self.batch_first)
        if packed.data.shape[-1] != self.input_size:
            raise SettingsError(f"the input has {packed.data.shape[-1]} features, but input_size is {self.input_size}")
        return packed

    def _initial(self, hx: Any, packed: Packed) -> list[State]:
        """The first state of each layer and direction, rows in packed order."""
        count, rows = self.num_layers * self.num_directions, packed.batch_sizes[0]
        shape = (count, rows, self.hidden_size)
        if hx is None:
            parts = (packed.data.new_zeros(shape),) * kernels.CELLS[self.cell].states
        else:
            parts = tuple(hx) if isinstance(hx, tuple | list) else (hx,)
            if len(parts) != kernels.CELLS[self.cell].states:
                asked = "a pair (h, c)" if kernels.CELLS[self.cell].states == 2 else "one tensor h"
                raise SettingsError(
                    f"the initial state of {type(self).__name__} is {asked}, not {len(parts)} tensor(s)"
                )
            if isinstance(packed.source, Tensor) and packed.source.ndim == 2:
                parts = tuple(part.unsqueeze(1) for part in parts)
            if any(tuple(part.shape) != shape for part in parts):
                found = ", ".join(str(tuple(part.shape)) for part in parts)
                raise SettingsError(f"an initial state must have the shape {shape}, not {found}")
            parts = tuple(rows_packed(part, packed, 1) for part in parts)
        return [tuple(part[index] for part in parts) for index in range(count)]


class MemoryLSTM(MemoryRecurrent):
    """torch.nn.LSTM with a memory bank. With slots=0 it is exactly that layer."""

    cell = "lstm"


class MemoryGRU(MemoryRecurrent):
    """torch.nn.GRU with a memory bank. With slots=0 it is exactly that layer."""

    cell = "gru"


class MemoryRNN(MemoryRecurrent):
    """torch.nn.RNN with a memory bank. With slots=0 it is exactly that layer."""

    def __init__(
        self, input_size: int, hidden_size: int, *more: object, nonlinearity: str = "tanh", **settings: Any
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise SettingsError(f"nonlinearity must be tanh or relu, not {nonlinearity!r}")
        self.cell = f"rnn_{nonlinearity}"
        super().__init__(input_size, hidden_size, *more, **settings)


LAYERS: dict[str, type[MemoryRecurrent]] = {"lstm": MemoryLSTM, "gru": MemoryGRU, "rnn": MemoryRNN}
