"""Ridge regression: a linear head in closed form on a frozen encoder, from sums over all domains.

Sums do not depend on the order of domains, so the head is, up to rounding, the one that all data at once would give. No
text is kept, and nothing is trained by gradient descent.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.data.batches import Encoded, collate
from memgrow.errors import SettingsError
from memgrow.methods.base import FinishedDomain, Method, Trainable, option
from memgrow.models import Classifier, Model

LEAST = 1e-12  # smallest mean variance of a feature: below it all texts look alike


@dataclass(frozen=True)
class RidgeOptions:
    ridge: float = option(1000.0, above=0)  # weight of the penalty, in examples


@dataclass(frozen=True)
class Sums:
    """Sums over examples with features x (d) and labels y (labels), 1 at the right one and 0 elsewhere; in float64."""

    counts: Tensor  # (labels): examples of each
    features: Tensor  # (d): sum of x
    products: Tensor  # (d, d): sum of x x'
    labelled: Tensor  # (d, labels): sum of x y'

    @classmethod
    def of(cls, features: Tensor, labels: Tensor, known: int) -> Self:
        """The sums of examples (B, d) with label indices (B), out of `known` labels."""
        x, y = features.double(), F.one_hot(labels, known).double()
        return cls(y.sum(0), x.sum(0), x.T @ x, x.T @ y)

    def __add__(self, other: "Sums") -> "Sums":
        labels = max(len(self.counts), len(other.counts))
        parts = zip(self.for_labels(labels), other.for_labels(labels), strict=True)
        return Sums(*(ours + theirs for ours, theirs in parts))

    def for_labels(self, labels: int) -> "Sums":
        """The same for more labels: new ones come last and have no examples yet."""
        more = (0, labels - len(self.counts))
        return replace(self, counts=F.pad(self.counts, more), labelled=F.pad(self.labelled, more))

    def cpu(self) -> "Sums":
        return Sums(*(tensor.cpu() for tensor in self))

    def __iter__(self) -> Iterator[Tensor]:
        return iter(vars(self).values())


@dataclass(frozen=True)
class LinearHead:
    """Scores (labels) = weight x + bias, in float64."""

    weight: Tensor  # (labels, d)
    bias: Tensor  # (labels)
    certainty: float  # scores times this are logits

    def write(self, head: nn.Linear) -> None:
        """Copy the solution into a layer that returns logits."""
        with torch.no_grad():
            head.weight.copy_(self.weight * self.certainty)
            head.bias.copy_(self.bias * self.certainty)


def solve(sums: Sums, ridge: float) -> LinearHead:
    """The head with the least squared error and an L2 penalty on its weights.

    The penalty is `ridge` times the mean variance of a feature, so that it means the same for any encoder. Logits are
    scaled by the squared error that generalized cross-validation expects on new texts.
    """
    count, (size, labels) = sums.counts.sum(), sums.labelled.shape
    x, y = sums.features / count, sums.counts / count  # means
    spread = sums.products - count * torch.outer(x, x)  # the sums around the means
    common = sums.labelled - count * torch.outer(x, y)
    penalty = ridge * (spread.trace() / (count * size)).clamp(min=LEAST)
    penalised = spread + penalty * torch.eye(size).to(spread)
    weight = torch.linalg.solve(penalised, common)  # (d, labels)
    error = (count * y * (1 - y)).sum() - 2 * (weight * common).sum() + (weight * (spread @ weight)).sum()
    freedom = 1 + torch.linalg.solve(penalised, spread).trace()  # of the parameters in effect
    # Of all labels of an example, summed. A single example leaves nothing by which an error could be expected.
    expected = error * count / (count - freedom) ** 2 if count - freedom > LEAST else torch.ones_like(error)
    certainty = float((labels - 1) / expected.clamp(min=LEAST))
    return LinearHead(weight.T, y - x @ weight, certainty)


@torch.no_grad()
def sums_over(model: Classifier, data: Encoded, progress: Callable[[int, int], None]) -> Sums:
    """The sums over all examples; reports how many tokens have been read."""
    model.eval()
    total, done, found = sum(map(data.length, range(len(data)))), 0, None
    with model.encoder.inference():
        for indices in model.encoder.batches(data):
            batch = collate(data, indices, model.device)
            features = model.features(model.encoder(batch.words, batch.lengths))
            new = Sums.of(features, batch.labels, model.labels)
            found = new if found is None else found + new
            done += sum(map(data.length, indices))
            progress(done, total)
    assert found is not None
    return found.cpu()


class Ridge(Method):
    """Adds a domain to the sums and solves for the head. The sums are its state."""

    Options: ClassVar[type] = RidgeOptions
    options: RidgeOptions
    tasks = ("text", "pair")
    needs_encoder = True
    needs_every_domain = True
    closed_form = True

    def __init__(self, options: RidgeOptions) -> None:
        super().__init__(options)
        self.sums: Sums | None = None

    def trainable(self, old: Model | None, model: Model) -> Trainable:
        return Trainable({})

    def fit(self, model: Model, data: Encoded, progress: Callable[[int, int], None]) -> None:
        assert isinstance(model, Classifier)
        if model.settings.perceptron:
            raise SettingsError("ridge solves for a linear head: set perceptron to 0")
        new = sums_over(model, data, progress)
        self.sums = new if self.sums is None else new + self.sums
        solve(self.sums, self.options.ridge).write(cast(nn.Linear, model.heads[-1][0]))

    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        return {"ridge": self.options.ridge}

    def state_dict(self) -> dict[str, Tensor]:
        return {} if self.sums is None else dict(vars(self.sums))

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.sums = Sums(**state).cpu() if state else None
