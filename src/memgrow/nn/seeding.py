"""One seed, one result: every use of chance has a seed of its own, derived from the learner's."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derive(seed: int, *path: object) -> int:
    """A seed for one purpose. Distinct paths give unrelated seeds; the same path always gives the same."""
    digest = hashlib.sha256("/".join(map(str, (seed, *path))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1  # torch takes 63 bits


@contextmanager
def seeded(seed: int, *path: object, device: torch.device) -> Iterator[None]:
    """Run with torch's generators set for one purpose; the caller's generators are put back afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        # Where there is no GPU, torch.manual_seed would still note down for one, with a whole stack, what it was asked.
        seeding = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
        seeding(derive(seed, *path))
        yield
