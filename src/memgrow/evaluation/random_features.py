"""Random Fourier features of texts, for telling whether two heaps of texts are alike without keeping either.

A text is the set of its words, a vector of length 1 with an entry for every word that there could be. Features are the
cosines and sines of its products with random directions, so that the product of two texts' features is about a Gaussian
kernel of their distance (Rahimi and Recht, 2007). A direction's entry for a word is a bit of the word's checksum, 1 or
-1: there is no list of words, the features are the same on every machine, and they never change as a model learns.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

DIRECTIONS = 64
FEATURES = 2 * DIRECTIONS
KIND = f"words, {DIRECTIONS} directions by blake2b"  # others are not to be compared with these
CHUNK = 256  # texts at once
Features = NDArray[np.float32]


def text_features(examples: Sequence[Sequence[Sequence[str]]]) -> Features:
    """Features (examples, FEATURES) of examples: one or two texts each, as their words. Each has a length of 1."""
    found = [_features(examples[start : start + CHUNK]) for start in range(0, len(examples), CHUNK)]
    return np.concatenate(found) if found else np.empty((0, FEATURES), np.float32)


def _features(examples: Sequence[Sequence[Sequence[str]]]) -> Features:
    numbers: dict[tuple[int, str], int] = {}
    words, counts = list[int](), list[int]()
    for texts in examples:
        distinct = dict.fromkeys((place, word) for place, text in enumerate(texts) for word in text)
        words += [numbers.setdefault(word, len(numbers)) for word in distinct]
        counts.append(len(distinct))
    signs = _signs(numbers)
    sizes = np.array(counts)
    projected = np.zeros((len(examples), DIRECTIONS), np.float32)
    there = sizes > 0
    if words:
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))[there]
        projected[there] = np.add.reduceat(signs[words], starts, axis=0) / np.sqrt(sizes[there, None])
    waves: Features = np.concatenate((np.cos(projected), np.sin(projected)), axis=1, dtype=np.float32)
    waves /= DIRECTIONS**0.5
    return waves


def naive_features(texts: Sequence[Sequence[str]]) -> list[float]:
    """The features of one example, word by word."""
    distinct = {(place, word) for place, text in enumerate(texts) for word in text}
    sums = [0.0] * DIRECTIONS
    for place, word in distinct:
        bits = int.from_bytes(_digest(place, word), "big")
        for direction in range(DIRECTIONS):
            sums[direction] += 1 if bits >> (DIRECTIONS - 1 - direction) & 1 else -1
    length = max(1, len(distinct)) ** 0.5
    scaled = [one / length for one in sums]
    return [float(wave(one)) / DIRECTIONS**0.5 for wave in (np.cos, np.sin) for one in scaled]


def _signs(words: Iterable[tuple[int, str]]) -> Features:
    """The entries (words, DIRECTIONS) of all directions."""
    bits = np.unpackbits(np.frombuffer(b"".join(_digest(*word) for word in words), np.uint8))
    return (bits.reshape(-1, DIRECTIONS) * np.float32(2) - 1).astype(np.float32)


def _digest(place: int, word: str) -> bytes:
    """A word of the second text is another word than the same in the first."""
    return blake2b(f"{place} {word}".encode(errors="surrogatepass"), digest_size=DIRECTIONS // 8).digest()
