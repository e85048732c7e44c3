"""Seconds a GiB of saving and loading a model, beside a plain write of as many bytes; a part of hundred_domains.py."""

import copy
import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from memgrow.learner import Learner

SLOTS = 65536  # by which a model grows until it is large


def saved_and_loaded(learner: Learner, gib: float, rounds: int = 5) -> dict[str, Any]:
    """Seconds a GiB of saving and loading a large model, and of writing and reading as many bytes and no more.

    All take turns, and the least of rounds counts. `saved once more` is a model of which the
    folder has all weights.
    """
    model = copy.deepcopy(learner.trained())
    number = 0
    while (size := sum(tensor.nbytes for tensor in model.state_dict().values()) / 2**30) < gib:
        model.grow(slots=SLOTS, domain=f"large {number}")
        number += 1
    large = Learner.create("frozen+M", model=learner.settings, training=learner.training, device="cpu")
    large.take(replace(learner.learnt, model=model))
    content = memoryview(bytearray(os.urandom(1 << 20) * round(size * 1024)))
    taken: dict[str, list[list[float]]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            for name, action in actions_of(large, content, Path(folder)).items():
                clocks = (time.perf_counter, time.process_time)
                began = [clock() for clock in clocks]
                action()
                spent = [(clock() - start) / size for clock, start in zip(clocks, began, strict=True)]
                taken.setdefault(name, []).append(spent)
    least = {name: [min(some) for some in zip(*spent, strict=True)] for name, spent in taken.items()}
    return {
        "GiB": size,
        "rounds": rounds,
        "s a GiB": {name: wall for name, (wall, _) in least.items()},
        "s of the CPU a GiB": {name: cpu for name, (_, cpu) in least.items()},
    }


def actions_of(large: Learner, content: memoryview, folder: Path) -> dict[str, Callable[[], object]]:
    plain, place = folder / "plain", folder / "m"
    return {
        "written": lambda: written(plain, content),
        "read and hashed": lambda: hashlib.sha256(plain.read_bytes()),
        "saved": lambda: large.save(place),
        "saved once more": lambda: large.save(place),
        "loaded": lambda: Learner.load(place, "cpu"),
    }


def written(path: Path, content: memoryview) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
