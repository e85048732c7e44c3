"""A reply as a model makes it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reply:
    """Word indices; no padding, no unknown word, no mark of the end."""

    words: tuple[int, ...]
    score: float  # log-probability of the words, and of the end where there is one, unknown words left out of account
    ended: bool  # False: it had not come to its end at the largest length, and was cut there
