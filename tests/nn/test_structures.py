"""A kernel's arguments lead to memory that stays theirs until the kernel has been launched."""

import weakref

import torch

from memgrow.nn.kernels.structures import GridBackward, GridWalk


def test_what_is_handed_in_on_the_way_lives_as_long_as_the_structure():
    made = []

    def new():
        tensor = torch.empty(16)
        made.append(weakref.ref(tensor))
        return tensor

    argument = GridBackward(walk=GridWalk(steps=1, barrier=new()), weighed=new(), partial=new(), d_h0=[new(), None])
    assert all(reference() is not None for reference in made)
    places = [argument.walk.barrier, argument.weighed, argument.partial, argument.d_h0[0]]
    assert places == [reference().data_ptr() for reference in made]
    assert argument.d_h0[1] is None
    del argument
    assert all(reference() is None for reference in made)
