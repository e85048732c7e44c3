"""A graph break, for code that must not be traced into a compiled graph.

The fast backends compute gradients by hand, in place and in memory that was taken beforehand. Traced by Dynamo, such
code comes out of Inductor with other gradients (an LSTM's were off by 5 to 18%), and kernels that are started by
pointer cannot be traced at all. So a graph ends before the GPU's kernels, and the next one begins after them; on a CPU
it holds the fast backend as an operator (kernels/operator.py).

This module is imported while a graph is traced and at no other time: it imports torch._dynamo, which takes seconds.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

T = TypeVar("T")
REASON = (
    "memgrow's kernels for GPUs run outside of compiled graphs: leave fullgraph=True away, or build the layer with "
    'backend="naive", which is compiled as a whole'
)


def _call(function: Callable[..., T], *arguments: object) -> T:
    return function(*arguments)


call = cast(Callable[..., Any], torch.compiler.disable(_call, reason=REASON))  # type: ignore[no-untyped-call]
"""Call a function eagerly, whatever is being compiled around it."""
