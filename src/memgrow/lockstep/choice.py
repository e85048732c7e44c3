"""Which loop teaches a learner that is alone: the plain one, or that of a stack, as a stack of one."""

from typing import NamedTuple

import torch

from memgrow.lockstep.stack import obstacle
from memgrow.models import Model


class Loop(NamedTuple):
    """A choice, and why."""

    name: str
    reason: str


PLAIN, STACKED = "plain", "stacked"
FASTER_ON = {
    "cuda": Loop(STACKED, "steps are recorded once and replayed, so that the GPU does not wait for Python"),
    "cpu": Loop(PLAIN, "steps that are recorded and replayed pay on a GPU alone"),
}
FORCED: str | None = None  # one of the two names, whatever the device: for comparing them


def choose_loop(model: Model, device: torch.device) -> Loop:
    """The faster of those that can teach this model."""
    reason = obstacle([model])
    if reason is not None:
        return Loop(PLAIN, reason)
    return FASTER_ON.get(device.type, FASTER_ON["cpu"]) if FORCED is None else Loop(FORCED, "it was asked for")
