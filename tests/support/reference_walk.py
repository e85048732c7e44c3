"""A stand-in for the GPU's walks: the equations on the CPU, in the kernels' order of columns and with their padding."""

from collections.abc import Sequence

import torch
from torch import Tensor

from memgrow.nn.kernels.cuda.layer import Layer, Reading, Trace, Walked, WalkedBack

PADDED = 3  # hidden units and slots too many, as the kernels may have them


class ReferenceWalk:
    contents, content, d_content = False, None, None

    def __init__(self, layer: Layer, slot_size: int = 0, exact: bool = False) -> None:
        self.layer = layer
        self.hidden, self.slots = layer.hidden + PADDED, layer.slots + PADDED if layer.slots else 0

    def pack(self, reading: Reading, with_gradient: bool) -> None:
        self.gate_values = reading.gate_values

    def forward(self, x: Tensor, bias: Tensor | None, trace: Trace) -> Walked:
        layer = self.layer
        with torch.enable_grad():
            self.x = x.detach().requires_grad_()
            self.extra = torch.zeros(layer.total, layer.directions, max(layer.slots, 1), requires_grad=True)
            self.h0 = [h.detach().requires_grad_() for h in layer.h0]
            self.c0 = [None if c is None else c.detach().requires_grad_() for c in layer.c0]
            for part in trace:
                part.zero_()
            walked = [self._direction(d, bias, trace) for d in range(layer.directions)]
        self.ends = ([output for output, _, _ in walked], [h for _, h, _ in walked], [c for _, _, c in walked])
        output = torch.cat([output.detach() for output in self.ends[0]], dim=1)
        return Walked(
            output, [h.detach() for h in self.ends[1]], [None if c is None else c.detach() for c in self.ends[2]]
        )

    def _direction(self, d: int, bias: Tensor | None, trace: Trace) -> tuple[Tensor, Tensor, Tensor | None]:
        layer, rows_of = self.layer, list(self.layer.batch_sizes)
        offsets = [sum(rows_of[:t]) for t in range(len(rows_of))]
        x = self.x.view(layer.total, layer.directions, self.hidden, 4)[:, d, : layer.hidden]
        inner = layer.hh[d].view(-1, layer.hidden, layer.hidden)
        h, c, found = self.h0[d], self.c0[d], {}
        steps = range(len(rows_of))
        for t in reversed(steps) if layer.backwards >> d & 1 else steps:
            rows, here = rows_of[t], slice(offsets[t], offsets[t] + rows_of[t])
            before = h[:rows]
            own = torch.einsum("rk,guk->rug", before, inner)
            gates = x[here] + torch.nn.functional.pad(own, (0, 4 - len(inner)))
            if layer.slots:
                logits = before @ layer.keys[d].t() + self.extra[here, d]
                attention = torch.softmax(logits if bias is None else logits + bias[d, : layer.slots], dim=-1)
                values = self.gate_values[d].view(layer.slots, self.hidden, 4)[:, : layer.hidden]
                gates = gates + torch.einsum("rn,nug->rug", attention, values)
                trace.attention[here, d, : layer.slots] = attention.detach()
            trace.before[here, d, : layer.hidden] = before.detach()
            new, cell = self._cell(gates, before, None if c is None else c[:rows])
            h = torch.cat((new, h[rows:]))
            c = None if c is None or cell is None else torch.cat((cell, c[rows:]))
            found[t] = new
        return torch.cat([found[t] for t in steps]), h, c

    def _cell(self, gates: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor | None]:
        one, two, three, four = gates.unbind(-1)
        if c is None:
            candidate = (four + one.sigmoid() * three).tanh()
            return candidate + two.sigmoid() * (h - candidate), None
        cell = two.sigmoid() * c + one.sigmoid() * three.tanh()
        return four.sigmoid() * cell.tanh(), cell

    def backward(
        self, trace: Trace, mean_key: Tensor, d_output: Tensor, d_hn: Sequence[Tensor], d_cn: Sequence[Tensor | None]
    ) -> WalkedBack:
        layer = self.layer
        if layer.slots:
            attention = trace.attention[..., : layer.slots]
            expected = torch.einsum("tdn,dnh->dth", attention, torch.stack([k for k in layer.keys if k is not None]))
            torch.testing.assert_close(mean_key, expected)
        outputs, hidden, cells = self.ends
        ends = [*outputs, *hidden, *(c for c in cells if c is not None)]
        given = [*d_output.split(layer.hidden, dim=1), *d_hn, *(d for d in d_cn if d is not None)]
        first = [*self.h0, *(c for c in self.c0 if c is not None)]
        d_x, d_extra, *d_first = torch.autograd.grad(ends, [self.x, self.extra, *first], given, materialize_grads=True)
        d_gates = d_x.view(layer.total, layer.directions, -1)
        d_logits = torch.nn.functional.pad(d_extra[..., : layer.slots], (0, self.slots - layer.slots))
        d_h0, d_c0 = d_first[: layer.directions], d_first[layer.directions :] or [None] * layer.directions
        return WalkedBack(d_gates, d_logits, list(d_h0), list(d_c0))
