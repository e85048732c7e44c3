"""Ridge regression: a linear head in closed form on a frozen encoder, from sums over all domains.

After RanPAC (McDonnell et al., NeurIPS 2023), texts pass a fixed random layer first. Sums do not depend on the order of
domains: with a given penalty the head is, up to rounding, the one that all data at once would give. No text is kept,
and nothing is trained by gradient descent.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.data.batches import Batch, Encoded
from memgrow.errors import SettingsError
from memgrow.evaluation.calibration import fit_temperature
from memgrow.methods.base import FinishedDomain, Method, Trainable, option
from memgrow.models import Classifier, Model
from memgrow.models.base import read_all

LEAST = 1e-12  # smallest mean variance of a feature: below it all texts look alike
PENALTIES = tuple(10 ** (half / 2) for half in range(13))  # 1, 3.2, 10, ..., 1,000,000
USUAL = 6  # the one that the search starts with
HELD_OUT, MOST_HELD_OUT = 5, 2000  # one row in five is held out to choose the penalty, and then joins the sums
ROWS = 1000  # whose features are computed at once


@dataclass(frozen=True)
class RidgeOptions:
    ridge: float | Literal["auto"] = option("auto", above=0, words=("auto",))
    # weight of the penalty, in examples; auto: chosen on a fifth of the domain's rows
    projection: int = option(5000, least=0)  # random features of a new model; 0: the encoder's vector as it is


@dataclass(frozen=True)
class Sums:
    """Sums over examples with features x (d) and labels y (labels), 1 at the right one and 0 elsewhere."""

    counts: Tensor  # (labels): examples of each
    features: Tensor  # (d): sum of x
    products: Tensor  # (d, d): sum of x x'
    labelled: Tensor  # (d, labels): sum of x y'

    @classmethod
    def of(cls, x: Tensor, labels: Tensor, known: int) -> Self:
        """The sums of examples (B, d) with label indices (B), out of `known` labels."""
        y = F.one_hot(labels, known).to(x)
        return cls(y.sum(0), x.sum(0), x.T @ x, x.T @ y)

    def __add__(self, other: "Sums") -> "Sums":
        labels = max(len(self.counts), len(other.counts))
        parts = zip(self.for_labels(labels), other.for_labels(labels), strict=True)
        return Sums(*(ours + theirs for ours, theirs in parts))

    def for_labels(self, labels: int) -> "Sums":
        """The same for more labels: new ones come last and have no examples yet."""
        more = (0, labels - len(self.counts))
        return replace(self, counts=F.pad(self.counts, more), labelled=F.pad(self.labelled, more))

    @classmethod
    def none(cls, size: int, labels: int) -> Self:
        """The sums over no examples."""
        return cls.of(torch.empty(0, size), torch.empty(0, dtype=torch.long), labels)

    def to(self, device: torch.device) -> "Sums":
        return Sums(*(tensor.to(device) for tensor in self))

    def __iter__(self) -> Iterator[Tensor]:
        return iter(vars(self).values())


class LinearHead(NamedTuple):
    """Scores (B, labels) = x weight' + bias: near 1 for the right label and 0 for others."""

    weight: Tensor  # (labels, d)
    bias: Tensor  # (labels)

    def scores(self, x: Tensor) -> Tensor:
        return F.linear(x, *self)


def solve(sums: Sums, ridge: float) -> LinearHead:
    """The head with the least squared error and an L2 penalty on its weights.

    The penalty is `ridge` times the mean variance of a feature, so that it means the same for any encoder.
    """
    count = float(sums.counts.sum())
    x, y = sums.features / count, sums.counts / count  # means
    spread = torch.addr(sums.products, x, x, alpha=-count)  # the sums around the means
    common = torch.addr(sums.labelled, x, y, alpha=-count)
    rounding = torch.finfo(x.dtype).eps * sums.products.trace()
    spread.diagonal().add_(ridge * (spread.trace() / (count * len(x))).clamp(min=LEAST) + rounding)
    weight = torch.cholesky_solve(common, torch.linalg.cholesky(spread))  # (d, labels)
    return LinearHead(weight.T, y - x @ weight)


def choose_penalty(error: Callable[[float], float]) -> float:
    """The penalty of least error: from the usual one upwards, or else downwards, as long as the error falls."""
    best, least = USUAL, error(PENALTIES[USUAL])
    for step in (1, -1):
        while best + step in range(len(PENALTIES)) and (found := error(PENALTIES[best + step])) < least:
            best, least = best + step, found
        if best != USUAL:
            break
    return PENALTIES[best]


class Ridge(Method):
    """Adds a domain to the sums and solves for the head. The sums are its state."""

    about = "frozen encoder; a linear head in closed form on random features, from sums over all domains (RanPAC, 2023)"
    Options: ClassVar[type] = RidgeOptions
    options: RidgeOptions
    tasks = ("text", "pair")
    needs_encoder = True
    needs_every_domain = True
    closed_form = True

    def __init__(self, options: RidgeOptions) -> None:
        super().__init__(options)
        self.sums: Sums | None = None
        self._chosen: dict[str, Any] = {}

    def start_domain(self, old: Model | None, model: Model, data: Encoded) -> Trainable:
        assert isinstance(model, Classifier)
        if model.settings.perceptron:
            raise SettingsError("ridge solves for a linear head: set perceptron to 0")
        if old is None and self.options.projection:
            model.project(self.options.projection)
        return Trainable({})

    @torch.no_grad()
    def fit(self, model: Model, data: Encoded, progress: Callable[[int, int], None]) -> None:
        assert isinstance(model, Classifier)
        layers, head = model.heads[-1][:-1], model.heads[-1][-1]
        vectors, labels = _vectors(model, data, progress), torch.tensor(data.labels)
        every = max(HELD_OUT, -(-len(data) // MOST_HELD_OUT))
        is_held_out = torch.arange(len(data)) % every == every - 1

        def batches(rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
            for some in torch.split(rows.nonzero()[:, 0], ROWS):
                yield layers(vectors[some].to(model.device)), labels[some].to(model.device)

        sums = (self.sums or Sums.none(head.in_features, model.labels)).to(model.device)
        for x, y in batches(~is_held_out):
            sums += Sums.of(x, y, model.labels)
        x, y = map(torch.cat, zip(*batches(is_held_out), strict=True))
        right, solution = F.one_hot(y, model.labels), cache(partial(solve, sums))
        ridge = self.options.ridge
        if ridge == "auto":
            ridge = choose_penalty(lambda ridge: float((solution(ridge).scores(x) - right).square().mean()))
        temperature = fit_temperature(solution(ridge).scores(x), y)
        sums += Sums.of(x, y, model.labels)
        for layer, solved in zip((head.weight, head.bias), solve(sums, ridge), strict=True):
            layer.copy_(solved / temperature)
        self.sums = sums.to(torch.device("cpu"))
        self._chosen = {"ridge": ridge, "projection": len(x.T) if len(layers) else 0}

    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        return self._chosen

    def state_dict(self) -> dict[str, Tensor]:
        if self.sums is None:
            return {}
        products = self.sums.products
        return {**vars(self.sums), "products": products[_lower(len(products))]}  # half of a symmetric matrix

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        if not state:
            return
        self.sums = Sums(**{name: tensor.cpu().float() for name, tensor in state.items()})
        if self.sums.products.ndim == 1:  # models of 0.2 have the whole matrix
            size = len(self.sums.features)
            products = self.sums.products.new_zeros(size, size)
            products[_lower(size)] = self.sums.products
            self.sums = replace(self.sums, products=products + products.tril(-1).T)


def _lower(size: int) -> Tensor:
    """The mask of a lower triangle, (size, size)."""
    return torch.ones(size, size, dtype=torch.bool).tril()


def _vectors(model: Classifier, data: Encoded, progress: Callable[[int, int], None]) -> Tensor:
    """The vector of each example (examples, size), on the CPU; reports how many tokens have been read."""
    total, done = sum(map(data.length, range(len(data)))), 0

    def compute(batch: Batch) -> Tensor:
        nonlocal done
        done += int(batch.lengths.sum())
        progress(done, total)
        return model.features(model.encoder(batch.words, batch.lengths))

    return read_all(model.encoder, data, compute, model.copies * sum(model.encoder.sizes))
