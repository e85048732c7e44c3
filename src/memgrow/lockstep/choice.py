"""Which loop teaches a learner that is alone: the plain one, or that of a stack, as a stack of one."""

from typing import NamedTuple

import torch

from memgrow.batches import Encoded
from memgrow.lockstep.stack import obstacle
from memgrow.lockstep.staged import rounded
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
# How many numbers all texts may be when each is as long as the longest: a GiB, which a GPU can spare. A hundred
# thousand pairs of four hundred words are fewer; twenty thousand texts are more if one has twenty thousand words.
ROOM = 1 << 28
FORCED: str | None = None  # one of the two names, whatever the device: for comparing them


def choose_loop(model: Model, device: torch.device, *parts: Encoded) -> Loop:
    """The faster of those that can teach this model these parts of a domain, which a stack keeps on the device."""
    reason = obstacle([model])
    if reason is not None:
        return Loop(PLAIN, reason)
    if FORCED is not None:
        return Loop(FORCED, "it was asked for")
    faster = FASTER_ON.get(device.type, FASTER_ON["cpu"])
    if faster.name == STACKED and sum(map(padded, parts)) > ROOM:
        return Loop(PLAIN, "all texts, made as long as the longest, take too much memory at once")
    return faster


def padded(data: Encoded) -> int:
    """How many numbers the texts are when all are as long as the longest."""
    if not len(data):
        return 0
    return len(data) * len(data.texts[0]) * rounded(max(map(data.work, range(len(data)))))
