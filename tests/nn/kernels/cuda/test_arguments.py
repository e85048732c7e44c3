"""A kernel's arguments are those of its source, and lead to memory that stays theirs until it has been launched."""

import ctypes
import re
import weakref
from pathlib import Path

import pytest
import torch

from memgrow.nn.kernels.cuda import arguments, grid, nvrtc
from memgrow.nn.kernels.cuda.arguments import GridBackward, GridLayer
from memgrow.nn.kernels.cuda.grid import Shape
from memgrow.nn.kernels.cuda.layer import Layer, Reading, Trace

SOURCES = {  # of each structure here: the file and the name that it has there
    arguments.Spreading: ("layout.cu", "Spreading"),
    arguments.Collecting: ("layout.cu", "Collecting"),
    arguments.GridLayer: ("grid.cu", "Layer"),
    arguments.GridForward: ("grid.cu", "Forward"),
    arguments.GridBackward: ("grid.cu", "Backward"),
    arguments.GridPacking: ("grid.cu", "Packing"),
    arguments.ClusterLayer: ("cluster.cuh", "Layer"),
    arguments.ClusterForward: ("cluster_forward.cu", "Forward"),
    arguments.ClusterBackward: ("cluster_backward.cu", "Backward"),
    arguments.ClusterPacking: ("cluster_packing.cu", "Packing"),
    arguments.Gradients: ("cluster_packing.cu", "Gradients"),
}
KINDS = {"int": ctypes.c_int, "size_t": ctypes.c_size_t}


@pytest.mark.parametrize("structure", SOURCES, ids=lambda structure: structure.__name__)
def test_a_structure_has_the_fields_of_its_source_in_their_order(structure):
    file, name = SOURCES[structure]
    text = re.sub("//.*", "", (Path(nvrtc.__file__).parent / file).read_text(encoding="utf-8"))
    body = re.search(rf"struct {name} {{(.*?)}};", text, re.DOTALL)[1]
    fields = []
    for declaration in re.findall(r"[^;]+(?=;)", body):
        kind, names = re.fullmatch(r"\s*(?:const )?(\w+) (.*)", declaration, re.DOTALL).groups()
        for field in (one.strip() for one in names.split(",")):
            pointer = arguments.POINTERS if field.endswith("[2]") else arguments.POINTER
            own = pointer if field.startswith("*") else KINDS.get(kind, "structure")
            fields.append((field.removeprefix("*").removesuffix("[2]"), own))
    ours = [
        (field, "structure" if issubclass(kind, arguments.Arguments) else kind) for field, kind in structure._fields_
    ]
    assert ours == fields


def test_a_tensor_that_is_handed_in_lives_as_long_as_the_structure():
    made = []

    def new():
        tensor = torch.empty(16)
        made.append(weakref.ref(tensor))
        return tensor

    argument = GridBackward(layer=GridLayer(steps=1, barrier=new()), weighed=new(), partial=new(), d_h0=[new(), None])
    assert all(reference() is not None for reference in made)
    places = [argument.layer.barrier, argument.weighed, argument.partial, argument.d_h0[0]]
    assert places == [reference().data_ptr() for reference in made]
    assert argument.d_h0[1] is None
    del argument
    assert all(reference() is None for reference in made)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_grid_fills_every_field_of_its_kernels(cell, monkeypatch):
    launched = {}
    monkeypatch.setattr(
        nvrtc, "launch", lambda source, name, defines, argument, *_, **__: launched.update({name: argument})
    )
    monkeypatch.setattr(grid, "processors", lambda device: 8)
    states, cells = [torch.zeros(2, 5)], [torch.zeros(2, 5) if cell == "lstm" else None]
    weights = [torch.zeros((4 if cell == "lstm" else 3) * 5, 5)]
    layer = Layer(cell, (2, 1), (False,), torch.device("cpu"), states, cells, weights, [torch.zeros(6, 5)])
    shape = Shape.of(1, 2, 5, 6, processors=8)
    kernel = grid.GridKernel(layer, shape, exact=True)
    kernel.pack(Reading(torch.zeros(1, 6, 4 * shape.hidden)), with_gradient=True)
    trace = Trace.of(layer, shape.hidden, shape.slots)
    output, hn, _ = kernel.forward(torch.zeros(3, 4 * shape.hidden), torch.zeros(1, shape.slots), trace)
    kernel.backward(trace, torch.zeros(1, 3, 5), torch.zeros_like(output), hn, [None])
    assert set(launched) == {"pack", "forward", "backward"}
    for argument in launched.values():
        assert set(argument.held) == {name for name, _ in argument._fields_}
