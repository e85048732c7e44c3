"""What LSTM, GRU and RNN with a memory bank are made of, and how it grows: names and shapes are those of torch.nn."""

import math
from collections.abc import Mapping
from typing import Any, Self, cast

import torch
from torch import nn

from memgrow.errors import SettingsError
from memgrow.nn import kernels
from memgrow.nn.bank import MemoryBank
from memgrow.nn.growth import Growth
from memgrow.nn.kernels import Weights
from memgrow.nn.state_dicts import WholeOrUnchanged, segments_in


class GrowingRecurrent(WholeOrUnchanged):
    """The parameters and banks of `MemoryRecurrent`: one bank for each layer and direction.

    All weights, and the entries of slots, are drawn from U(-1/sqrt(hidden_size), 1/sqrt(hidden_size)) as in torch;
    so are new ones when the layer grows (with the new hidden size).
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
        self.refuse_misfits(state_dict, prefix)
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


def _suffix(layer: int, direction: int) -> str:
    return f"_l{layer}" + ("_reverse" if direction else "")
