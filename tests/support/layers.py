"""What tests of layers share: sizes, twins of a fast and a naive layer, their results, and a stand-in for the GPU."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence

from memgrow.nn.kernels.cuda.layer import BackwardResult, ForwardResult, Layer, Reading, Trace

LENGTHS = {
    "one row of one word": [1],
    "one row": [7],
    "all of one word": [1, 1, 1],
    "ragged": [5, 1, 9, 9, 3, 2],
    "many": [1 + (7 * n) % 13 for n in range(70)],
}
# input, hidden, slots, slot size: odd ones, tiny ones, the smallest, and thousands of slots
SIZES = {"odd": (5, 7, 11, 3), "smallest": (1, 1, 1, 1), "no memory": (6, 9, 0, None), "thousands": (3, 8, 3001, 4)}


def results(layer, sequences):
    """What a layer gives on sequences and what flows back into everything that went in."""
    inputs = [sequence.clone().requires_grad_() for sequence in sequences]
    output, states = layer(pack_sequence(inputs, enforce_sorted=False))
    states = states if isinstance(states, tuple) else (states,)
    (output.data.sin().sum() + sum((state * state).sum() for state in states)).backward()
    found = {"output": output.data, "dx": torch.cat([x.grad for x in inputs])}
    found |= {f"state {number}": state for number, state in enumerate(states)}
    return found | {name: p.grad for name, p in layer.named_parameters() if p.numel()}


def distance(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm().clamp_min(1e-12)).item()


def twins(kind, sizes, backend, biased, dtype=torch.float32, **settings):
    torch.manual_seed(0)
    inputs, hidden, slots, slot_size = sizes
    layers = []
    for name in (backend, "naive"):
        layer = kind(inputs, hidden, slots=slots, slot_size=slot_size, backend=name, **settings)
        if biased and slots:
            layer.grow(slots=3, initial_logit_bias=-2.0)
        layers.append(layer)
    layers[0].load_state_dict(layers[1].state_dict())
    return layers[0].to(dtype), layers[1].double()


PADDED = 3  # hidden units and slots too many, as the kernels may have them


class ReferenceKernel:
    contents, content, d_content = False, None, None

    def __init__(self, layer: Layer, slot_size: int = 0, exact: bool = False) -> None:
        self.layer = layer
        self.hidden, self.slots = layer.hidden + PADDED, layer.slots + PADDED if layer.slots else 0

    def pack(self, reading: Reading, with_gradient: bool) -> None:
        self.gate_values = reading.gate_values

    def forward(self, x: Tensor, bias: Tensor | None, trace: Trace) -> ForwardResult:
        layer = self.layer
        with torch.enable_grad():
            self.x = x.detach().requires_grad_()
            self.extra = torch.zeros(layer.total, layer.directions, max(layer.slots, 1), requires_grad=True)
            self.h0 = [h.detach().requires_grad_() for h in layer.h0]
            self.c0 = [None if c is None else c.detach().requires_grad_() for c in layer.c0]
            for part in trace:
                part.zero_()
            results = [self._direction(d, bias, trace) for d in range(layer.directions)]
        self.ends = ([output for output, _, _ in results], [h for _, h, _ in results], [c for _, _, c in results])
        output = torch.cat([output.detach() for output in self.ends[0]], dim=1)
        return ForwardResult(
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
    ) -> BackwardResult:
        layer = self.layer
        if layer.slots:
            attention = trace.attention[..., : layer.slots]
            expected = torch.einsum("tdn,dnh->dth", attention, torch.stack([k for k in layer.keys if k is not None]))
            torch.testing.assert_close(mean_key, expected)
        outputs, hidden, cells = self.ends
        ends = [*outputs, *hidden, *(c for c in cells if c is not None)]
        given = [*d_output.split(layer.hidden, dim=1), *d_hn, *(d for d in d_cn if d is not None)]
        first = [*self.h0, *(c for c in self.c0 if c is not None)]
        d_x, d_extra, *d_first = torch.autograd.grad(
            ends, [self.x, self.extra, *first], given, retain_graph=True, materialize_grads=True
        )
        d_gates = d_x.view(layer.total, layer.directions, -1)
        d_logits = torch.nn.functional.pad(d_extra[..., : layer.slots], (0, self.slots - layer.slots))
        d_h0, d_c0 = d_first[: layer.directions], d_first[layer.directions :] or [None] * layer.directions
        return BackwardResult(d_gates, d_logits, list(d_h0), list(d_c0))
