"""LSTM, GRU and RNN with a memory bank: the contract of torch.nn's layers, plus slots that can grow."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from memgrow.errors import SettingsError
from memgrow.nn import kernels
from memgrow.nn.bank import Growing, Growth, MemoryBank, segments_in
from memgrow.nn.kernels import Direction, State, Weights


class MemoryRecurrent(Growing, nn.Module):
    """The base of the three layers. Each layer and direction has its own bank, which is read before every step.

    All weights, and the entries of slots, are drawn from U(-1/sqrt(hidden_size), 1/sqrt(hidden_size)) as in torch;
    so are new ones when the layer grows (with the new hidden size). With `cuda_graphs`, the backend cuda records calls
    of one shape that repeat, and replays them.
    """

    cell: str  # a key of kernels.CELLS

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
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
        slot_size = hidden_size if slot_size is None else slot_size
        if backend not in kernels.BACKENDS:
            raise SettingsError(f"unknown backend {backend!r}; choose one of {', '.join(kernels.BACKENDS)}")
        if min(input_size, hidden_size, num_layers, slot_size) < 1 or slots < 0:
            raise SettingsError("input_size, hidden_size, num_layers and slot_size must be at least 1, slots 0 or more")
        if not 0 <= dropout < 1:
            raise SettingsError(f"dropout must be at least 0 and below 1, not {dropout}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.slot_size, self.bias, self.batch_first, self.dropout = slot_size, bias, batch_first, dropout
        self.bidirectional, self.backend, self.cuda_graphs = bidirectional, backend, cuda_graphs
        self.recordings: Any = None  # the GPU's, from the first call there on
        self.banks = cast(list[MemoryBank], nn.ModuleList())  # torch has no type for a list of one kind of module

        rows = kernels.CELLS[self.cell].gates * hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else hidden_size * self.num_directions
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, inputs), "weight_hh": (rows, hidden_size)}
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
            for direction in range(self.num_directions):
                for kind, shape in shapes.items():
                    parameter = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
                    self.register_parameter(kind + _suffix(layer, direction), parameter)
                self.banks.append(MemoryBank(hidden_size, slot_size, device=device, dtype=dtype))
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

    def reset_parameters(self) -> None:
        """Draw all weights and slots anew. The logit bias of slots stays as growth set it."""
        bound = 1 / math.sqrt(self.hidden_size)
        biases = {id(bank.bias) for bank in self.banks}
        for parameter in self.parameters():
            if id(parameter) not in biases:
                nn.init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Do nothing: torch's layers have this method, and programs that used them call it."""

    # Reading

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """As torch's layers: `input` is (T, B, I), (B, T, I) with batch_first, (T, I), or a PackedSequence."""
        packed = self._pack(input)
        layers, finals = self._run(packed, self._initial(hx, packed))
        states = [packed.restore_states(torch.stack(parts)) for parts in zip(*finals, strict=True)]
        return packed.restore(layers[-1], self.batch_first), tuple(states) if len(states) > 1 else states[0]

    def reading(self, input: Any, hx: Any = None) -> list[Any]:
        """For each bank, the weight of every slot at every step, in the form of `input` (T, B, slots)."""
        packed = self._pack(input)
        initial = self._initial(hx, packed)
        layers, _ = self._run(packed, initial)
        weights = []
        for index, bank in enumerate(self.banks):
            layer, direction = divmod(index, self.num_directions)
            states = layers[layer].chunk(self.num_directions, dim=-1)[direction]
            queries = _previous(states, initial[index][0], packed.batch_sizes, reverse=direction == 1)
            weights.append(packed.restore(bank.attend(queries)[1], self.batch_first))
        return weights

    def backend_for(self, input: Any) -> tuple[str, str]:
        """The backend that runs the first layer on such an input, and why it is that one."""
        packed = self._pack(input)
        directions = self.directions(0, self._initial(None, packed)[: self.num_directions])
        return kernels.choose(self.cell, packed.data, directions, self.backend)

    def directions(self, layer: int, initial: Sequence[State]) -> list[Direction]:
        """The states, weights and slots of each direction of one layer; `initial` has the first state of each."""
        return [
            Direction(state, self.weights(layer, d), self.bank(layer, d).memory, reverse=d == 1)
            for d, state in enumerate(initial)
        ]

    def _run(self, packed: "_Packed", initial: list[State]) -> tuple[list[Tensor], list[State]]:
        """The output of each layer, packed, and the last state of each layer and direction."""
        data = packed.data
        if data.is_cuda and self.cuda_graphs and self.recordings is None and self.backend != "naive":
            self.recordings = kernels.new_recordings()
        layers: list[Tensor] = []
        finals: list[State] = []
        for layer in range(self.num_layers):
            first = layer * self.num_directions
            directions = self.directions(layer, initial[first : first + self.num_directions])
            data, last = kernels.run(self.cell, data, packed.batch_sizes, directions, self.backend, self.recordings)
            finals += last
            layers.append(data)
            if layer + 1 < self.num_layers:
                data = nn.functional.dropout(data, self.dropout, self.training)
        return layers, finals

    def _pack(self, input: Any) -> "_Packed":
        packed = _Packed.of(input, self.batch_first)
        if packed.data.shape[-1] != self.input_size:
            raise SettingsError(f"the input has {packed.data.shape[-1]} features, but input_size is {self.input_size}")
        return packed

    def _initial(self, hx: Any, packed: "_Packed") -> list[State]:
        """The first state of each layer and direction, rows in packed order."""
        count, states = self.num_layers * self.num_directions, kernels.CELLS[self.cell].states
        shape = (count, packed.batch_sizes[0], self.hidden_size)
        if hx is None:
            parts = (packed.data.new_zeros(shape),) * states
        else:
            parts = tuple(hx) if isinstance(hx, tuple | list) else (hx,)
            if isinstance(packed.source, Tensor) and packed.source.ndim == 2:
                parts = tuple(part.unsqueeze(1) for part in parts)
            if [tuple(part.shape) for part in parts] != [shape] * states:
                found = ", ".join(str(tuple(part.shape)) for part in parts)
                raise SettingsError(f"the initial state must be {states} tensor(s) of shape {shape}, not {found}")
            parts = tuple(packed.in_packed_order(part) for part in parts)
        return [tuple(part[index] for part in parts) for index in range(count)]

    # Growing

    def plan(
        self,
        growth: Growth,
        *,
        slots: int = 0,
        hidden: int = 0,
        domain: str | None = None,
        initial_logit_bias: float = 0.0,
    ) -> None:
        """Plan new slots in every bank, and new hidden units in every layer and direction."""
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
                self.bank(layer, direction).plan(
                    growth, slots=slots, keys=hidden, domain=domain, initial_logit_bias=initial_logit_bias
                )
        growth.then(lambda: setattr(self, "hidden_size", self.hidden_size + hidden))
        growth.then(self._forget_recordings)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        growth = Growth()
        for number, bank in enumerate(self.banks):
            if not len(bank) and segments_in(state_dict, f"{prefix}banks.{number}."):  # it will have its first slots
                ih = self.weights(*divmod(number, self.num_directions)).ih
                growth.enlarge(ih, 1, [(ih.shape[1], self.slot_size)], torch.zeros)
        growth.commit()
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        self._forget_recordings()  # parameters move to another device, or become another dtype
        return super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call, no-any-return]

    def _forget_recordings(self) -> None:
        if self.recordings is not None:
            self.recordings.clear()

    def extra_repr(self) -> str:
        names = ("slots", "slot_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional")
        shown = (f"{name}={getattr(self, name)}" for name in names)
        return f"{self.input_size}, {self.hidden_size}, {', '.join(shown)}"


class MemoryLSTM(MemoryRecurrent):
    """torch.nn.LSTM with a memory bank. With slots=0 it is exactly that layer."""

    cell = "lstm"


class MemoryGRU(MemoryRecurrent):
    """torch.nn.GRU with a memory bank. With slots=0 it is exactly that layer."""

    cell = "gru"


class MemoryRNN(MemoryRecurrent):
    """torch.nn.RNN with a memory bank. With slots=0 it is exactly that layer."""

    def __init__(self, input_size: int, hidden_size: int, *, nonlinearity: str = "tanh", **settings: Any) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise SettingsError(f"nonlinearity must be tanh or relu, not {nonlinearity!r}")
        self.cell = f"rnn_{nonlinearity}"
        super().__init__(input_size, hidden_size, **settings)


LAYERS: dict[str, type[MemoryRecurrent]] = {"lstm": MemoryLSTM, "gru": MemoryGRU, "rnn": MemoryRNN}


class _Packed(NamedTuple):
    """A batch of sequences in the packed form that the recurrence wants, and the input it came from."""

    data: Tensor  # (sum of batch_sizes, features)
    batch_sizes: list[int]
    source: Tensor | PackedSequence

    @classmethod
    def of(cls, input: Any, batch_first: bool) -> "_Packed":
        if isinstance(input, PackedSequence):
            return cls(input.data, input.batch_sizes.tolist(), input)
        if input.ndim not in (2, 3):
            raise SettingsError(f"the input must have 2 or 3 dimensions or be packed, not {input.ndim} dimensions")
        steps = input.unsqueeze(1) if input.ndim == 2 else input.transpose(0, 1) if batch_first else input
        if not len(steps):
            raise SettingsError("the input has no steps: every sequence needs a length of at least 1")
        return cls(steps.reshape(-1, steps.shape[-1]), [steps.shape[1]] * steps.shape[0], input)

    def restore(self, data: Tensor, batch_first: bool) -> Tensor | PackedSequence:
        """Packed rows in the form of the input."""
        source = self.source
        if isinstance(source, PackedSequence):
            return PackedSequence(data, source.batch_sizes, source.sorted_indices, source.unsorted_indices)
        if source.ndim == 2:
            return data
        steps = data.view(len(self.batch_sizes), -1, data.shape[-1])
        return steps.transpose(0, 1) if batch_first else steps

    def restore_states(self, states: Tensor) -> Tensor:
        """States (layers * directions, B, H) in the order of the input, without B where the input has none."""
        source = self.source
        if isinstance(source, PackedSequence):
            return states if source.unsorted_indices is None else states.index_select(1, source.unsorted_indices)
        return states.squeeze(1) if source.ndim == 2 else states

    def in_packed_order(self, states: Tensor) -> Tensor:
        """The opposite."""
        if isinstance(self.source, PackedSequence) and self.source.sorted_indices is not None:
            return states.index_select(1, self.source.sorted_indices.to(states.device))
        return states


def _previous(states: Tensor, first: Tensor, batch_sizes: Sequence[int], reverse: bool) -> Tensor:
    """The state that each step started from, packed like `states` (the states it ended with)."""
    steps = torch.split(states, list(batch_sizes))
    if not reverse:
        before = [first, *steps[:-1]]
        return torch.cat([s[:size] for s, size in zip(before, batch_sizes, strict=True)])
    after = [*steps[1:], first[:0]]
    pairs = zip(after, batch_sizes, strict=True)
    return torch.cat([torch.cat((s, first[len(s) : size])) for s, size in pairs])


def _suffix(layer: int, direction: int) -> str:
    return f"_l{layer}" + ("_reverse" if direction else "")
