"""One training on several processes, which `accelerate launch` or torchrun starts.

Each process does the same: it reads the data, grows the model, validates and calls the method's hooks. In a step each
takes a part of the batch, and all get the gradient of the whole. Only the first one writes and reports.
"""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from memgrow.errors import MemgrowError, MissingExtraError
from memgrow.nn.device import find_device

T = TypeVar("T")


def join(device: str) -> str:
    """Join the processes that a launcher has started, if one has; returns the device of this process."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return device
    try:
        from accelerate import PartialState
        from accelerate.utils import parse_flag_from_env
    except ImportError as error:
        raise MissingExtraError("several processes need accelerate: `pip install 'memgrow[distributed]'`") from error
    on_cpu = find_device(device).type == "cpu" or parse_flag_from_env("ACCELERATE_USE_CPU")
    found: str = PartialState(cpu=on_cpu).device.type
    return found


def process_count() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """The number of this process, from 0."""
    return dist.get_rank() if process_count() > 1 else 0


def is_first() -> bool:
    """Whether this process writes and reports."""
    return rank() == 0


def exchange(value: T) -> list[T]:
    """The values of all processes."""
    found = [value] * process_count()
    if len(found) > 1:
        with _ending_together():
            dist.all_gather_object(found, value)
    return found


def take_weights_of_first(model: nn.Module) -> None:
    """Rounding on other hardware, or an older copy of the model's folder, must not make the processes differ."""
    if process_count() > 1:
        with _ending_together():
            for tensor in model.state_dict().values():
                dist.broadcast(tensor, 0)


def average_gradients(parameters: Collection[nn.Parameter], sums: Tensor) -> Tensor:
    """Average gradients over the processes, weighted by the last of `sums`; returns `sums` over all of them."""
    if process_count() == 1:
        return sums
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    joined = torch.cat([*(gradient.flatten() * sums[-1] for gradient in gradients), sums])
    with _ending_together():
        dist.all_reduce(joined)
    *averages, sums = torch.split(joined, [*(gradient.numel() for gradient in gradients), len(sums)])
    for gradient, average in zip(gradients, averages, strict=True):
        gradient.copy_((average / sums[-1]).view_as(gradient))
    return sums


@contextmanager
def _ending_together() -> Iterator[None]:
    """A process cannot go on without the others."""
    try:
        yield
    except RuntimeError as error:
        raise MemgrowError(
            "another process of this training has ended: mend what it reports, and run the same command again to resume"
        ) from error
