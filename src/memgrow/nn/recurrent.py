"""LSTM, GRU and RNN with a memory bank: the contract of torch.nn's layers, plus slots that can grow."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from memgrow.errors import SettingsError
from memgrow.nn import kernels
from memgrow.nn.bank import MemoryBank
from memgrow.nn.growth import Growth
from memgrow.nn.kernels import Direction, Memory, State, Weights
from memgrow.nn.packing import Packed, like, pack, previous, rows_packed, states_like
from memgrow.nn.state_dicts import segments_in


class MemoryRecurrent(nn.Module):
    """The base of the three layers. Each layer and direction has a bank of its own, which is read before every step.

    All weights, and the entries of slots, are drawn from U(-1/sqrt(hidden_size), 1/sqrt(hidden_size)) as in torch;
    so are new ones when the layer grows (with the new hidden size). With `cuda_graphs`, the backend cuda records calls
    of one shape that repeat, and replays them.
    """

    cell: str  # a row of kernels.CELLS

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *more: object,
        slots: int = 0,
        slot_size: int | None = None,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        domain: str | None = None,
        backend: str = "auto",
        cuda_graphs: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if more:
            raise SettingsError(
                f"{type(self).__name__} takes two sizes by position and all else by name, as torch's third is "
                f"num_layers: write num_layers={more[0]}, or slots={more[0]} for so many slots"
            )
        if backend not in kernels.BACKENDS:
            raise SettingsError(f"there is no backend {backend!r}; there are {', '.join(kernels.BACKENDS)}")
        sizes = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
        for name, size in [*sizes.items(), ("slot_size", hidden_size if slot_size is None else slot_size)]:
            if size < 1:
                raise SettingsError(f"{name} must be at least 1, not {size}")
        if slots < 0:
            raise SettingsError(f"slots must be 0 or more, not {slots}")
        if not 0 <= dropout < 1:
            raise SettingsError(f"dropout must be at least 0 and below 1, not {dropout}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.slot_size = hidden_size if slot_size is None else slot_size
        self.bias, self.batch_first, self.dropout = bias, batch_first, dropout
        self.bidirectional, self.backend = bidirectional, backend
        self.recordings = kernels.Recordings() if cuda_graphs else None
        self.banks = cast(list[MemoryBank], nn.ModuleList())  # torch has no name for a list of one kind of module

        rows = kernels.CELLS[self.cell].gates * hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else hidden_size * self.num_directions
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, inputs), "weight_hh": (rows, hidden_size)}
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
            for direction in range(self.num_directions):
                for kind, shape in shapes.items():
                    parameter = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
                    self.register_parameter(kind + _suffix(layer, direction), parameter)
                self.banks.append(MemoryBank(hidden_size, self.slot_size, device=device, dtype=dtype))
        self.reset_parameters()
        if slots:
            self.grow(slots=slots, domain=domain)

    @property
    def num_directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def slots(self) -> int:
        """How many slots each bank has."""
        return len(self.bank(0, 0))

    def bank(self, layer: int, direction: int) -> MemoryBank:
        """The bank that one layer reads in one direction (0 forward, 1 backward)."""
        return self.banks[layer * self.num_directions + direction]

    def weights(self, layer: int, direction: int) -> Weights:
        """The weights and biases of one layer in one direction."""

        def part(kind: str) -> Any:
            return getattr(self, kind + _suffix(layer, direction), None)

        return Weights(part("weight_ih"), part("weight_hh"), part("bias_ih"), part("bias_hh"))

    def directions(
        self, layer: int, initial: Sequence[State], segments: Sequence[int] | Tensor | None = None
    ) -> list[Direction]:
        """The states, weights and slots of each direction of one layer; `initial` has the first state of each.

        The slots are those of all segments, or of the segments of these numbers: for all rows, or (B, count) for each.
        """
        banks = [self.bank(layer, d) for d in range(len(initial))]
        memories: list[Memory | None]
        if isinstance(segments, Tensor):
            slots = banks[0].slots_of(segments)
            memories = [bank.memory_by_row(slots) for bank in banks]
        else:
            memories = [bank.memory if segments is None else bank.memory_of(segments) for bank in banks]
        return [
            Direction(state, self.weights(layer, d), memory, reverse=d == 1)
            for d, (state, memory) in enumerate(zip(initial, memories, strict=True))
        ]

    def backend_for(self, input: Any) -> tuple[str, str]:
        """The backend that runs the first layer on such an input, and why it is that one."""
        packed = self._pack(input)
        directions = self.directions(0, self._initial(None, packed)[: self.num_directions])
        return kernels.choose(self.cell, packed.data, directions, self.backend)

    def reset_parameters(self) -> None:
        """Draw all weights and slots anew. The bias of quiet slots is no weight: it stays what growth set it to."""
        bound = 1 / math.sqrt(self.hidden_size)
        quiet = {id(bank.bias) for bank in self.banks}
        for parameter in self.parameters():
            if id(parameter) not in quiet:
                nn.init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Do nothing: torch's layers have this method, and programs that used them call it."""

    def _apply(self, *given: Any, **named: Any) -> Self:
        self._forget_recordings()  # parameters move to another device, or become another dtype
        return super()._apply(*given, **named)  # type: ignore[no-untyped-call, no-any-return]

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        growth = Growth()
        for number, bank in enumerate(self.banks):
            if not len(bank) and segments_in(state_dict, f"{prefix}banks.{number}."):  # it will have its first slots
                ih = self.weights(*divmod(number, self.num_directions)).ih
                growth.enlarge(ih, 1, [(ih.shape[1], self.slot_size)], torch.zeros)
        growth.commit()
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _forget_recordings(self) -> None:
        if self.recordings is not None:
            self.recordings.clear()

    # Running

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

    # Growing

    def grow(
        self,
        *,
        slots: int = 0,
        hidden: int = 0,
        domain: str | None = None,
        quiet: float = 0.0,
        optimiser: torch.optim.Optimizer | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Add slots to every bank, or hidden units to every layer and direction; old parameters keep their bits."""
        growth = Growth(optimiser, generator)
        self.plan(growth, slots=slots, hidden=hidden, domain=domain, quiet=quiet)
        growth.commit()

    def plan(
        self,
        growth: Growth,
        *,
        slots: int = 0,
        hidden: int = 0,
        domain: str | None = None,
        quiet: float = 0.0,
    ) -> None:
        """Make new slots and hidden units part of a larger growth."""
        if slots < 0 or hidden < 0:
            raise SettingsError(f"a layer grows by 0 or more slots and hidden units, not {slots} and {hidden}")
        unit = (self.hidden_size, hidden)  # every run of H entries is followed by the new ones
        gates = kernels.CELLS[self.cell].gates
        draw = growth.uniform(1 / math.sqrt(self.hidden_size + hidden))
        for layer in range(self.num_layers):
            inputs = [(self.input_size, 0)] if layer == 0 else [unit] * self.num_directions
            # A layer without slots has no columns for their content: the first slots bring them.
            content = (self.slot_size, 0) if self.slots else (0, self.slot_size if slots else 0)
            for direction in range(self.num_directions):
                weights = self.weights(layer, direction)
                for name, parameter in weights._asdict().items():
                    if parameter is not None:
                        growth.enlarge(parameter, 0, [unit] * gates, draw)
                    if name == "ih":
                        growth.enlarge(parameter, 1, [*inputs, content], draw)
                    elif name == "hh":
                        growth.enlarge(parameter, 1, [unit], draw)
                self.bank(layer, direction).plan(growth, slots=slots, keys=hidden, domain=domain, quiet=quiet)
        growth.then(lambda: setattr(self, "hidden_size", self.hidden_size + hidden))
        growth.then(self._forget_recordings)

    def extra_repr(self) -> str:
        shown = [
            str(self.input_size),
            str(self.hidden_size),
            f"slots={self.slots}",
            f"slot_size={self.slot_size}",
        ]
        defaults = {
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
        }
        shown += [f"{name}={getattr(self, name)}" for name, usual in defaults.items() if getattr(self, name) != usual]
        return ", ".join(shown)


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


def _suffix(layer: int, direction: int) -> str:
    return f"_l{layer}" + ("_reverse" if direction else "")
