"""Weights in bfloat16 while texts are read, with the parameters kept in float32."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, cast

import torch
from torch import Tensor, nn

_lock = Lock()  # not of one `InferenceCopy`, as a model is copied and a lock cannot be


class InferenceCopy:
    """A copy of a module with its weights in bfloat16, which several threads share for inference.

    The module keeps its own weights: meanwhile it can be saved, or copied to train the copy.
    """

    def __init__(self) -> None:
        self._users = 0
        self._copy: nn.Module | None = None  # which has weights while there are users
        self._made_of: list[object] = []

    def __reduce__(self) -> tuple[type["InferenceCopy"], tuple[()]]:
        return InferenceCopy, ()  # a copied model has its own

    @contextmanager
    def use(self, module: nn.Module) -> Iterator[nn.Module]:
        with _lock:
            half = self._filled(module) if self._copy is None or not self._users else self._copy
            self._users += 1
        try:
            yield half.train(module.training) if half.training != module.training else half
        finally:
            with _lock:
                self._users -= 1
                if not self._users:
                    for parameter in half.parameters():
                        parameter.data = torch.empty(0)

    def _filled(self, module: nn.Module) -> nn.Module:
        """The copy with the weights that the module has now; its structure is copied when that has changed."""
        parts = list(module.modules())
        hooks = [hook for one in parts for hook in (*one._forward_pre_hooks.values(), *one._forward_hooks.values())]
        made_of = [*hooks, *module.buffers(), *parts]
        if self._copy is None or list(map(id, made_of)) != list(map(id, self._made_of)):
            memo: dict[int, Any] = {id(one): one for one in (*hooks, *module.buffers())}  # shared
            memo |= {id(p): nn.Parameter(torch.empty(0), requires_grad=False) for p in module.parameters()}
            self._copy, self._made_of = copy.deepcopy(module, memo), made_of
        with torch.inference_mode(False), torch.no_grad():  # other users may not be in that mode
            casts = [parameter.to(torch.bfloat16) for parameter in module.parameters()]
            for half, numbers in zip(self._copy.parameters(), casts, strict=True):
                half.data = numbers
        return self._copy


class FrozenCopies:
    """Copies in bfloat16 of parameters that do not train, made once and not in each step; a copied model has none.

    A write to `parameter.data` is not noticed, as torch counts none of `.data`: write within `torch.no_grad()`, or go
    from `eval()` to `train()`, and the encoder makes copies anew.
    """

    def __init__(self) -> None:
        self._known: dict[nn.Parameter, tuple[Tensor, int, Tensor]] = {}  # its numbers, their version, the copy

    def __reduce__(self) -> tuple[type["FrozenCopies"], tuple[()]]:
        return FrozenCopies, ()

    def of(self, parameter: nn.Parameter) -> Tensor:
        """The copy; made anew when the parameter was written to, or has other numbers."""
        known = self._known.get(parameter)
        if known is None or known[0].data_ptr() != parameter.data_ptr() or known[1] != parameter._version:
            own = parameter.detach()  # held, so that no other numbers come to lie in their place
            known = self._known[parameter] = own, parameter._version, own.to(torch.bfloat16)
        return known[2]

    def clear(self) -> None:
        self._known = {}


@contextmanager
def trained_in_bfloat16(
    module: nn.Module, table: nn.Embedding | None = None, frozen: FrozenCopies | None = None
) -> Iterator[nn.Module]:
    """Within, copies in bfloat16 take the place of a module's parameters, and pass gradients on to them.

    With `frozen`, copies of parameters that do not train are taken from there. A `table` that trains is not copied: the
    rows that are read of it are cast, which are few, and their gradients are summed in float32. On a CPU both pay.
    For one thread at a time, as the module itself is changed.
    """
    slots = [
        (owner, name, parameter)
        for owner in module.modules()
        for name, parameter in owner._parameters.items()
        if parameter is not None
    ]
    own = list(dict.fromkeys(parameter for _, _, parameter in slots))  # one may be in several modules
    if table is not None and not (table.weight.requires_grad and sum(p is table.weight for *_, p in slots) == 1):
        table = None
    kept: dict[Tensor, Tensor] = {} if table is None else {table.weight: table.weight}
    if frozen is not None:
        kept |= {parameter: frozen.of(parameter) for parameter in own if not parameter.requires_grad}
    cast_ones = [parameter for parameter in own if parameter not in kept]
    if cast_ones:
        kept |= zip(cast_ones, _InBfloat16.apply(*cast_ones), strict=True)  # type: ignore[no-untyped-call]
    hook = None if table is None else table.register_forward_hook(lambda _, __, rows: rows.to(torch.bfloat16))
    try:
        for owner, name, parameter in slots:
            owner._parameters[name] = cast(nn.Parameter, kept[parameter])
        yield module
    finally:
        for owner, name, parameter in slots:
            owner._parameters[name] = parameter
        if hook is not None:
            hook.remove()


class _InBfloat16(torch.autograd.Function):
    """All weights in bfloat16, and their gradients in the weights' own dtype: a kernel or two for each."""

    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.dtype = weights[0].dtype
        copies = _cast(weights, torch.bfloat16)
        frozen = [one for one, trains in zip(copies, ctx.needs_input_grad, strict=True) if not trains]
        ctx.mark_non_differentiable(*frozen)
        return tuple(copies)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        own = iter(_cast([gradient for gradient in gradients if gradient is not None], ctx.dtype))
        return tuple(None if gradient is None else next(own) for gradient in gradients)


def _cast(tensors: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    copies = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    if copies:
        torch._foreach_copy_(copies, list(tensors))
    return copies
