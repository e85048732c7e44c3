"""What a backward pass that is written by hand needs around it: a fast backend's, or that of a loss."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from memgrow.errors import SettingsError

NAIVE = 'build the layer with backend="naive"'

Gradients = tuple[Tensor | None, ...]
Backward = Callable[..., Gradients]


def plain_operations_needed() -> str | None:
    """Why the caller needs a recurrence of plain differentiable operations; None where he does not."""
    if torch._C._are_functorch_transforms_active():
        return "torch.func and vmap transform plain operations only"
    if forward_ad._current_level >= 0:
        return "forward-mode gradients go through plain operations only"
    # The flag, not torch.compiler.is_exporting(), which Dynamo takes to be true in every graph that it traces.
    return "an exported graph holds plain operations only" if torch.compiler._is_exporting_flag else None


def first_order(name: str, instead: str) -> Callable[[Backward], Backward]:
    """Decorate `backward(ctx, saved tensors, *d_outputs)` of an autograd.Function that computes gradients by hand.

    It runs without autocast, outside of compiled graphs, and refuses gradients of gradients: the error says what has
    none, and what to do instead. torch's own `once_differentiable` refuses only where the incoming gradient is itself
    differentiable; elsewhere it returns constants, and a penalty on a gradient trains nothing without a word.

    The saved tensors must include every input that may need gradients: they are what a second gradient would go to.
    """

    def decorate(backward: Backward) -> Backward:
        @functools.wraps(backward)
        def wrapper(ctx: Any, *d_outputs: Tensor) -> Gradients:
            if torch.compiler.is_dynamo_compiling():
                from memgrow.nn.kernels import uncompiled

                found: Gradients = uncompiled.call(wrapper, ctx, *d_outputs)
                return found
            if any(map(_is_batched, d_outputs)):
                raise SettingsError(f"{name} computes one gradient at a time, not a batch of them: {instead}")
            saved = ctx.saved_tensors  # once: a checkpoint hands them out a single time
            with torch.no_grad(), torch.autocast(d_outputs[0].device.type, enabled=False):
                gradients = backward(ctx, saved, *d_outputs)
            if not torch.is_grad_enabled():
                return gradients
            return _refusing(gradients, (*saved, *d_outputs), f"{name} has no gradients of gradients: {instead}")

        return wrapper

    return decorate


def _is_batched(tensor: Tensor) -> bool:
    kinds = torch._C._functorch
    return kinds.is_batchedtensor(tensor) or kinds.is_legacy_batchedtensor(tensor)


def _refusing(gradients: Gradients, sources: Sequence[Tensor | None], message: str) -> Gradients:
    """The same gradients, which depend on their sources but refuse to be differentiated by them."""
    given = [gradient for gradient in gradients if gradient is not None]
    differentiable = [source for source in sources if source is not None and source.requires_grad]
    refusing = iter(_Refusal.apply(message, len(differentiable), *differentiable, *given))  # type: ignore[no-untyped-call]
    return tuple(None if gradient is None else next(refusing) for gradient in gradients)


class _Refusal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, message: str, sources: int, *tensors: Tensor) -> Any:
        ctx.message = message
        return tuple(gradient.view_as(gradient) for gradient in tensors[sources:])

    @staticmethod
    def backward(ctx: Any, *d_gradients: Tensor) -> Any:
        raise SettingsError(ctx.message)
