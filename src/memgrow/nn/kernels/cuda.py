"""The recurrence as persistent kernels (recurrence.cu): all directions of a layer in one launch each way.

Around the kernels stand a few large products: inputs of all steps before the forward pass, gradients of all weights
after the backward pass. `Shape` says how work is shared out among the blocks, `_Run` is one pass through a layer.
"""

import ctypes
import functools
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from memgrow.nn.kernels import nvrtc
from memgrow.nn.kernels.naive import Direction, State
from memgrow.nn.kernels.sharing import Plan, Shape
from memgrow.nn.kernels.structures import Backward, Collect, Forward, Prepare, Walk, each, one

SOURCE = "recurrence.cu"
CELLS = ("lstm", "gru")


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
    slots = 0 if first.memory is None else len(first.memory.keys)
    shape = Shape.of(len(directions), len(first.state[0]), first.weights.hh.shape[1], slots, _processors(data.device))
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
        self.cell, self.reverse, self.batch_sizes, self.total = cell, reverse, batch_sizes, sum(batch_sizes)
        self.dtype, self.device, self.x = tensors[0].dtype, tensors[0].device, plain[0]
        # Of each of these there is one tensor for each direction, or None.
        parts = [plain[1 + n :: NAMES] for n in range(NAMES)]
        self.h0, self.c0, self.ih, self.hh, self.bias_ih, self.bias_hh, self.keys, self.values, self.slot_bias = parts
        assert self.hh[0] is not None
        assert self.ih[0] is not None
        self.real_hidden, self.inputs = self.hh[0].shape[1], self.x.shape[1]
        self.real_slots = 0 if self.keys[0] is None else len(self.keys[0])
        self.slot_size = self.ih[0].shape[1] - self.inputs
        processors = _processors(self.device)
        shape = Shape.of(len(reverse), batch_sizes[0], self.real_hidden, self.real_slots, processors)
        assert shape is not None
        self.shape = shape
        self.exact = self.dtype == torch.float32 and not torch.backends.cuda.matmul.allow_tf32
        self.steps = _steps(batch_sizes, self.device)
        self._prepare(with_gradient)

    def _new(self, *sizes: int) -> Tensor:
        return torch.empty(sizes, dtype=torch.float32, device=self.device)

    def _prepare(self, with_gradient: bool) -> None:
        """Lay the weights out as the kernels want them."""
        s, d, tiles = self.shape, self.shape.directions, self.shape.tiles_h + self.shape.tiles_s
        self.w_x, self.w_c = self._new(d, 4 * s.hidden, self.inputs), self._new(d, 4 * s.hidden, self.slot_size)
        self.x_bias = self._new(d * 4 * s.hidden)
        self.bias = self._new(d, s.slots) if self.slot_bias[0] is not None else None
        self.gate_pack = self._new(d, s.blocks, (s.hidden + s.slots) // 16, s.tiles_u, 128)
        self.key_pack = self._new(d, s.blocks, s.hidden // 16, s.tiles_s, 128)
        self.slope_pack = self._new(d, s.blocks, s.hidden // 4, tiles, 128) if with_gradient else None
        self.back_pack = self._new(d, s.blocks, s.slots // 16, s.tiles_h, 128) if with_gradient else None
        argument = Prepare(
            directions=d,
            real_hidden=self.real_hidden,
            hidden=s.hidden,
            real_slots=self.real_slots,
            slots=s.slots,
            inputs=self.inputs,
            slot_size=self.slot_size,
            blocks=s.blocks,
            tiles_s=s.tiles_s,
            backward=int(with_gradient),
            **each(ih=self.ih, hh=self.hh, bias_ih=self.bias_ih, bias_hh=self.bias_hh, keys=self.keys),
            **each(slot_bias=self.slot_bias),
            **one(w_x=self.w_x, w_c=self.w_c, x_bias=self.x_bias, bias=self.bias, key_pack=self.key_pack),
            **one(gate_pack=self.gate_pack, slope_pack=self.slope_pack, back_pack=self.back_pack),
        )
        plan = s.plan(self.cell, self.exact, forward=True)
        self._launch("spread", plan, argument)
        gate_values = None
        if self.real_slots:
            gate_values = self._new(d, self.real_slots, 4 * s.hidden)  # what each slot adds to the gates
            for number, values in enumerate(self.values):
                assert values is not None
                torch.mm(values, self.w_c[number].t(), out=gate_values[number])
            argument.gate_values = gate_values.data_ptr()
        self._launch("pack", plan, argument)

    def forward(self) -> tuple[Tensor, ...]:
        """Outputs and last states. They are not kept here: they will hold on to this object as long as they live."""
        s, d, h = self.shape, self.shape.directions, self.real_hidden
        x = torch.addmm(self.x_bias, self.x, self.w_x.view(-1, self.inputs).t())  # (T, D * 4 H)
        self.out, self.before = self._new(s.batch + self.total, d, s.hidden), self._new(self.total, d, s.hidden)
        self.cells, self.gates = self._new(self.total, d, s.hidden), self._new(self.total, d, 4 * s.hidden)
        self.attention = self._new(self.total, d, s.slots)
        output = self._new(self.total, d * h)
        hn = [self._new(s.batch, h) for _ in range(d)]
        cn = [self._new(s.batch, h) if self.cell == "lstm" else None for _ in range(d)]
        plan = s.plan(self.cell, self.exact, forward=True)
        argument = Forward(
            walk=self._walk(plan),
            **each(h0=self.h0, c0=self.c0, hn=hn, cn=cn),
            **one(x=x, key_pack=self.key_pack, gate_pack=self.gate_pack, bias=self.bias, output=output, out=self.out),
            **one(before=self.before, cell=self.cells, gates=self.gates, attention=self.attention),
            **one(scores=self._new(d, s.batch, s.slots), stats=self._new(d, s.batch, s.blocks, 2)),
        )
        self._launch("forward", plan, argument)
        del self.gate_pack
        last = [t for pair in zip(hn, cn, strict=True) for t in pair if t is not None]
        return tuple(t.to(self.dtype) for t in (output, *last))

    def backward(self, d_output: Tensor, d_last: Sequence[Tensor], wanted: Sequence[bool]) -> list[Tensor | None]:
        s, d, h, n = self.shape, self.shape.directions, self.real_hidden, self.real_slots
        states = len(d_last) // d
        d_final = [t.float().contiguous() for t in d_last]
        d_gates, weighed = self._new(self.total, d, 4 * s.hidden), self._new(self.total, d, s.slots)
        d_logits, mean_key = torch.empty_like(weighed), self._new(d, self.total, h)
        for number, keys in enumerate(self.keys):
            if keys is not None:
                torch.mm(self.attention[:, number, :n], keys, out=mean_key[number])
        d_h0 = [self._new(s.batch, h) for _ in range(d)]
        d_c0 = [self._new(s.batch, h) if self.cell == "lstm" else None for _ in range(d)]
        plan = s.plan(self.cell, self.exact, forward=False)
        argument = Backward(
            walk=self._walk(plan),
            **each(d_hn=d_final[::states], d_cn=d_final[1::states] if states > 1 else [None] * d, c0=self.c0),
            **each(d_h0=d_h0, d_c0=d_c0),
            **one(d_out=d_output.float().contiguous(), before=self.before, cell=self.cells, gates=self.gates),
            **one(attention=self.attention, mean_key=mean_key, slope_pack=self.slope_pack, key_pack=self.back_pack),
            **one(d_gates=d_gates, weighed=weighed, d_logits=d_logits, partial=self._new(d, s.batch, s.blocks)),
        )
        self._launch("backward", plan, argument)
        gradients = [self._d_x(d_gates) if wanted[0] else None]
        for parts in zip(d_h0, d_c0, *self._d_weights(d_gates), *self._d_memory(d_logits), strict=True):
            gradients += parts
        return [None if t is None else t.to(self.dtype) for t in gradients]

    # After the walk back: gradients of all that went in, a product each for all steps.

    def _d_x(self, d_gates: Tensor) -> Tensor:
        return torch.mm(d_gates.view(self.total, -1), self.w_x.view(-1, self.inputs))

    def _d_weights(self, d_gates: Tensor) -> list[list[Tensor | None]]:
        s, d, h, n = self.shape, self.shape.directions, self.real_hidden, self.real_slots
        d_wx = torch.mm(d_gates.view(self.total, -1).t(), self.x)  # (D * 4 H, I)
        turned = d_gates.permute(1, 2, 0)  # (D, 4 H, T)
        d_wh = torch.bmm(turned, self.before.transpose(0, 1)[:, :, :h])
        self.d_values: list[Tensor | None] = [None] * d
        d_wc = None
        if n:
            d_slots = torch.bmm(self.attention.permute(1, 2, 0)[:, :n], d_gates.transpose(0, 1))  # (D, N, 4 H)
            d_wc = self._new(d, 4 * s.hidden, self.slot_size)
            for number, values in enumerate(self.values):
                assert values is not None
                torch.mm(d_slots[number].t(), values, out=d_wc[number])
            self.d_values = list(torch.bmm(d_slots, self.w_c).unbind())
        d_ih, d_hh, d_bias_ih, d_bias_hh = (
            [None if t is None else torch.empty_like(t) for t in part]
            for part in (self.ih, self.hh, self.bias_ih, self.bias_hh)
        )
        argument = Collect(
            directions=d,
            real_hidden=h,
            hidden=s.hidden,
            inputs=self.inputs,
            slot_size=self.slot_size,
            **one(d_wx=d_wx, d_wc=d_wc, d_wh=d_wh, sums=d_gates.sum(0)),
            **each(d_ih=d_ih, d_hh=d_hh, d_bias_ih=d_bias_ih, d_bias_hh=d_bias_hh),
        )
        self._launch("collect", s.plan(self.cell, self.exact, forward=True), argument)
        return [d_ih, d_hh, d_bias_ih, d_bias_hh]

    def _d_memory(self, d_logits: Tensor) -> list[list[Tensor | None]]:
        h, n = self.real_hidden, self.real_slots
        nothing: list[Tensor | None] = [None] * self.shape.directions
        if not n:
            return [nothing, nothing, nothing]
        d_keys = torch.bmm(d_logits.permute(1, 2, 0)[:, :n], self.before.transpose(0, 1)[:, :, :h])
        d_bias: list[Tensor | None] = [*d_logits[:, :, :n].sum(0).unbind()] if self.bias is not None else nothing
        return [[*d_keys.unbind()], self.d_values, d_bias]

    # Talking to the kernels

    def _walk(self, plan: Plan) -> Walk:
        s, steps = self.shape, len(self.batch_sizes)
        self.barrier = torch.zeros(s.directions * s.groups, dtype=torch.int32, device=self.device)
        return Walk(
            directions=s.directions,
            groups=s.groups,
            blocks=s.blocks,
            chunks=s.chunks,
            batch=s.batch,
            steps=steps,
            reversed=sum(1 << d for d, backwards in enumerate(self.reverse) if backwards),
            real_hidden=self.real_hidden,
            hidden=s.hidden,
            slots=s.slots,
            real_slots=self.real_slots,
            tiles_s=s.tiles_s,
            weights_in_shared=int(plan.weights_in_shared),
            **one(sizes=self.steps[:steps], offsets=self.steps[steps:], barrier=self.barrier),
        )

    def _launch(self, name: str, plan: Plan, argument: ctypes.Structure) -> None:
        if name in ("forward", "backward"):
            blocks, threads = self.shape.directions * self.shape.groups * self.shape.blocks, 32 * plan.defines["WARPS"]
            nvrtc.launch(SOURCE, name, plan.defines, argument, blocks, threads, plan.shared, self.device, together=True)
        else:
            blocks = 4 * _processors(self.device)
            nvrtc.launch(SOURCE, name, plan.defines, argument, blocks, 256, 0, self.device, together=False)


NAMES = 9  # tensors of a direction: h, c, ih, hh, two biases, keys, values, slot bias


@functools.lru_cache(maxsize=512)
def _steps(batch_sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """Rows of each step, then where each step begins and the last one ends, on the device."""
    offsets = list(accumulate((0, *batch_sizes)))
    return torch.tensor([*batch_sizes, *offsets], dtype=torch.int32).pin_memory().to(device, non_blocking=True)


@functools.cache
def _processors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
