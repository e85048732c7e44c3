"""The arguments of the kernels in recurrence.cu, field by field as they stand there."""

import ctypes
from collections.abc import Sequence
from typing import Any

from torch import Tensor

POINTER, POINTERS, INT = ctypes.c_void_p, ctypes.c_void_p * 2, ctypes.c_int


def _fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class Walk(ctypes.Structure):
    _fields_ = [
        *_fields(INT, "directions groups blocks chunks batch steps reversed real_hidden hidden slots real_slots"),
        *_fields(INT, "tiles_s weights_in_shared"),
        *_fields(POINTER, "sizes offsets barrier"),
    ]


class Forward(ctypes.Structure):
    _fields_ = [
        ("walk", Walk),
        *_fields(POINTER, "x"),
        *_fields(POINTERS, "h0 c0"),
        *_fields(POINTER, "key_pack gate_pack bias output"),
        *_fields(POINTERS, "hn cn"),
        *_fields(POINTER, "out before cell gates attention scores stats"),
    ]


class Backward(ctypes.Structure):
    _fields_ = [
        ("walk", Walk),
        *_fields(POINTER, "d_out"),
        *_fields(POINTERS, "d_hn d_cn"),
        *_fields(POINTER, "before cell"),
        *_fields(POINTERS, "c0"),
        *_fields(POINTER, "gates attention mean_key slope_pack key_pack d_gates weighed d_logits"),
        *_fields(POINTERS, "d_h0 d_c0"),
        *_fields(POINTER, "partial"),
    ]


class Prepare(ctypes.Structure):
    _fields_ = [
        *_fields(INT, "directions real_hidden hidden real_slots slots inputs slot_size blocks tiles_s backward"),
        *_fields(POINTERS, "ih hh bias_ih bias_hh keys slot_bias"),
        *_fields(POINTER, "gate_values w_x w_c x_bias bias key_pack gate_pack slope_pack back_pack"),
    ]


class Collect(ctypes.Structure):
    _fields_ = [
        *_fields(INT, "directions real_hidden hidden inputs slot_size"),
        *_fields(POINTER, "d_wx d_wc d_wh sums"),
        *_fields(POINTERS, "d_ih d_hh d_bias_ih d_bias_hh"),
    ]


def one(**tensors: Tensor | None) -> dict[str, int | None]:
    """A pointer each."""
    return {name: None if tensor is None else tensor.data_ptr() for name, tensor in tensors.items()}


def each(**tensors: Sequence[Tensor | None]) -> dict[str, Any]:
    """A pointer for each direction."""
    return {
        name: POINTERS(*(None if tensor is None else tensor.data_ptr() for tensor in parts))
        for name, parts in tensors.items()
    }
