"""A kernel's arguments lead to memory that stays theirs until the kernel has been launched."""

import weakref

import pytest
import torch

from memgrow.nn.kernels.cuda import grid as grid_walk
from memgrow.nn.kernels.cuda import nvrtc
from memgrow.nn.kernels.cuda.arguments import GridBackward, GridLayer
from memgrow.nn.kernels.cuda.grid import Shape
from memgrow.nn.kernels.cuda.layer import Layer, Reading, Trace


def test_what_is_handed_in_on_the_way_lives_as_long_as_the_structure():
    made = []

    def new():
        tensor = torch.empty(16)
        made.append(weakref.ref(tensor))
        return tensor

    argument = GridBackward(walk=GridLayer(steps=1, barrier=new()), weighed=new(), partial=new(), d_h0=[new(), None])
    assert all(reference() is not None for reference in made)
    places = [argument.walk.barrier, argument.weighed, argument.partial, argument.d_h0[0]]
    assert places == [reference().data_ptr() for reference in made]
    assert argument.d_h0[1] is None
    del argument
    assert all(reference() is None for reference in made)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_walk_of_all_blocks_fills_every_field_of_its_kernels(cell, monkeypatch):
    launched = {}
    monkeypatch.setattr(
        nvrtc, "launch", lambda source, name, defines, argument, *_, **__: launched.update({name: argument})
    )
    monkeypatch.setattr(grid_walk, "processors", lambda device: 8)
    states, cells = [torch.zeros(2, 5)], [torch.zeros(2, 5) if cell == "lstm" else None]
    weights = [torch.zeros((4 if cell == "lstm" else 3) * 5, 5)]
    layer = Layer(cell, (2, 1), (False,), torch.device("cpu"), states, cells, weights, [torch.zeros(6, 5)])
    shape = Shape.of(1, 2, 5, 6, processors=8)
    walk = grid_walk.GridKernel(layer, shape, exact=True)
    walk.pack(Reading(torch.zeros(1, 6, 4 * shape.hidden)), with_gradient=True)
    trace = Trace.of(layer, shape.hidden, shape.slots)
    output, hn, _ = walk.forward(torch.zeros(3, 4 * shape.hidden), torch.zeros(1, shape.slots), trace)
    walk.backward(trace, torch.zeros(1, 3, 5), torch.zeros_like(output), hn, [None])
    assert set(launched) == {"pack", "forward", "backward"}
    for argument in launched.values():
        assert set(argument.held) == {name for name, _ in argument._fields_}
