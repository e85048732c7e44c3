"""What a backward pass that is written by hand needs around it, whichever backend it belongs to."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from memgrow.errors import SettingsError

NAIVE = 'build the layer with backend="naive"'

Gradients = tuple[Tensor | None, ...]


def plain_operations_needed() -> str | None:
    """Why the caller needs a recurrence of plain differentiable operations; None where he does not."""
    if torch._C._are_functorch_transforms_active():
        return "torch.func and vmap transform plain operations only"
    if forward_ad._current_level >= 0:
        return "forward-mode gradients go through plain operations only"
    # The flag, not torch.compiler.is_exporting(): the Dynamo of torch 2.11 takes that to be true in every graph.
    return "an exported graph holds plain operations only" if torch.compiler._is_exporting_flag else None


def first_order(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """Decorate `backward(ctx, saved tensors, *d_outputs)` of an autograd.Function that computes gradients by hand.

    It runs without autocast, outside of compiled graphs, and refuses gradients of gradients. torch's own
    `once_differentiable` does that only where the incoming gradient is itself differentiable; elsewhere it returns
    constants, and a penalty on a gradient trains nothing without a word.
    """

    @functools.wraps(backward)
    def wrapper(ctx: Any, *d_outputs: Tensor) -> Gradients:
        if torch.compiler.is_dynamo_compiling():
            from memgrow.nn.kernels import uncompiled

            found: Gradients = uncompiled.call(wrapper, ctx, *d_outputs)
            return found
        if any(map(_is_batched, d_outputs)):
            raise SettingsError(f"this backend computes one gradient at a time, not a batch of them: {NAIVE}")
        saved = ctx.saved_tensors  # once: a checkpoint hands them out a single time
        with torch.no_grad(), torch.autocast(d_outputs[0].device.type, enabled=False):
            gradients = backward(ctx, saved, *d_outputs)
        return _refusing(gradients, (*saved, *d_outputs)) if torch.is_grad_enabled() else gradients

    return wrapper


def _is_batched(tensor: Tensor) -> bool:
    kinds = torch._C._functorch
    return kinds.is_batchedtensor(tensor) or kinds.is_legacy_batchedtensor(tensor)


def _refusing(gradients: Sequence[Tensor | None], sources: Sequence[Tensor | None]) -> Gradients:
    """The same gradients, which depend on their sources but refuse to be differentiated by them."""
    there = [gradient for gradient in gradients if gradient is not None]
    apart = [source for source in sources if source is not None and source.requires_grad]
    refusing = iter(_Refusal.apply(len(apart), *apart, *there))  # type: ignore[no-untyped-call]
    return tuple(None if gradient is None else next(refusing) for gradient in gradients)


class _Refusal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, sources: int, *tensors: Tensor) -> Any:
        return tuple(gradient.view_as(gradient) for gradient in tensors[sources:])

    @staticmethod
    def backward(ctx: Any, *d_gradients: Tensor) -> Any:
        raise SettingsError(f"this backend has no gradients of gradients: {NAIVE}")
