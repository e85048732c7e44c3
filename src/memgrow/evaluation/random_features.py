"""Random Fourier features of texts (Rahimi and Recht, 2007), which compare sets of texts without storing them.

A text is the set of its words, as a unit vector with an entry for every possible word. The product of two texts'
features approximates a Gaussian kernel of their distance. The random directions are bits of a hash of the word, so
that there is no list of words, and the features are the same on every machine and never change.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

DIRECTIONS = 64
FEATURES = 2 * DIRECTIONS
KIND = f"words, {DIRECTIONS} directions by blake2b"  # stored with the features
CHUNK = 256  # texts at once
Features = NDArray[np.float32]


def text_features(examples: Sequence[Sequence[Sequence[str]]]) -> Features:
    """Unit vectors (examples, FEATURES) of examples, each one or two texts as their words."""
    found = [_features(examples[start : start + CHUNK]) for start in range(0, len(examples), CHUNK)]
    return np.concatenate(found) if found else np.empty((0, FEATURES), np.float32)


def _features(examples: Sequence[Sequence[Sequence[str]]]) -> Features:
    indices: dict[tuple[int, str], int] = {}  # a word of the second text is another word than the same in the first
    words, counts = list[int](), list[int]()
    for texts in examples:
        distinct = dict.fromkeys((place, word) for place, text in enumerate(texts) for word in text)
        words += [indices.setdefault(word, len(indices)) for word in distinct]
        counts.append(len(distinct))
    digests = b"".join(
        blake2b(f"{place} {word}".encode(errors="surrogatepass"), digest_size=DIRECTIONS // 8).digest()
        for place, word in indices
    )
    signs = np.unpackbits(np.frombuffer(digests, np.uint8)).reshape(-1, DIRECTIONS) * np.float32(2) - 1
    sizes = np.array(counts)
    projected = np.zeros((len(examples), DIRECTIONS), np.float32)
    there = sizes > 0
    if words:
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))[there]
        projected[there] = np.add.reduceat(signs[words], starts, axis=0) / np.sqrt(sizes[there, None])
    waves: Features = np.concatenate((np.cos(projected), np.sin(projected)), axis=1, dtype=np.float32)
    waves /= DIRECTIONS**0.5
    return waves
