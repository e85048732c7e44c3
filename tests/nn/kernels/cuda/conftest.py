"""The GPU's kernels played by the CPU, so that all around them can be tested without a GPU."""

import ctypes

import numpy as np
import pytest
import torch

from memgrow.nn.kernels.cuda import gemms
from tests.support.layers import ReferenceKernel

OUTER = {True: (0, 1, 2, 3), False: (0, 1, None, 2)}  # by LSTM or not: the gate of each column, for inputs
INNER = {True: (0, 1, 2, 3), False: (0, 1, 2, None)}  # and for h


def at(pointer, *shape):
    """The numbers at an address."""
    count = int(np.prod(shape))
    return torch.from_numpy(np.ctypeslib.as_array((ctypes.c_float * count).from_address(pointer))).view(shape)


def spread(a, lstm):
    h, gates = a.real_hidden, 4 if lstm else 3
    for d in range(a.directions):
        ih = at(a.ih[d], gates, h, a.inputs + a.slot_size)
        whole = torch.zeros(a.hidden, 4, a.inputs + a.slot_size)
        bias = torch.zeros(a.hidden, 4)
        for column in range(4):
            outer, inner = OUTER[lstm][column], INNER[lstm][column]
            if outer is not None:
                whole[:h, column] = ih[outer]
            if a.bias_ih[d] and outer is not None:
                bias[:h, column] += at(a.bias_ih[d], gates, h)[outer]
            if a.bias_ih[d] and inner is not None:
                bias[:h, column] += at(a.bias_hh[d], gates, h)[inner]
        at(a.w_x, a.directions, 4 * a.hidden, a.inputs)[d] = whole.flatten(0, 1)[:, : a.inputs]
        if a.slot_size:
            at(a.w_c, a.directions, 4 * a.hidden, a.slot_size)[d] = whole.flatten(0, 1)[:, a.inputs :]
        at(a.x_bias, a.directions, 4 * a.hidden)[d] = bias.flatten()
        if a.bias:
            at(a.bias, a.directions, a.slots)[d] = torch.nn.functional.pad(
                at(a.slot_bias[d], a.real_slots), (0, a.slots - a.real_slots)
            )


def collect(a, lstm):
    h, gates = a.real_hidden, 4 if lstm else 3
    for d in range(a.directions):
        d_wx = at(a.d_wx, a.directions, a.hidden, 4, a.inputs)[d, :h]
        d_wh = at(a.d_wh, a.directions, a.hidden, 4, h)[d, :h]
        sums = at(a.sums, a.directions, a.hidden, 4)[d, :h]
        d_ih = at(a.d_ih[d], gates, h, a.inputs + a.slot_size)
        for column in range(4):
            outer, inner = OUTER[lstm][column], INNER[lstm][column]
            if outer is not None:
                d_ih[outer, :, : a.inputs] = d_wx[:, column]
                if a.slot_size:
                    d_ih[outer, :, a.inputs :] = at(a.d_wc, a.directions, a.hidden, 4, a.slot_size)[d, :h, column]
                at(a.d_bias_ih[d], gates, h)[outer] = sums[:, column]
            if inner is not None:
                at(a.d_hh[d], gates, h, h)[inner] = d_wh[:, column]
                at(a.d_bias_hh[d], gates, h)[inner] = sums[:, column]


@pytest.fixture
def on_the_cpu(monkeypatch):
    def launch(source, name, defines, argument, *_, **__):
        {"spread": spread, "collect": collect}[name](argument, bool(defines["LSTM"]))

    monkeypatch.setattr(gemms.nvrtc, "launch", launch)
    monkeypatch.setattr(gemms, "processors", lambda device: 1)
    monkeypatch.setattr(gemms, "kernel_for", ReferenceKernel)
    monkeypatch.setattr("memgrow.nn.kernels.choose", lambda *_: ("cuda", "for the test"))
