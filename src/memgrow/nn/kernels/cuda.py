"""The recurrence as persistent kernels (recurrence.cu): all directions of a layer in one launch each way.

Around the kernels stand a few large products: inputs of all steps before the forward pass, gradients of all weights
after the backward pass. `Layout` says how weights are laid out for the kernels, `Shape` how work is shared out.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from memgrow.nn.kernels import nvrtc
from memgrow.nn.kernels.naive import Direction, Memory, State, Weights

SOURCE = "recurrence.cu"
CHUNK, THREADS = 32, 256  # rows that a block works on together; as in the source
MAX_TILES = 8  # of gates in one block: more would not fit its registers
CELLS = ("lstm", "gru")
POINTER, INT = ctypes.c_void_p, ctypes.c_int


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
    tiles_h: int  # units of one block, in eights

    @property
    def units(self) -> int:
        return 2 * self.tiles_u

    @classmethod
    def of(cls, directions: int, batch: int, hidden: int, slots: int, processors: int) -> "Shape | None":
        """The widest sharing that fits, or None where hidden units are too many for the number of processors."""
        hidden, slots, chunks = _padded(hidden), _padded(slots), -(-batch // CHUNK)
        for groups in (2, 1):
            if groups > chunks:
                continue
            blocks = min(processors // (directions * groups), max(hidden // 2, slots // 8))
            if blocks < 1:
                continue
            tiles_u = -(-hidden // (2 * blocks))
            if tiles_u <= MAX_TILES:
                sizes = (tiles_u, -(-slots // (8 * blocks)), -(-2 * tiles_u // 8))
                return cls(directions, batch, hidden, slots, groups, blocks, -(-chunks // groups), *sizes)
        return None

    def defines(self, cell: str, exact: bool) -> dict[str, int]:
        tiles = self.tiles_h + self.tiles_s
        return {
            "LSTM": int(cell == "lstm"),
            "EXACT": int(exact),
            "TILES_U": self.tiles_u,
            "TILES_S": max(1, min(self.tiles_s, 4)),
            "TILES_B": -(-tiles // -(-tiles // 6)),
        }

    def shared(self, defines: dict[str, int], forward: bool) -> tuple[int, bool]:
        """Bytes of shared memory that a block asks for, and whether its weights have room there too."""
        widest = max(defines["TILES_S"], defines["TILES_B"], self.tiles_u, self.tiles_h)
        room = 3 * CHUNK + CHUNK * 8 * self.tiles_s + 2 * self.chunks * CHUNK * self.units + 8 * CHUNK * 8 * widest
        k_gates, k_slots = self.hidden // 16, self.slots // 16
        weights = (
            k_gates * self.tiles_s + (k_gates + k_slots) * self.tiles_u
            if forward
            else 4 * k_gates * (self.tiles_h + self.tiles_s) + k_slots * self.tiles_h
        ) * 128
        fits = 4 * (room + weights) <= nvrtc.SHARED_LIMIT
        return 4 * (room + (weights if fits else 0)), fits


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
    if shape.shared(shape.defines(cell, True), True)[0] > nvrtc.SHARED_LIMIT:
        return "the batch or the bank is too large for this GPU's fast kernels"
    return None


class _Walk(ctypes.Structure):
    _fields_ = [
        *((name, INT) for name in ("directions", "groups", "blocks", "chunks", "batch", "steps", "reversed", "hidden")),
        *((name, INT) for name in ("slots", "real_slots", "tiles_s", "tiles_h", "weights_in_shared")),
        *((name, POINTER) for name in ("sizes", "offsets", "barrier")),
    ]


class _Forward(ctypes.Structure):
    _fields_ = [
        ("walk", _Walk),
        *((name, POINTER) for name in ("x", "h0", "c0", "key_pack", "gate_pack", "bias", "out", "before", "cell")),
        *((name, POINTER) for name in ("gates", "attention", "scores", "stats")),
    ]


class _Backward(ctypes.Structure):
    _fields_ = [
        ("walk", _Walk),
        *((name, POINTER) for name in ("d_out", "d_hn", "d_cn", "before", "cell", "c0", "gates", "attention")),
        *((name, POINTER) for name in ("mean_key", "slope_pack", "key_pack", "d_gates", "weighed", "row_sum")),
        *((name, POINTER) for name in ("d_h0", "d_c0", "partial")),
    ]


class Layout:
    """The weights of all directions side by side, every unit's columns together and sizes padded.

    Columns of a unit: LSTM i, f, g, o; GRU r, z, what h gives the candidate, what the input gives it.
    """

    def __init__(self, cell: str, x: Tensor, directions: Sequence[Direction], shape: Shape) -> None:
        self.inner = [0, 1, 2, 3] if cell == "lstm" else [0, 1, 2]
        self.outer = [0, 1, 2, 3] if cell == "lstm" else [0, 1, 3]
        first = directions[0]
        self.real_hidden, self.inputs = first.weights.hh.shape[1], x.shape[1]
        self.real_slots, self.slot_size = (0, 0) if first.memory is None else first.memory.values.shape
        self.shape = shape
        ih = _stacked([d.weights.ih for d in directions])
        self.w_x = self.spread(ih[:, :, : self.inputs], self.outer)  # (D, 4 H, inputs)
        self.w_c = self.spread(ih[:, :, self.inputs :], self.outer)  # (D, 4 H, M)
        self.w_h = self.spread(_stacked([d.weights.hh for d in directions]), self.inner)
        self.bias: Tensor | None = None
        if first.weights.bias_ih is not None:
            bias_ih = _stacked([d.weights.bias_ih for d in directions])
            bias_hh = _stacked([d.weights.bias_hh for d in directions])
            outer, inner = (self.spread(b.unsqueeze(-1), c) for b, c in ((bias_ih, self.outer), (bias_hh, self.inner)))
            self.bias = (outer + inner).view(-1)
        self.slot_bias: Tensor | None = None
        memories = [d.memory for d in directions if d.memory is not None]
        self.keys = _stacked([m.keys for m in memories])  # (D, N, H) as they are; empty without a memory
        self.values = _stacked([m.values for m in memories])
        self.gate_values = torch.bmm(self.values, self.w_c.transpose(1, 2)) if memories else self.values  # (D, N, 4 H)
        if memories and memories[0].bias is not None:
            self.slot_bias = ih.new_zeros(shape.directions, shape.slots)
            self.slot_bias[:, : self.real_slots] = _stacked([m.bias for m in memories])

    def spread(self, weight: Tensor, columns: list[int]) -> Tensor:
        """(D, gates * H, k) as (D, 4 * padded H, k)."""
        count, _, k = weight.shape
        wide = weight.new_zeros(count, self.shape.hidden, 4, k)
        gates = weight.view(count, len(columns), self.real_hidden, k).transpose(1, 2)
        wide[:, : self.real_hidden, columns] = gates
        return wide.view(count, 4 * self.shape.hidden, k)

    def gather(self, wide: Tensor, columns: list[int]) -> Tensor:
        """The way back from `spread`."""
        count, _, k = wide.shape
        gates = wide.view(count, self.shape.hidden, 4, k)[:, : self.real_hidden, columns]
        return gates.transpose(1, 2).reshape(count, len(columns) * self.real_hidden, k)

    def forward_packs(self) -> tuple[Tensor | None, Tensor]:
        s, h, n = self.shape, self.real_hidden, self.real_slots
        gates = self.w_h.new_zeros(s.directions, s.hidden + s.slots, s.blocks * s.units * 4)
        gates[:, :h, : 4 * s.hidden] = self.w_h.transpose(1, 2)
        keys = None
        if n:
            gates[:, s.hidden : s.hidden + n, : 4 * s.hidden] = self.gate_values
            keys = self.w_h.new_zeros(s.directions, s.hidden, s.blocks * s.tiles_s * 8)
            keys[:, :h, :n] = self.keys.transpose(1, 2)
            keys = _pack(keys, s.blocks)
        return keys, _pack(gates, s.blocks)

    def backward_packs(self) -> tuple[Tensor, Tensor | None]:
        s, h, n = self.shape, self.real_hidden, self.real_slots
        own, units = 8 * s.tiles_s, 8 * s.tiles_h
        slopes = self.w_h.new_zeros(s.directions, 4 * s.hidden, s.blocks, units + own)
        wide = self.w_h.new_zeros(s.directions, 4 * s.hidden, s.blocks * s.units)
        wide[:, :, :h] = self.w_h
        slopes[..., : s.units] = wide.view(s.directions, -1, s.blocks, s.units)
        keys = None
        if n:
            wide = self.w_h.new_zeros(s.directions, 4 * s.hidden, s.blocks * own)
            wide[:, :, :n] = self.gate_values.transpose(1, 2)
            slopes[..., units:] = wide.view(s.directions, -1, s.blocks, own)
            wide = self.w_h.new_zeros(s.directions, s.slots, s.blocks * s.units)
            wide[:, :n, :h] = self.keys
            keys = self.w_h.new_zeros(s.directions, s.slots, s.blocks, units)
            keys[..., : s.units] = wide.view(s.directions, -1, s.blocks, s.units)
            keys = _pack(keys.flatten(2), s.blocks)
        return _pack(slopes.flatten(2), s.blocks), keys


def recur(
    cell: str, data: Tensor, batch_sizes: Sequence[int], directions: Sequence[Direction]
) -> tuple[Tensor, list[State]]:
    """The outputs of all directions side by side (T, D * H), and the last states of each."""
    tensors: list[Tensor | None] = [data]
    for d in directions:
        tensors += [*(*d.state, None)[:2], *d.weights, *(d.memory or (None, None, None))]
    reverse = tuple(d.reverse for d in directions)
    output, *last = Recurrence.apply(cell, tuple(batch_sizes), reverse, *tensors)
    size = len(last) // len(directions)
    return output, [tuple(last[size * n : size * (n + 1)]) for n in range(len(directions))]


class Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, cell: str, batch_sizes: tuple[int, ...], reverse: tuple[bool, ...], *tensors: Tensor | None
    ) -> Any:
        x, directions = _directions(tensors, reverse)
        run = _Run(cell, x, batch_sizes, directions)
        output, last = run.forward()
        ctx.run = run
        ctx.save_for_backward(*(t for t in tensors if t is not None))
        ctx.absent = [t is None for t in tensors]
        return (output, *last)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, d_output: Tensor, *d_last: Tensor) -> Any:
        present = iter(ctx.saved_tensors)
        tensors = [None if absent else next(present) for absent in ctx.absent]
        x, _ = _directions(tensors, ctx.run.reverse)
        gradients = ctx.run.backward(x, d_output, d_last, ctx.needs_input_grad[3])
        return (None, None, None, *(None if a else g for a, g in zip(ctx.absent, gradients, strict=True)))


class _Run:
    """One forward pass, and what the backward pass needs of it."""

    def __init__(self, cell: str, x: Tensor, batch_sizes: tuple[int, ...], directions: list[Direction]) -> None:
        self.cell, self.directions, self.dtype, self.device = cell, len(directions), x.dtype, x.device
        self.reverse = tuple(d.reverse for d in directions)
        first = directions[0]
        slots = 0 if first.memory is None else len(first.memory.keys)
        shape = Shape.of(len(directions), batch_sizes[0], first.weights.hh.shape[1], slots, _processors(x.device))
        assert shape is not None
        self.shape, self.batch_sizes = shape, batch_sizes
        self.exact = x.dtype == torch.float32 and not torch.backends.cuda.matmul.allow_tf32
        self.defines = shape.defines(cell, self.exact)
        self.layout = Layout(cell, x, directions, shape)
        self.total = sum(batch_sizes)
        offsets = [0]
        for size in batch_sizes:
            offsets.append(offsets[-1] + size)
        lengths = [0] * batch_sizes[0]
        for step, size in enumerate(batch_sizes):  # longest first: step t is the last of rows that the next lacks
            following = batch_sizes[step + 1] if step + 1 < len(batch_sizes) else 0
            for row in range(following, size):
                lengths[row] = offsets[step] + row
        numbers = torch.tensor([*batch_sizes, *offsets[:-1], *lengths], dtype=torch.int32)
        numbers = numbers.pin_memory().to(x.device, non_blocking=True)
        steps = len(batch_sizes)
        self.sizes, self.offsets, self.ends = numbers[:steps], numbers[steps : 2 * steps], numbers[2 * steps :]
        self.x = x.float()
        self.first = [self._states([d.state[part] for d in directions]) for part in range(len(first.state))]

    def forward(self) -> tuple[Tensor, list[Tensor]]:
        s, layout = self.shape, self.layout
        new, width = self._new, s.hidden
        flat = layout.w_x.view(-1, layout.inputs).t()
        x4 = torch.mm(self.x, flat) if layout.bias is None else torch.addmm(layout.bias, self.x, flat)
        key_pack, gate_pack = layout.forward_packs()
        self.out, self.before, self.cells = new(width), new(width), new(width)
        self.gates, self.attention = new(4 * width), new(s.slots)
        scores = self.x.new_empty(s.directions, s.batch, s.slots)
        stats = self.x.new_empty(s.directions, s.batch, s.blocks, 2)
        argument = self._argument(
            _Forward,
            forward=True,
            x=x4,
            h0=self.first[0],
            c0=self.first[-1],
            key_pack=key_pack,
            gate_pack=gate_pack,
            bias=layout.slot_bias,
            out=self.out,
            before=self.before,
            cell=self.cells,
            gates=self.gates,
            attention=self.attention,
            scores=scores,
            stats=stats,
        )
        self._launch("forward", argument)
        h = layout.real_hidden
        output = self.out[:, :, :h].reshape(self.total, -1).to(self.dtype)
        last = []
        for d in range(self.directions):
            rows = torch.arange(s.batch, device=self.device) if self.reverse[d] else self.ends
            for kept in (self.out, self.cells)[: len(self.first)]:
                last.append(kept[:, d].index_select(0, rows)[:, :h].to(self.dtype))
        return output, last

    def backward(self, x: Tensor, d_output: Tensor, d_last: Sequence[Tensor], wants_x: bool) -> list[Tensor | None]:
        s, layout, h = self.shape, self.layout, self.layout.real_hidden
        new, states = self._new, len(self.first)
        d_out = new(s.hidden).zero_() if h != s.hidden else new(s.hidden)
        d_out[:, :, :h] = d_output.view(self.total, self.directions, h)
        d_final = [self._states(list(d_last[part::states])) for part in range(states)]
        slope_pack, key_pack = layout.backward_packs()
        mean_key = None
        if layout.real_slots:
            mean_key = new(s.hidden)
            by_direction = self.attention[:, :, : layout.real_slots].transpose(0, 1)
            mean_key[:, :, :h] = torch.bmm(by_direction, layout.keys).transpose(0, 1)
        d_gates, weighed = new(4 * s.hidden), new(s.slots)
        row_sum = self.x.new_empty(self.total, s.directions)
        d_first = [torch.empty_like(part) for part in self.first]
        partial = self.x.new_empty(s.directions, s.batch, s.blocks)
        argument = self._argument(
            _Backward,
            forward=False,
            d_out=d_out,
            d_hn=d_final[0],
            d_cn=d_final[-1],
            before=self.before,
            cell=self.cells,
            c0=self.first[-1],
            gates=self.gates,
            attention=self.attention,
            mean_key=mean_key,
            slope_pack=slope_pack,
            key_pack=key_pack,
            d_gates=d_gates,
            weighed=weighed,
            row_sum=row_sum,
            d_h0=d_first[0],
            d_c0=d_first[-1],
            partial=partial,
        )
        self._launch("backward", argument)
        return self._finish(d_gates, weighed, row_sum, d_first, wants_x)

    def _finish(
        self, d_gates: Tensor, weighed: Tensor, row_sum: Tensor, d_first: list[Tensor], wants_x: bool
    ) -> list[Tensor | None]:
        """Gradients of all that went in: one product each for all steps and directions."""
        s, layout, h, n = self.shape, self.layout, self.layout.real_hidden, self.layout.real_slots
        flat = d_gates.view(self.total, -1)
        d_x = torch.mm(flat, layout.w_x.view(-1, layout.inputs)).to(self.dtype) if wants_x else None
        d_wx = torch.mm(flat.t(), self.x).view(s.directions, -1, layout.inputs)
        turned = d_gates.permute(1, 2, 0)  # (D, 4 H, T)
        before = self.before.transpose(0, 1)[:, :, :h]  # (D, T, H)
        d_hh = layout.gather(torch.bmm(turned, before), layout.inner)
        d_ih = layout.gather(d_wx, layout.outer)
        d_keys = d_values = d_bias = None
        if layout.real_slots:
            attention = self.attention[:, :, :n]
            logits = weighed[:, :, :n] - attention * row_sum.unsqueeze(-1)
            d_keys = torch.bmm(logits.permute(1, 2, 0), before)
            d_gate_values = torch.bmm(attention.permute(1, 2, 0), d_gates.transpose(0, 1))  # (D, N, 4 H)
            d_values = torch.bmm(d_gate_values, layout.w_c)
            d_wc = torch.bmm(d_gate_values.transpose(1, 2), layout.values)
            d_ih = torch.cat((d_ih, layout.gather(d_wc, layout.outer)), dim=2)
            d_bias = logits.sum(0) if layout.slot_bias is not None else None
        sums = d_gates.sum(0).unsqueeze(-1)  # (D, 4 H, 1)
        d_bias_ih, d_bias_hh = (layout.gather(sums, columns).squeeze(-1) for columns in (layout.outer, layout.inner))
        gradients: list[Tensor | None] = [d_x]
        for d in range(self.directions):
            firsts = [part[d, :, :h] for part in d_first]
            parts = [*(*firsts, None)[:2], d_ih[d], d_hh[d], d_bias_ih[d], d_bias_hh[d]]
            parts += [None if part is None else part[d] for part in (d_keys, d_values, d_bias)]
            gradients += [None if part is None else part.to(self.dtype) for part in parts]
        return gradients

    def _new(self, width: int) -> Tensor:
        return self.x.new_empty(self.total, self.directions, width)

    def _states(self, parts: list[Tensor]) -> Tensor:
        wide = self.x.new_zeros(self.directions, self.shape.batch, self.shape.hidden)
        wide[:, :, : self.layout.real_hidden] = torch.stack(parts)
        return wide

    def _argument(self, kind: type[ctypes.Structure], forward: bool, **tensors: Tensor | None) -> Any:
        s = self.shape
        self._barrier = torch.zeros(s.directions * s.groups, dtype=torch.int32, device=self.device)
        _, fits = s.shared(self.defines, forward)
        walk = _Walk(
            directions=s.directions,
            groups=s.groups,
            blocks=s.blocks,
            chunks=s.chunks,
            batch=s.batch,
            steps=len(self.batch_sizes),
            reversed=sum(1 << d for d, backwards in enumerate(self.reverse) if backwards),
            hidden=s.hidden,
            slots=s.slots,
            real_slots=self.layout.real_slots,
            tiles_s=s.tiles_s,
            tiles_h=s.tiles_h,
            weights_in_shared=int(fits),
            sizes=self.sizes.data_ptr(),
            offsets=self.offsets.data_ptr(),
            barrier=self._barrier.data_ptr(),
        )
        return kind(walk=walk, **{name: None if t is None else t.data_ptr() for name, t in tensors.items()})

    def _launch(self, name: str, argument: Any) -> None:
        shared, _ = self.shape.shared(self.defines, name == "forward")
        blocks = self.shape.directions * self.shape.groups * self.shape.blocks
        nvrtc.launch(SOURCE, name, self.defines, argument, blocks, THREADS, shared, self.device)


def _pack(matrix: Tensor, blocks: int) -> Tensor:
    """(D, k, n) in the order in which lanes read it: [D][block][16 of k][8 of n][n in 8][k in 4][4 of k]."""
    count, k, n = matrix.shape
    parts = matrix.view(count, k // 16, 4, 4, blocks, n // (8 * blocks), 8)
    return parts.permute(0, 4, 1, 5, 6, 2, 3).contiguous()


def _stacked(parts: Sequence[Tensor | None]) -> Tensor:
    present = [part for part in parts if part is not None]
    return torch.stack(present).float() if present else torch.empty(0)


def _padded(size: int) -> int:
    return -(-size // 16) * 16


def _processors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _directions(tensors: Sequence[Tensor | None], reverse: tuple[bool, ...]) -> tuple[Tensor, list[Direction]]:
    x = tensors[0]
    assert x is not None
    directions = []
    for number, backwards in enumerate(reverse):
        h, c, ih, hh, bias_ih, bias_hh, keys, values, bias = tensors[1 + 9 * number : 10 + 9 * number]
        assert h is not None
        assert ih is not None
        assert hh is not None
        memory = None if keys is None or values is None else Memory(keys, values, bias)
        state = (h,) if c is None else (h, c)
        directions.append(Direction(state, Weights(ih, hh, bias_ih, bias_hh), memory, backwards))
    return x, directions
