"""Averaging (A): after a domain, the weights move part of the way back to the old ones.

With `keep` at a half and two domains this is moment matching by mean (mean-IMM; Lee et al., NeurIPS 2017); of more
domains the latest count most. `methods/ewc.py` has moment matching by mode.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch

from memgrow.methods.base import FinishedDomain, Method, Weights, old_part, option, trained_weights
from memgrow.models import Model, Tally

SHARES = tuple(number / 20 for number in range(19))  # of the old weights, that keep="auto" tries: 0, 0.05, ..., 0.9
TOLERANCE = 0.5  # standard errors that validation may fall below its best


@dataclass(frozen=True)
class AverageOptions:
    keep: float | Literal["auto"] = option(
        0.5, least=0, most=1, words=("auto",)
    )  # share of the old weights; auto: as much as validation allows


class Figure(NamedTuple):
    """A validation score, of which more is better, and its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, tally: Tally) -> "Figure":
        return cls(tally.mean, tally.standard_error)


def choose_share(figures: Mapping[float, Figure], tolerance: float = TOLERANCE) -> float:
    """The largest share whose score is within `tolerance` standard errors of the best; 0 if none is finite."""
    known = {share: figure for share, figure in figures.items() if math.isfinite(figure.mean)}
    if not known:
        return 0.0
    best = max(known.values())
    return max(share for share, figure in known.items() if figure.mean >= best.mean - tolerance * best.error)


class Average(Method):
    """new = keep * old + (1 - keep) * new, wherever both exist."""

    about = "afterwards, part of the way back to the old weights; at a half, mean-IMM (Lee et al. 2017)"
    Options: ClassVar[type] = AverageOptions
    options: AverageOptions

    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        if domain.old is None:
            return {} if self.options.keep == "auto" else {"keep": self.options.keep}
        notes: dict[str, Any] = {"keep": self.options.keep}
        if self.options.keep == "auto":
            tallies = dict(zip(SHARES, domain.evaluate(mixtures(domain.old, domain.model, SHARES)), strict=True))
            keep = choose_share({share: Figure.of(one) for share, one in tallies.items()})
            notes = {"keep": keep, "keep_chosen": "auto", "validation_after_averaging": tallies[keep].score}
        move_back(trained_weights(domain.old), trained_weights(domain.model), notes["keep"])
        return notes


def move_back(old: Weights, new: Weights, share: float) -> None:
    """Move the new weights in place by `share` towards the old ones; grown parts stay."""
    for name, before in old.items() if share else ():
        now, before = old_part(new[name], before.shape), before.to(new[name])
        if not torch.equal(now, before):  # frozen weights keep their bits: lerp would turn -0.0 into 0.0
            now.lerp_(before, share)


def mixtures(old: Model, new: Model, shares: Sequence[float]) -> Iterator[Weights]:
    """The weights that `move_back` gives for each share."""
    before, after = trained_weights(old), trained_weights(new)
    after = {name: after[name].clone() for name in before}
    for share in shares:
        mixed = {name: weight.clone() for name, weight in after.items()}
        move_back(before, mixed, share)
        yield mixed
