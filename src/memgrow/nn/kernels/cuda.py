"""The recurrence as persistent kernels (recurrence.cu): all directions of a layer in one launch each way.

Around the kernels stand a few large products: inputs of all steps before the forward pass, gradients of all weights
after the backward pass. `Shape` says how work is shared out among the blocks, `_Run` is one pass through a layer.
"""

import ctypes
import functools
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from memgrow.nn.kernels import nvrtc
from memgrow.nn.kernels.naive import Direction, State

SOURCE = "recurrence.cu"
CHUNK = 32  # rows that a block works on together; as in the source
WARPS = (12, 8)  # of a block: more hide more of the time that memory takes, fewer leave more room for weights
MAX_TILES = 8  # of gates in one block: more would not fit its registers
CELLS = ("lstm", "gru")
POINTER, POINTERS, INT = ctypes.c_void_p, ctypes.c_void_p * 2, ctypes.c_int


class Shape(NamedTuple):
    """How the work of a layer is shared out among blocks."""

    directions: int
    batch: int
    hidden: int  # padded
    slots: int  # padded
    groups: int  # of one direction
    blocks: int  # of one group
    chunks: int  # of one group
    tiles_u: int  # gates of one block, in eights
    tiles_s: int  # slots of one block, in eights

    @property
    def tiles_h(self) -> int:
        """Units of one block, in eights."""
        return -(-2 * self.tiles_u // 8)

    @classmethod
    def of(cls, directions: int, batch: int, hidden: int, slots: int, processors: int) -> "Shape | None":
        """The widest sharing that fits, or None where hidden units are too many for the number of processors."""
        hidden, slots, chunks = _padded(hidden), _padded(slots), -(-batch // CHUNK)
        for groups in (2, 1):
            if groups > chunks:
                continue
            blocks = min(processors // (directions * groups), max(hidden // 2, slots // 8))
            if blocks and (tiles_u := -(-hidden // (2 * blocks))) <= MAX_TILES:
                tiles_s = -(-slots // (8 * blocks))
                return cls(directions, batch, hidden, slots, groups, blocks, -(-chunks // groups), tiles_u, tiles_s)
        return None

    def plan(self, cell: str, exact: bool, forward: bool) -> "Plan":
        """How one of the two walks is compiled and started: with its weights on the chip if they fit."""
        tiles = self.tiles_h + self.tiles_s
        tiles_s, tiles_b = max(1, min(self.tiles_s, 4)), -(-tiles // -(-tiles // 6))
        widest = max(tiles_s, self.tiles_u) if forward else max(tiles_b, self.tiles_h)
        k_units, k_slots = self.hidden // 16, self.slots // 16
        weights = 128 * (
            k_units * self.tiles_s + (k_units + k_slots) * self.tiles_u
            if forward
            else 4 * k_units * tiles + k_slots * self.tiles_h
        )
        defines = {
            "LSTM": int(cell == "lstm"),
            "EXACT": int(exact),
            "ONE": int(self.chunks == 1),
            "TILES_U": self.tiles_u,
            "TILES_S": tiles_s,
            "TILES_B": tiles_b,
        }
        room = CHUNK * (2 + 8 * self.tiles_s + 4 * self.chunks * self.tiles_u)
        for warps in WARPS:
            size = 4 * (room + weights + warps * CHUNK * 8 * widest)
            if size <= nvrtc.SHARED_LIMIT:
                return Plan({**defines, "WARPS": warps}, size, True)
        return Plan({**defines, "WARPS": WARPS[0]}, 4 * (room + WARPS[0] * CHUNK * 8 * widest), False)


class Plan(NamedTuple):
    defines: dict[str, int]
    shared: int  # bytes
    weights_in_shared: bool


def supported(cell: str, data: Tensor, directions: Sequence[Direction]) -> str | None:
    """Why these kernels cannot run a layer here; None if they can."""
    if cell not in CELLS:
        return f"the fast kernels know {' and '.join(CELLS)}, not {cell}"
    if data.dtype not in (torch.float32, torch.bfloat16):
        return f"the fast kernels compute in float32 or bfloat16, not {data.dtype}"
    if torch.cuda.get_device_capability(data.device) < (9, 0):
        return "the fast kernels need a GPU of compute capability 9.0 or above"
    first = directions[0]
    slots = 0 if first.memory is None else len(first.memory.keys)
    shape = Shape.of(len(directions), len(first.state[0]), first.weights.hh.shape[1], slots, _processors(data.device))
    if shape is None:
        return f"{first.weights.hh.shape[1]} hidden units are too many for this GPU's fast kernels"
    if max(shape.plan(cell, True, forward).shared for forward in (True, False)) > nvrtc.SHARED_LIMIT:
        return "the batch or the bank is too large for this GPU's fast kernels"
    return None


def _fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class _Walk(ctypes.Structure):
    _fields_ = [
        *_fields(INT, "directions groups blocks chunks batch steps reversed real_hidden hidden slots real_slots"),
        *_fields(INT, "tiles_s weights_in_shared"),
        *_fields(POINTER, "sizes offsets barrier"),
    ]


class _Forward(ctypes.Structure):
    _fields_ = [
        ("walk", _Walk),
        *_fields(POINTER, "x"),
        *_fields(POINTERS, "h0 c0"),
        *_fields(POINTER, "key_pack gate_pack bias output"),
        *_fields(POINTERS, "hn cn"),
        *_fields(POINTER, "out before cell gates attention scores stats"),
    ]


class _Backward(ctypes.Structure):
    _fields_ = [
        ("walk", _Walk),
        *_fields(POINTER, "d_out"),
        *_fields(POINTERS, "d_hn d_cn"),
        *_fields(POINTER, "before cell"),
        *_fields(POINTERS, "c0"),
        *_fields(POINTER, "gates attention mean_key slope_pack key_pack d_gates weighed d_logits"),
        *_fields(POINTERS, "d_h0 d_c0"),
        *_fields(POINTER, "partial"),
    ]


class _Prepare(ctypes.Structure):
    _fields_ = [
        *_fields(INT, "directions real_hidden hidden real_slots slots inputs slot_size blocks tiles_s backward"),
        *_fields(POINTERS, "ih hh bias_ih bias_hh keys slot_bias"),
        *_fields(POINTER, "gate_values w_x w_c x_bias bias key_pack gate_pack slope_pack back_pack"),
    ]


class _Collect(ctypes.Structure):
    _fields_ = [
        *_fields(INT, "directions real_hidden hidden inputs slot_size"),
        *_fields(POINTER, "d_wx d_wc d_wh sums"),
        *_fields(POINTERS, "d_ih d_hh d_bias_ih d_bias_hh"),
    ]


def recur(
    cell: str, data: Tensor, batch_sizes: Sequence[int], directions: Sequence[Direction]
) -> tuple[Tensor, list[State]]:
    """The outputs of all directions side by side (T, D * H), and the last states of each."""
    tensors: list[Tensor | None] = [data]
    for d in directions:
        tensors += [*(*d.state, None)[:2], *d.weights, *(d.memory or (None, None, None))]
    reverse = tuple(d.reverse for d in directions)
    output, *last = Recurrence.apply(cell, tuple(batch_sizes), reverse, *tensors)  # type: ignore[no-untyped-call]
    size = len(last) // len(directions)
    return output, [tuple(last[size * n : size * (n + 1)]) for n in range(len(directions))]


class Recurrence(torch.autograd.Function):
    """All directions of a layer: packed outputs side by side, and the last states."""

    @staticmethod
    def forward(
        ctx: Any, cell: str, batch_sizes: tuple[int, ...], reverse: tuple[bool, ...], *tensors: Tensor | None
    ) -> Any:
        run = _Run(cell, batch_sizes, reverse, tensors, any(ctx.needs_input_grad))
        ctx.run = run
        return (run.output, *(state for direction in run.last for state in direction))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output: Tensor, *d_last: Tensor) -> Any:
        return (None, None, None, *ctx.run.backward(d_output, d_last, ctx.needs_input_grad[3:]))


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
        self._forward()

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
        argument = _Prepare(
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
            **_each(ih=self.ih, hh=self.hh, bias_ih=self.bias_ih, bias_hh=self.bias_hh, keys=self.keys),
            **_each(slot_bias=self.slot_bias),
            **_one(w_x=self.w_x, w_c=self.w_c, x_bias=self.x_bias, bias=self.bias, key_pack=self.key_pack),
            **_one(gate_pack=self.gate_pack, slope_pack=self.slope_pack, back_pack=self.back_pack),
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

    def _forward(self) -> None:
        s, d, h = self.shape, self.shape.directions, self.real_hidden
        x = torch.addmm(self.x_bias, self.x, self.w_x.view(-1, self.inputs).t())  # (T, D * 4 H)
        self.out, self.before = self._new(s.batch + self.total, d, s.hidden), self._new(self.total, d, s.hidden)
        self.cells, self.gates = self._new(self.total, d, s.hidden), self._new(self.total, d, 4 * s.hidden)
        self.attention = self._new(self.total, d, s.slots)
        output = self._new(self.total, d * h)
        hn = [self._new(s.batch, h) for _ in range(d)]
        cn = [self._new(s.batch, h) if self.cell == "lstm" else None for _ in range(d)]
        plan = s.plan(self.cell, self.exact, forward=True)
        argument = _Forward(
            walk=self._walk(plan),
            **_each(h0=self.h0, c0=self.c0, hn=hn, cn=cn),
            **_one(x=x, key_pack=self.key_pack, gate_pack=self.gate_pack, bias=self.bias, output=output, out=self.out),
            **_one(before=self.before, cell=self.cells, gates=self.gates, attention=self.attention),
            **_one(scores=self._new(d, s.batch, s.slots), stats=self._new(d, s.batch, s.blocks, 2)),
        )
        self._launch("forward", plan, argument)
        self.output = output.to(self.dtype)
        self.last = [[t.to(self.dtype) for t in pair if t is not None] for pair in zip(hn, cn, strict=True)]
        del self.gate_pack

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
        argument = _Backward(
            walk=self._walk(plan),
            **_each(d_hn=d_final[::states], d_cn=d_final[1::states] if states > 1 else [None] * d, c0=self.c0),
            **_each(d_h0=d_h0, d_c0=d_c0),
            **_one(d_out=d_output.float().contiguous(), before=self.before, cell=self.cells, gates=self.gates),
            **_one(attention=self.attention, mean_key=mean_key, slope_pack=self.slope_pack, key_pack=self.back_pack),
            **_one(d_gates=d_gates, weighed=weighed, d_logits=d_logits, partial=self._new(d, s.batch, s.blocks)),
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
        argument = _Collect(
            directions=d,
            real_hidden=h,
            hidden=s.hidden,
            inputs=self.inputs,
            slot_size=self.slot_size,
            **_one(d_wx=d_wx, d_wc=d_wc, d_wh=d_wh, sums=d_gates.sum(0)),
            **_each(d_ih=d_ih, d_hh=d_hh, d_bias_ih=d_bias_ih, d_bias_hh=d_bias_hh),
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

    def _walk(self, plan: Plan) -> _Walk:
        s, steps = self.shape, len(self.batch_sizes)
        self.barrier = torch.zeros(s.directions * s.groups, dtype=torch.int32, device=self.device)
        return _Walk(
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
            **_one(sizes=self.steps[:steps], offsets=self.steps[steps:], barrier=self.barrier),
        )

    def _launch(self, name: str, plan: Plan, argument: ctypes.Structure) -> None:
        if name in ("forward", "backward"):
            blocks, threads = self.shape.directions * self.shape.groups * self.shape.blocks, 32 * plan.defines["WARPS"]
            nvrtc.launch(SOURCE, name, plan.defines, argument, blocks, threads, plan.shared, self.device, together=True)
        else:
            blocks = 4 * _processors(self.device)
            nvrtc.launch(SOURCE, name, plan.defines, argument, blocks, 256, 0, self.device, together=False)


NAMES = 9  # tensors of a direction: h, c, ih, hh, two biases, keys, values, slot bias


def _one(**tensors: Tensor | None) -> dict[str, int | None]:
    return {name: None if tensor is None else tensor.data_ptr() for name, tensor in tensors.items()}


def _each(**tensors: Sequence[Tensor | None]) -> dict[str, Any]:
    """A pointer for each direction."""
    return {
        name: POINTERS(*(None if tensor is None else tensor.data_ptr() for tensor in parts))
        for name, parts in tensors.items()
    }


def _padded(size: int) -> int:
    return -(-size // 16) * 16


@functools.lru_cache(maxsize=512)
def _steps(batch_sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """Rows of each step, then where each step begins and the last one ends, on the device."""
    offsets = list(accumulate((0, *batch_sizes)))
    return torch.tensor([*batch_sizes, *offsets], dtype=torch.int32).pin_memory().to(device, non_blocking=True)


@functools.cache
def _processors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
