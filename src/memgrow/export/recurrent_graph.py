"""A recurrent classifier as an ONNX graph, node by node: words in, probabilities out, any batch and any length.

The recurrence is ONNX's Scan, whose body is one step of `nn/kernels/naive.py`. Rows are padded and not packed: a row
that has ended, or that is yet to begin where a layer reads backwards, keeps its state.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from memgrow.data.vocabulary import PADDING_INDEX
from memgrow.models import Classifier, PairClassifier, RecurrentEncoder
from memgrow.nn import MemoryRecurrent
from memgrow.nn.kernels import CELLS, Memory, Weights
from memgrow.nn.routing import DomainRouter

OPSET, IR_VERSION = 18, 10  # old enough for runtimes of some years; new enough for all that is used
FLOAT, INT64 = 1, 7  # ONNX's numbers for kinds of tensors
WORDS, PROBABILITIES = "words", "probabilities"


class GraphBuilder:
    """Nodes in their order, and constants; names are given as they come."""

    def __init__(self, prefix: str = "") -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._prefix = prefix

    def add(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output: its name."""
        return self.add_several(operation, 1, *inputs, **attributes)[0]

    def add_several(self, operation: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        from onnx import helper

        stem = f"{self._prefix}{operation.lower()}_{len(self.nodes)}"
        names = [stem if outputs == 1 else f"{stem}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(operation, list(inputs), names, **attributes))
        return names

    def constant(self, value: Tensor | NDArray[Any] | Sequence[Any] | float) -> str:
        """Its name; whole numbers are int64, others float32."""
        from onnx import numpy_helper

        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
        name = f"{self._prefix}constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def linear(self, x: str, weight: Tensor, bias: Tensor | None) -> str:
        """x weight' + bias."""
        product = self.add("MatMul", x, self.constant(weight.detach().t()))
        return product if bias is None else self.add("Add", product, self.constant(bias))


def recurrent_graph(model: Classifier, temperature: float) -> Any:
    """The model as an onnx.ModelProto, its probabilities at that temperature."""
    from onnx import helper

    encoder = model.encoder
    assert isinstance(encoder, RecurrentEncoder)
    graph = GraphBuilder()
    with torch.no_grad():
        vectors = _vectors(graph, encoder)
        logits = _head(graph, model.heads[-1], _features(graph, model, vectors))
    scaled = graph.add("Div", logits, graph.constant(temperature))
    graph.nodes.append(helper.make_node("Softmax", [scaled], [PROBABILITIES], axis=-1))
    made = helper.make_graph(
        graph.nodes,
        "memgrow",
        [helper.make_tensor_value_info(WORDS, INT64, ["rows", "length"])],
        [helper.make_tensor_value_info(PROBABILITIES, FLOAT, ["batch", model.labels])],
        graph.constants,
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def _vectors(graph: GraphBuilder, encoder: RecurrentEncoder) -> str:
    """A vector for each row of words."""
    there = graph.add("Not", graph.add("Equal", WORDS, graph.constant(PADDING_INDEX)))  # (R, T)
    counted = graph.add("Cast", there, to=FLOAT)
    lengths = graph.add("ReduceSum", counted, graph.constant([1]), keepdims=1)  # (R, 1)
    embedded = graph.add("Gather", graph.constant(encoder.embedding.weight), WORDS)  # (R, T, E)
    route = _route(graph, encoder, embedded, counted, lengths)
    by_steps = graph.add("Unsqueeze", graph.add("Transpose", there, perm=[1, 0]), graph.constant([2]))  # (T, R, 1)
    seen, pooled = graph.add("Transpose", embedded, perm=[1, 0, 2]), []  # (T, R, E)
    for column in encoder.columns:
        states, finals = _column(graph, column, seen, by_steps, route)
        if encoder.settings.pooling == "mean":
            pooled.append(graph.add("Div", graph.add("ReduceSum", states, graph.constant([0]), keepdims=0), lengths))
        else:
            pooled += finals
        seen = graph.add("Concat", seen, states, axis=-1)
    return pooled[0] if len(pooled) == 1 else graph.add("Concat", *pooled, axis=-1)


def _column(
    graph: GraphBuilder, column: MemoryRecurrent, seen: str, there: str, route: Callable[[MemoryRecurrent], str | None]
) -> tuple[str, list[str]]:
    """The states of the last layer (T, R, S), 0 where there is no word, and its last state in each direction."""
    states, masked = seen, route(column)
    finals: list[str] = []
    for layer in range(column.num_layers):
        outputs, finals = [], []
        for direction in range(column.num_directions):
            weights, memory = column.weights(layer, direction), column.bank(layer, direction).memory
            output, final = _recur(graph, column.cell, states, there, weights, memory, masked, direction == 1)
            outputs.append(output)
            finals.append(final)
        states = outputs[0] if len(outputs) == 1 else graph.add("Concat", *outputs, axis=-1)
    return states, finals


def _recur(
    graph: GraphBuilder,
    cell: str,
    inputs: str,
    there: str,
    weights: Weights,
    memory: Memory | None,
    masked: str | None,
    reverse: bool,
) -> tuple[str, str]:
    """One layer in one direction: its states (T, R, H) and the last of each row (R, H)."""
    from onnx import helper

    hidden, size = weights.hh.shape[1], 0 if memory is None else memory.values.shape[1]
    own = weights.ih.shape[1] - size  # columns of the inputs; those of the content stand after them
    products = graph.linear(inputs, weights.ih[:, :own], weights.bias_ih)  # of all steps at once, (T, R, gates * H)
    names = [f"state_{number}" for number in range(CELLS[cell].states)]
    body = GraphBuilder(f"{products}/")
    x = f"{products}/x"
    h, *rest = [f"{products}/{name}" for name in names]
    present = f"{products}/there"
    if memory is not None:
        logits = body.add("MatMul", h, graph.constant(memory.keys.t()))
        if memory.bias is not None:
            logits = body.add("Add", logits, graph.constant(memory.bias))
        if masked is not None:
            logits = body.add("Add", logits, masked)
        read = body.add("Softmax", logits, axis=-1)
        content = body.add("MatMul", read, graph.constant(memory.values))
        x = body.add("Add", x, body.add("MatMul", content, graph.constant(weights.ih[:, own:].t())))
    inner = body.add("MatMul", h, graph.constant(weights.hh.t()))
    if weights.bias_hh is not None:
        inner = body.add("Add", inner, graph.constant(weights.bias_hh))
    new = STEPS[cell](body, x, inner, [h, *rest])
    kept = [body.add("Where", present, now, before) for now, before in zip(new, [h, *rest], strict=True)]
    shown = body.add("Where", present, new[0], graph.constant(0.0))
    step = helper.make_graph(
        body.nodes,
        "step",
        [helper.make_tensor_value_info(name, FLOAT, None) for name in (h, *rest)]
        + [helper.make_tensor_value_info(f"{products}/x", FLOAT, None)]
        + [helper.make_tensor_value_info(present, 9, None)],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in (*kept, shown)],
        body.constants,
    )
    rows = graph.add("Slice", graph.add("Shape", inputs), *map(graph.constant, ([1], [2])))
    shape = graph.add("Concat", rows, graph.constant([hidden]), axis=0)
    first = graph.add("Expand", graph.constant(0.0), shape)
    *finals, states = graph.add_several(
        "Scan",
        len(new) + 1,
        *[first] * len(new),
        products,
        there,
        body=step,
        num_scan_inputs=2,
        scan_input_directions=[int(reverse)] * 2,
        scan_output_directions=[int(reverse)],
    )
    return states, finals[0]


# One step of each cell: from what comes from outside and from h, both (R, gates * H), to the new states


def _lstm(body: GraphBuilder, x: str, inner: str, states: Sequence[str]) -> list[str]:
    i, f, g, o = body.add_several("Split", 4, body.add("Add", x, inner), axis=-1, num_outputs=4)
    kept = body.add("Mul", body.add("Sigmoid", f), states[1])
    cell = body.add("Add", kept, body.add("Mul", body.add("Sigmoid", i), body.add("Tanh", g)))
    return [body.add("Mul", body.add("Sigmoid", o), body.add("Tanh", cell)), cell]


def _gru(body: GraphBuilder, x: str, inner: str, states: Sequence[str]) -> list[str]:
    outer, own = (body.add_several("Split", 3, part, axis=-1, num_outputs=3) for part in (x, inner))
    r, z = (body.add("Sigmoid", body.add("Add", a, b)) for a, b in zip(outer[:2], own[:2], strict=True))
    n = body.add("Tanh", body.add("Add", outer[2], body.add("Mul", r, own[2])))
    difference = body.add("Sub", states[0], n)
    return [body.add("Add", n, body.add("Mul", z, difference))]  # (1 - z) n + z h


def _tanh(body: GraphBuilder, x: str, inner: str, states: Sequence[str]) -> list[str]:
    return [body.add("Tanh", body.add("Add", x, inner))]


def _relu(body: GraphBuilder, x: str, inner: str, states: Sequence[str]) -> list[str]:
    return [body.add("Relu", body.add("Add", x, inner))]


STEPS: dict[str, Callable[[GraphBuilder, str, str, Sequence[str]], list[str]]] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn_tanh": _tanh,
    "rnn_relu": _relu,
}


# Around the recurrence


def _route(
    graph: GraphBuilder, encoder: RecurrentEncoder, embedded: str, counted: str, lengths: str
) -> Callable[[MemoryRecurrent], str | None]:
    """What is added to the logits of slots (R, N) for a column: minus infinity where a text does not read them."""
    segments, count = encoder.newest.banks[0].segments, encoder.settings.domains_read
    if encoder.router is None or len(segments) <= count:
        return lambda column: None
    there = graph.add("Unsqueeze", counted, graph.constant([2]))
    total = graph.add("ReduceSum", graph.add("Mul", embedded, there), graph.constant([1]), keepdims=0)
    near = _nearness(graph, encoder.router, graph.add("Div", total, lengths))  # (R, segments)
    _, chosen = graph.add_several("TopK", 2, near, graph.constant([count]), axis=-1)
    hot = graph.add("OneHot", chosen, graph.constant(len(segments)), graph.constant(np.array([0.0, 1.0])), axis=-1)
    read = graph.add("ReduceSum", hot, graph.constant([1]), keepdims=0)  # (R, segments)
    owner = [number for number, segment in enumerate(segments) for _ in range(segment.start, segment.stop)]
    is_read = graph.add("Cast", graph.add("Gather", read, graph.constant(owner), axis=1), to=9)
    masked = graph.add("Where", is_read, graph.constant(0.0), graph.constant(-np.inf))
    return lambda column: masked


def _nearness(graph: GraphBuilder, router: DomainRouter, vectors: str) -> str:
    """The numbers by which `DomainRouter.choose` puts the segments in order."""
    scale, centres = router.scaled()
    scaled = graph.add("Mul", vectors, graph.constant(scale))
    product = graph.add("MatMul", scaled, graph.constant(centres.t()))
    return graph.add("Sub", product, graph.constant(centres.square().sum(1) / 2))


def _features(graph: GraphBuilder, model: Classifier, vectors: str) -> str:
    if not isinstance(model, PairClassifier):
        return vectors
    u, v = graph.add_several("Split", 2, vectors, axis=0, num_outputs=2)
    apart = graph.add("Abs", graph.add("Sub", u, v))
    return graph.add("Concat", u, v, graph.add("Mul", u, v), apart, axis=-1)


def _head(graph: GraphBuilder, head: nn.Sequential, features: str) -> str:
    for layer in head:
        if isinstance(layer, nn.Linear):
            features = graph.linear(features, layer.weight, layer.bias)
        elif isinstance(layer, nn.ReLU):
            features = graph.add("Relu", features)
    return features
