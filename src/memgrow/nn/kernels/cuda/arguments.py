"""The arguments of the kernels: each has the fields of the structure in its source, in the same order."""

import ctypes
from collections.abc import Sequence
from typing import Any

from torch import Tensor

POINTER, POINTERS, INT = ctypes.c_void_p, ctypes.c_void_p * 2, ctypes.c_int


class Arguments(ctypes.Structure):
    """A structure that is filled by name: a tensor becomes a pointer, a sequence of tensors a pointer per direction.

    It keeps the tensors alive: the memory of one that nobody holds would be handed out again before the kernel is
    launched, and two pointers of one structure would then lead to the same place.
    """

    def __init__(self, **fields: "Tensor | Sequence[Tensor | None] | Arguments | int | None") -> None:
        self.held = fields
        super().__init__(**{name: _as_field(value) for name, value in fields.items()})


def _as_field(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.data_ptr()
    return POINTERS(*map(_as_field, value)) if isinstance(value, list | tuple) else value


def _fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


# layout.cu


class Spreading(Arguments):
    _fields_ = [
        *_fields(INT, "directions real_hidden hidden real_slots slots inputs slot_size"),
        *_fields(POINTERS, "ih bias_ih bias_hh slot_bias"),
        *_fields(POINTER, "w_x w_c x_bias bias"),
    ]


class Collecting(Arguments):
    _fields_ = [
        *_fields(INT, "directions real_hidden hidden inputs slot_size"),
        *_fields(POINTER, "d_wx d_wc d_wh sums"),
        *_fields(POINTERS, "d_ih d_hh d_bias_ih d_bias_hh"),
    ]


# grid.cu


class GridLayer(Arguments):
    _fields_ = [
        *_fields(INT, "directions groups blocks chunks batch steps reversed real_hidden hidden slots real_slots"),
        *_fields(INT, "tiles_s weights_in_shared"),
        *_fields(POINTER, "sizes offsets barrier"),
    ]


class GridForward(Arguments):
    _fields_ = [
        ("layer", GridLayer),
        *_fields(POINTER, "x"),
        *_fields(POINTERS, "h0 c0"),
        *_fields(POINTER, "key_pack gate_pack bias output"),
        *_fields(POINTERS, "hn cn"),
        *_fields(POINTER, "out before cell gates attention scores stats"),
    ]


class GridBackward(Arguments):
    _fields_ = [
        ("layer", GridLayer),
        *_fields(POINTER, "d_out"),
        *_fields(POINTERS, "d_hn d_cn"),
        *_fields(POINTER, "before cell"),
        *_fields(POINTERS, "c0"),
        *_fields(POINTER, "gates attention mean_key slope_pack key_pack d_gates weighed d_logits"),
        *_fields(POINTERS, "d_h0 d_c0"),
        *_fields(POINTER, "partial"),
    ]


class GridPacking(Arguments):
    _fields_ = [
        *_fields(INT, "directions real_hidden hidden real_slots slots blocks tiles_s backward"),
        *_fields(POINTERS, "hh keys"),
        *_fields(POINTER, "gate_values key_pack gate_pack slope_pack back_pack"),
    ]


# cluster_forward.cu, cluster_backward.cu, cluster_packing.cu


class ClusterLayer(Arguments):
    _fields_ = [
        *_fields(INT, "directions batch steps reversed real_hidden hidden slots real_slots own"),
        *_fields(INT, "fit_first fit_second fit_third fit_fourth mailbox_bytes depth"),
        *_fields(POINTER, "sizes offsets arrivals"),
    ]


class ClusterForward(Arguments):
    _fields_ = [
        ("layer", ClusterLayer),
        *_fields(POINTER, "x"),
        *_fields(POINTERS, "h0 c0"),
        *_fields(POINTER, "key_pack gate_pack read_pack value_pack bias output"),
        *_fields(POINTERS, "hn cn"),
        *_fields(POINTER, "before cell gates attention content mailbox"),
    ]


class ClusterBackward(Arguments):
    _fields_ = [
        ("layer", ClusterLayer),
        *_fields(POINTER, "d_out"),
        *_fields(POINTERS, "d_hn d_cn"),
        *_fields(POINTER, "before cell"),
        *_fields(POINTERS, "c0"),
        *_fields(POINTER, "gates attention mean_key slope_pack back_pack back_value_pack back_read_pack largest"),
        *_fields(POINTER, "d_gates d_logits d_content"),
        *_fields(POINTERS, "d_h0 d_c0"),
        *_fields(POINTER, "mailbox"),
    ]


class ClusterPacking(Arguments):
    _fields_ = [
        *_fields(INT, "directions real_hidden hidden real_slots slots own slot_size backward"),
        *_fields(POINTERS, "hh keys values"),
        *_fields(POINTER, "gate_values w_c key_pack gate_pack read_pack value_pack"),
        *_fields(POINTER, "slope_pack back_pack back_value_pack back_read_pack"),
    ]


class Gradients(Arguments):
    _fields_ = [
        *_fields(INT, "directions states"),
        ("outputs", ctypes.c_size_t),
        *_fields(POINTER, "d_out"),
        *_fields(POINTERS, "d_hn d_cn"),
        *_fields(POINTER, "largest"),
    ]
