"""The large products around the kernels: one before them for all inputs, and one after them for each gradient."""

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from memgrow.nn.kernels.cuda import nvrtc
from memgrow.nn.kernels.cuda.arguments import Collecting, Spreading
from memgrow.nn.kernels.cuda.cluster import ClusterKernel, plan_for
from memgrow.nn.kernels.cuda.cluster_plan import Sizes
from memgrow.nn.kernels.cuda.grid import GridKernel, Shape
from memgrow.nn.kernels.cuda.layer import LSTM, Each, Kernel, Layer, Reading, Trace, exact, processors

MAX_STREAMS = 4
_streams: dict[torch.device, list[torch.cuda.Stream]] = {}
_ready: set[tuple[torch.device, int]] = set()  # devices, and the threads that have multiplied on their streams


def side_by_side(device: torch.device, *works: Callable[[], Any]) -> list[Any]:
    """The results of independent works, each on its own stream where a CUDA graph is being captured."""
    assert len(works) <= MAX_STREAMS
    if device.type != "cuda":
        return [work() for work in works]
    here, known = torch.cuda.current_stream(device), (device, threading.get_ident())
    if not torch.cuda.is_current_stream_capturing():
        if known not in _ready:
            _prepare(device)
            _ready.add(known)
        return [work() for work in works]
    others = _streams[device][: max(0, len(works) - 1)] if known in _ready else []
    for stream in others:
        stream.wait_stream(here)
    found = []
    for number, work in enumerate(works):
        with torch.cuda.stream(others[number - 1] if 0 < number <= len(others) else here):
            found.append(work())
    for stream in others:
        here.wait_stream(stream)
    return found


def _prepare(device: torch.device) -> None:
    """Multiply once on each stream, as cuBLAS then takes its workspace: that must not be memory of a graph."""
    if device not in _streams:
        _streams[device] = [torch.cuda.Stream(device) for _ in range(MAX_STREAMS - 1)]  # type: ignore[no-untyped-call]
    here, some = torch.cuda.current_stream(device), torch.ones(64, 64, device=device)
    for stream in _streams[device]:
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            torch.mm(some, some)
        here.wait_stream(stream)


SOURCE = "layout.cu"
NAMES = 9  # tensors of a direction: h, c, ih, hh, two biases, keys, values, slot bias


def kernel_for(layer: Layer, slot_size: int, exact: bool) -> Kernel:
    """The kernel of clusters where half precision will do and the layer fits, else that of the grid."""
    sizes = (layer.directions, layer.batch, layer.hidden, layer.slots)
    plan = None if exact else plan_for(Sizes(layer.cell, *sizes, slot_size), layer.device)
    if plan is not None:
        return ClusterKernel(layer, plan)
    shape = Shape.of(*sizes, processors(layer.device))
    assert shape is not None
    return GridKernel(layer, shape, exact)


class Run:
    """One forward pass of a layer, and what its backward pass needs."""

    def __init__(
        self,
        cell: str,
        batch_sizes: tuple[int, ...],
        reverse: tuple[bool, ...],
        tensors: Sequence[Tensor | None],
        with_gradient: bool,
    ) -> None:
        plain = [None if t is None else t.detach().float().contiguous() for t in tensors]
        assert tensors[0] is not None
        assert plain[0] is not None
        self.x, self.dtype = plain[0], tensors[0].dtype
        parts = [plain[1 + n :: NAMES] for n in range(NAMES)]
        h0, c0, self.ih, hh, self.bias_ih, self.bias_hh, keys, self.values, self.slot_bias = parts
        assert self.ih[0] is not None
        self.inputs = self.x.shape[1]
        self.slot_size = self.ih[0].shape[1] - self.inputs
        self.layer = layer = Layer(cell, batch_sizes, reverse, self.x.device, h0, c0, hh, keys)
        self.kernel = kernel_for(layer, self.slot_size, exact(self.dtype))
        hidden, d = self.kernel.hidden, layer.directions
        self.w_x = layer.new(d, 4 * hidden, self.inputs)
        self.w_c = layer.new(d, 4 * hidden, self.slot_size)
        self.x_bias = layer.new(d * 4 * hidden)
        self.bias = layer.new(d, self.kernel.slots) if self.slot_bias[0] is not None else None
        argument = Spreading(
            directions=d,
            real_hidden=layer.hidden,
            hidden=hidden,
            real_slots=layer.slots,
            slots=self.kernel.slots,
            inputs=self.inputs,
            slot_size=self.slot_size,
            ih=self.ih,
            bias_ih=self.bias_ih,
            bias_hh=self.bias_hh,
            slot_bias=self.slot_bias,
            w_x=self.w_x,
            w_c=self.w_c,
            x_bias=self.x_bias,
            bias=self.bias,
        )
        self._launch("spread", argument)
        self.with_gradient = with_gradient

    def _from_inputs(self) -> Tensor:
        return torch.addmm(self.x_bias, self.x, self.w_x.view(-1, self.inputs).t())  # (T, D * 4 H)

    def _pack(self) -> None:
        self.kernel.pack(self._reading() if self.layer.slots else Reading(), self.with_gradient)

    def _reading(self) -> Reading:
        if self.kernel.contents:
            return Reading(values=self.values, w_c=self.w_c)
        gate_values = self.layer.new(self.layer.directions, self.layer.slots, self.w_c.shape[1])
        for number, values in enumerate(self.values):
            assert values is not None
            torch.mm(values, self.w_c[number].t(), out=gate_values[number])
        return Reading(gate_values)

    def forward(self) -> tuple[Tensor, ...]:
        """Outputs and last states. They are not kept here: they keep this object alive."""
        layer = self.layer
        _, x = side_by_side(layer.device, self._pack, self._from_inputs)
        self.trace = Trace.of(layer, self.kernel.hidden, self.kernel.slots)
        output, hn, cn = self.kernel.forward(x, self.bias, self.trace)
        last = [t for pair in zip(hn, cn, strict=True) for t in pair if t is not None]
        return tuple(t.to(self.dtype) for t in (output, *last))

    def backward(self, d_output: Tensor, d_last: Sequence[Tensor], wanted: Sequence[bool]) -> list[Tensor | None]:
        layer, d = self.layer, self.layer.directions
        states = len(d_last) // d
        d_final = [t.float().contiguous() for t in d_last]
        mean_key = layer.new(d, layer.total, layer.hidden)

        def mean(number: int, keys: Tensor) -> None:
            torch.mm(self.trace.attention[:, number, : layer.slots], keys, out=mean_key[number])

        there = [(number, keys) for number, keys in enumerate(layer.keys) if keys is not None]
        side_by_side(layer.device, *(functools.partial(mean, *one) for one in there))
        d_gates, d_logits, d_h0, d_c0 = self.kernel.backward(
            self.trace,
            mean_key,
            d_output.float().contiguous(),
            d_final[::states],
            d_final[1::states] if states > 1 else [None] * d,
        )
        # Gradients of all inputs and weights, by one product each for all steps.
        (d_x, d_wx), (d_wh, sums), (d_keys, d_bias), (d_wc, d_values) = side_by_side(
            layer.device,
            lambda: self._of_inputs(d_gates, wanted[0]),
            lambda: self._of_states(d_gates),
            lambda: self._of_keys(d_logits),
            lambda: self._of_values(d_gates),
        )
        gradients = [d_x]
        for parts in zip(d_h0, d_c0, *self._collect(d_wx, d_wc, d_wh, sums), d_keys, d_values, d_bias, strict=True):
            gradients += parts
        return [None if t is None else t.to(self.dtype) for t in gradients]

    def _of_inputs(self, d_gates: Tensor, wanted: bool) -> tuple[Tensor | None, Tensor]:
        """Gradients of the inputs, and of the weights that read them (D * 4 H, I)."""
        flat = d_gates.view(self.layer.total, -1)
        return torch.mm(flat, self.w_x.view(-1, self.inputs)) if wanted else None, torch.mm(flat.t(), self.x)

    def _of_states(self, d_gates: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of the weights that read h (D, 4 H, real H), and of biases (D, 4 H)."""
        before = self.trace.before.transpose(0, 1)[:, :, : self.layer.hidden]
        return torch.bmm(d_gates.permute(1, 2, 0), before), d_gates.sum(0)

    def _of_keys(self, d_logits: Tensor) -> tuple[Each, Each]:
        """Gradients of the keys, and of the slots' bias."""
        h, n = self.layer.hidden, self.layer.slots
        nothing: Each = [None] * self.layer.directions
        if not n:
            return nothing, nothing
        d_keys = torch.bmm(d_logits.permute(1, 2, 0)[:, :n], self.trace.before.transpose(0, 1)[:, :, :h])
        return [*d_keys.unbind()], [*d_logits[:, :, :n].sum(0).unbind()] if self.bias is not None else nothing

    def _of_values(self, d_gates: Tensor) -> tuple[Tensor | None, Each]:
        """Gradients of the weights that read the content (D, 4 H, M), and of the values."""
        layer, n = self.layer, self.layer.slots
        if not n:
            return None, [None] * layer.directions
        d_wc = layer.new(layer.directions, 4 * self.kernel.hidden, self.slot_size)
        contents = self.kernel.contents or _slots_cost_more(layer.total, n, 4 * layer.hidden, self.slot_size)
        through = self._through_contents if contents else self._through_slots
        return d_wc, [*through(d_gates, d_wc).unbind()]

    def _collect(self, d_wx: Tensor, d_wc: Tensor | None, d_wh: Tensor, sums: Tensor) -> list[list[Tensor | None]]:
        """Gradients in torch's layout: of the weights of inputs and of h, and of both biases."""
        layer = self.layer
        d_ih, d_hh, d_bias_ih, d_bias_hh = (
            [None if t is None else torch.empty_like(t) for t in part]
            for part in (self.ih, layer.hh, self.bias_ih, self.bias_hh)
        )
        argument = Collecting(
            directions=layer.directions,
            real_hidden=layer.hidden,
            hidden=self.kernel.hidden,
            inputs=self.inputs,
            slot_size=self.slot_size,
            d_wx=d_wx,
            d_wc=d_wc,
            d_wh=d_wh,
            sums=sums,
            d_ih=d_ih,
            d_hh=d_hh,
            d_bias_ih=d_bias_ih,
            d_bias_hh=d_bias_hh,
        )
        self._launch("collect", argument)
        return [d_ih, d_hh, d_bias_ih, d_bias_hh]

    # The next two give gradients of the values, and write those of the weights into `d_wc`: through what each slot adds
    # to the gates, which is cheap where slots are few, or through the content of each step.

    def _through_slots(self, d_gates: Tensor, d_wc: Tensor) -> Tensor:
        slots = self.layer.slots
        d_slots = torch.bmm(self.trace.attention.permute(1, 2, 0)[:, :slots], d_gates.transpose(0, 1))  # (D, N, 4 H)
        for number, values in enumerate(self.values):
            assert values is not None
            torch.mm(d_slots[number].t(), values, out=d_wc[number])
        return torch.bmm(d_slots, self.w_c)

    def _through_contents(self, d_gates: Tensor, d_wc: Tensor) -> Tensor:
        attention = self.trace.attention.transpose(0, 1)[:, :, : self.layer.slots]  # (D, T, N)
        if self.kernel.content is not None and self.kernel.d_content is not None:
            both = (self.kernel.content, self.kernel.d_content)
            content, d_content = (t.transpose(0, 1)[:, :, : self.slot_size] for t in both)
        else:
            content = self.layer.new(self.layer.directions, self.layer.total, self.slot_size)
            for number, values in enumerate(self.values):
                assert values is not None
                torch.mm(attention[number], values, out=content[number])
            d_content = torch.bmm(d_gates.transpose(0, 1), self.w_c)
        torch.bmm(d_gates.permute(1, 2, 0), content, out=d_wc)
        return torch.bmm(attention.transpose(1, 2), d_content)

    def _launch(self, name: str, argument: Any) -> None:
        device, defines = self.layer.device, {"LSTM": LSTM[self.layer.cell]}
        nvrtc.launch(SOURCE, name, defines, argument, 8 * processors(device), 256, 0, device, together=False)


def _slots_cost_more(rows: int, slots: int, gates: int, size: int) -> bool:
    """Whether gradients through slots take more multiplications than through contents."""
    return slots * gates * (rows + 2 * size) > 2 * rows * size * (slots + gates)
