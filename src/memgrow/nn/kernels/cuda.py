"""The recurrence as persistent kernels: all directions of a layer in one launch each way.

Around the two walks stand a few large products: inputs of all steps before the forward pass, gradients of all weights
after the backward pass. In float32 all blocks of the GPU walk together (grid_walk.py); where TF32 is allowed, and for
bfloat16, clusters of them walk on their own (cluster_walk.py), if the layer is not too large for that.
"""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from memgrow.nn.kernels import clusters, nvrtc
from memgrow.nn.kernels.cluster_walk import ClusterWalk
from memgrow.nn.kernels.grid_walk import GridWalk
from memgrow.nn.kernels.layer import Layer, Reading, Trace, Walk, processors
from memgrow.nn.kernels.naive import Direction, State
from memgrow.nn.kernels.sharing import Shape
from memgrow.nn.kernels.structures import Collecting, Spreading

CELLS = ("lstm", "gru")
SOURCE = "layout.cu"


def supported(cell: str, data: Tensor, directions: Sequence[Direction]) -> str | None:
    """Why these kernels cannot run a layer here; None if they can."""
    if cell not in CELLS:
        return f"the fast kernels know {' and '.join(CELLS)}, not {cell}"
    if data.dtype not in (torch.float32, torch.bfloat16):
        return f"the fast kernels compute in float32 or bfloat16, not {data.dtype}"
    if torch.cuda.get_device_capability(data.device) < (9, 0):
        return "the fast kernels need a GPU of compute capability 9.0 or above"
    parts = [t for d in directions for t in (*d.state, *d.weights, *(d.memory or ())) if t is not None]
    if any(part.device != data.device for part in parts):
        return "weights, states and input are not all on one device"
    first = directions[0]
    slots, slot_size = (0, 0) if first.memory is None else first.memory.values.shape
    sizes = (len(directions), len(first.state[0]), first.weights.hh.shape[1], slots)
    if not exact(data.dtype) and shared_out(clusters.Sizes(cell, *sizes, slot_size), data.device) is not None:
        return None
    shape = Shape.of(*sizes, processors(data.device))
    if shape is None:
        return f"{first.weights.hh.shape[1]} hidden units are too many for this GPU's fast kernels"
    if max(shape.plan(cell, True, forward).shared for forward in (True, False)) > nvrtc.SHARED_LIMIT:
        return "the batch or the bank is too large for this GPU's fast kernels"
    return None


def recur(
    cell: str, data: Tensor, batch_sizes: Sequence[int], directions: Sequence[Direction]
) -> tuple[Tensor, list[State]]:
    """The outputs of all directions side by side (T, D * H), and the last states of each."""
    tensors: list[Tensor | None] = [data]
    for d in directions:
        tensors += [*(*d.state, None)[:2], *d.weights, *(d.memory or (None, None, None))]
    reverse = tuple(d.reverse for d in directions)
    trains = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
    output, *last = Recurrence.apply(cell, tuple(batch_sizes), reverse, trains, *tensors)  # type: ignore[no-untyped-call]
    size = len(last) // len(directions)
    return output, [tuple(last[size * n : size * (n + 1)]) for n in range(len(directions))]


class Recurrence(torch.autograd.Function):
    """All directions of a layer: packed outputs side by side, and the last states."""

    @staticmethod
    def forward(
        ctx: Any,
        cell: str,
        batch_sizes: tuple[int, ...],
        reverse: tuple[bool, ...],
        trains: bool,
        *tensors: Tensor | None,
    ) -> Any:
        ctx.run = _Run(cell, batch_sizes, reverse, tensors, trains)
        return ctx.run.forward()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output: Tensor, *d_last: Tensor) -> Any:
        with torch.autocast("cuda", enabled=False):
            return (None, None, None, None, *ctx.run.backward(d_output, d_last, ctx.needs_input_grad[4:]))


NAMES = 9  # tensors of a direction: h, c, ih, hh, two biases, keys, values, slot bias


class _Run:
    """One forward pass, and what the backward pass needs of it."""

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
        self.walk = _walk_for(layer, self.slot_size, exact(self.dtype))
        hidden, d = self.walk.hidden, layer.directions
        self.w_x = layer.new(d, 4 * hidden, self.inputs)
        self.w_c = layer.new(d, 4 * hidden, self.slot_size)
        self.x_bias = layer.new(d * 4 * hidden)
        self.bias = layer.new(d, self.walk.slots) if self.slot_bias[0] is not None else None
        argument = Spreading(
            directions=d,
            real_hidden=layer.hidden,
            hidden=hidden,
            real_slots=layer.slots,
            slots=self.walk.slots,
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
        self.walk.pack(self._reading() if layer.slots else Reading(), with_gradient)

    def _reading(self) -> Reading:
        if self.walk.contents:
            return Reading(values=self.values, w_c=self.w_c)
        gate_values = self.layer.new(self.layer.directions, self.layer.slots, self.w_c.shape[1])
        for number, values in enumerate(self.values):
            assert values is not None
            torch.mm(values, self.w_c[number].t(), out=gate_values[number])
        return Reading(gate_values)

    def forward(self) -> tuple[Tensor, ...]:
        """Outputs and last states. They are not kept here: they will hold on to this object as long as they live."""
        layer = self.layer
        x = torch.addmm(self.x_bias, self.x, self.w_x.view(-1, self.inputs).t())  # (T, D * 4 H)
        self.trace = Trace.of(layer, self.walk.hidden, self.walk.slots)
        output, hn, cn = self.walk.forward(x, self.bias, self.trace)
        last = [t for pair in zip(hn, cn, strict=True) for t in pair if t is not None]
        return tuple(t.to(self.dtype) for t in (output, *last))

    def backward(self, d_output: Tensor, d_last: Sequence[Tensor], wanted: Sequence[bool]) -> list[Tensor | None]:
        layer, d = self.layer, self.layer.directions
        states = len(d_last) // d
        d_final = [t.float().contiguous() for t in d_last]
        mean_key = layer.new(d, layer.total, layer.hidden)
        for number, keys in enumerate(layer.keys):
            if keys is not None:
                torch.mm(self.trace.attention[:, number, : layer.slots], keys, out=mean_key[number])
        d_gates, d_logits, d_h0, d_c0 = self.walk.backward(
            self.trace,
            mean_key,
            d_output.float().contiguous(),
            d_final[::states],
            d_final[1::states] if states > 1 else [None] * d,
        )
        gradients = [self._d_x(d_gates) if wanted[0] else None]
        for parts in zip(d_h0, d_c0, *self._d_weights(d_gates), *self._d_memory(d_logits), strict=True):
            gradients += parts
        return [None if t is None else t.to(self.dtype) for t in gradients]

    # After the walk back: gradients of all that went in, a product each for all steps.

    def _d_x(self, d_gates: Tensor) -> Tensor:
        return torch.mm(d_gates.view(self.layer.total, -1), self.w_x.view(-1, self.inputs))

    def _d_weights(self, d_gates: Tensor) -> list[list[Tensor | None]]:
        layer, d, h, n = self.layer, self.layer.directions, self.layer.hidden, self.layer.slots
        d_wx = torch.mm(d_gates.view(layer.total, -1).t(), self.x)  # (D * 4 H, I)
        turned = d_gates.permute(1, 2, 0)  # (D, 4 H, T)
        d_wh = torch.bmm(turned, self.trace.before.transpose(0, 1)[:, :, :h])
        self.d_values: list[Tensor | None] = [None] * d
        d_wc = layer.new(d, 4 * self.walk.hidden, self.slot_size) if n else None
        if d_wc is not None:
            contents = self.walk.contents or _costs(layer.total, n, 4 * h, self.slot_size)
            back = self._through_contents if contents else self._through_slots
            self.d_values = list(back(d_gates, d_wc).unbind())
        d_ih, d_hh, d_bias_ih, d_bias_hh = (
            [None if t is None else torch.empty_like(t) for t in part]
            for part in (self.ih, layer.hh, self.bias_ih, self.bias_hh)
        )
        argument = Collecting(
            directions=d,
            real_hidden=h,
            hidden=self.walk.hidden,
            inputs=self.inputs,
            slot_size=self.slot_size,
            d_wx=d_wx,
            d_wc=d_wc,
            d_wh=d_wh,
            sums=d_gates.sum(0),
            d_ih=d_ih,
            d_hh=d_hh,
            d_bias_ih=d_bias_ih,
            d_bias_hh=d_bias_hh,
        )
        self._launch("collect", argument)
        return [d_ih, d_hh, d_bias_ih, d_bias_hh]

    # The gradients of values, and into `d_wc` (D, 4 H, M) of the weights that read the content: by what each slot adds
    # to the gates, which is cheap where slots are few, or by the content of each step.

    def _through_slots(self, d_gates: Tensor, d_wc: Tensor) -> Tensor:
        slots = self.layer.slots
        d_slots = torch.bmm(self.trace.attention.permute(1, 2, 0)[:, :slots], d_gates.transpose(0, 1))  # (D, N, 4 H)
        for number, values in enumerate(self.values):
            assert values is not None
            torch.mm(d_slots[number].t(), values, out=d_wc[number])
        return torch.bmm(d_slots, self.w_c)

    def _through_contents(self, d_gates: Tensor, d_wc: Tensor) -> Tensor:
        attention = self.trace.attention.transpose(0, 1)[:, :, : self.layer.slots]  # (D, T, N)
        if self.walk.content is not None and self.walk.d_content is not None:
            both = (self.walk.content, self.walk.d_content)
            content, d_content = (t.transpose(0, 1)[:, :, : self.slot_size] for t in both)
        else:
            content = self.layer.new(self.layer.directions, self.layer.total, self.slot_size)
            for number, values in enumerate(self.values):
                assert values is not None
                torch.mm(attention[number], values, out=content[number])
            d_content = torch.bmm(d_gates.transpose(0, 1), self.w_c)
        torch.bmm(d_gates.permute(1, 2, 0), content, out=d_wc)
        return torch.bmm(attention.transpose(1, 2), d_content)

    def _d_memory(self, d_logits: Tensor) -> list[list[Tensor | None]]:
        h, n = self.layer.hidden, self.layer.slots
        nothing: list[Tensor | None] = [None] * self.layer.directions
        if not n:
            return [nothing, nothing, nothing]
        d_keys = torch.bmm(d_logits.permute(1, 2, 0)[:, :n], self.trace.before.transpose(0, 1)[:, :, :h])
        d_bias: list[Tensor | None] = [*d_logits[:, :, :n].sum(0).unbind()] if self.bias is not None else nothing
        return [[*d_keys.unbind()], self.d_values, d_bias]

    def _launch(self, name: str, argument: Any) -> None:
        device, defines = self.layer.device, {"LSTM": int(self.layer.cell == "lstm")}
        nvrtc.launch(SOURCE, name, defines, argument, 8 * processors(device), 256, 0, device, together=False)


def _costs(rows: int, slots: int, gates: int, size: int) -> bool:
    """Whether the way through slots takes more multiplications than the one through contents."""
    return slots * gates * (rows + 2 * size) > 2 * rows * size * (slots + gates)


def _walk_for(layer: Layer, slot_size: int, exact: bool) -> Walk:
    sizes = (layer.directions, layer.batch, layer.hidden, layer.slots)
    shared = None if exact else shared_out(clusters.Sizes(layer.cell, *sizes, slot_size), layer.device)
    if shared is not None:
        return ClusterWalk(layer, shared)
    shape = Shape.of(*sizes, processors(layer.device))
    assert shape is not None
    return GridWalk(layer, shape, exact)


def exact(dtype: torch.dtype) -> bool:
    """Whether products are asked for that are as exact as float32."""
    return dtype == torch.float32 and not torch.backends.cuda.matmul.allow_tf32


@functools.lru_cache(maxsize=4096)
def shared_out(sizes: clusters.Sizes, device: torch.device) -> clusters.Clusters | None:
    """How clusters share out a layer; None if it is too large for them."""
    return clusters.best(sizes, _room(device))


@functools.cache
def _room(device: torch.device) -> dict[int, int]:
    """How many clusters of each size find room at the same time, each block with all the memory that it may have."""

    def most(size: int) -> int:
        limits = (clusters.THREADS, nvrtc.SHARED_LIMIT)
        return nvrtc.most_clusters(SOURCE, "probe", {"LSTM": 1}, size, *limits, device)

    return {size: most(size) for size in clusters.SIZES}
