"""The first vectors of words that a model meets."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from memgrow.errors import SettingsError
from memgrow.models.encoder import SPREAD
from memgrow.text import Vectors, read_vectors


def first_vectors(words: Sequence[str], size: int, file: str | Path | None = None) -> tuple[Tensor, int]:
    """Rows (words, size), and how many of them come from the file.

    The others are drawn from a normal distribution with the spread of the file's rows, or 0.4 without a file.
    """
    if file is None or not words:
        return torch.randn(len(words), size) * SPREAD, 0
    vectors = _read(str(file), tuple(words))
    if vectors.size != size:
        raise SettingsError(
            f"the vectors of {file} have {vectors.size} numbers, but this model's words have {size}: "
            f"use vectors of {size}, or a model with embedding: {vectors.size}"
        )
    found = [index for index, word in enumerate(words) if word in vectors.rows]
    known = torch.from_numpy(np.stack([vectors.rows[words[index]] for index in found])) if found else None
    rows = torch.randn(len(words), size) * (SPREAD if known is None else float(known.std()))
    if known is not None:
        rows[found] = known
    return rows, len(found)


@lru_cache(maxsize=1)
def _read(file: str, words: tuple[str, ...]) -> Vectors:
    """Learners that differ in their seed ask for the same words of the same file, one after another."""
    return read_vectors(file, words)
