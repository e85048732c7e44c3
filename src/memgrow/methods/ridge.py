"""A linear head in closed form on an encoder that stays as it is: ridge regression from sums over all domains.

Sums do not depend on the order of what is summed, so that the head after any number of domains is, up to rounding, the
one that all their data at once would have given. No text is kept and nothing is trained by gradient.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.data.batches import Encoded, collate
from memgrow.methods.plugin import MethodSettings, Plugin, Tell
from memgrow.models import REPLY, Classifier, Model, ModelSettings

LEAST = 1e-12  # variance of a feature on the mean, below which all texts look alike and any division would be by zero


@dataclass(frozen=True)
class Sums:
    """Sums over examples with features x (d) and labels y (labels), 1 at the right one and 0 elsewhere; in float64."""

    counts: Tensor  # (labels): examples of each
    features: Tensor  # (d): sum of x
    products: Tensor  # (d, d): sum of x x'
    labelled: Tensor  # (d, labels): sum of x y'

    @classmethod
    def of(cls, features: Tensor, labels: Tensor, known: int) -> Self:
        """Those of examples (B, d) with the numbers of their labels (B), of which there are `known`."""
        x, y = features.double(), F.one_hot(labels, known).double()
        return cls(y.sum(0), x.sum(0), x.T @ x, x.T @ y)

    def __add__(self, other: "Sums") -> "Sums":
        labels = max(len(self.counts), len(other.counts))
        parts = zip(self.for_labels(labels), other.for_labels(labels), strict=True)
        return Sums(*(ours + theirs for ours, theirs in parts))

    def for_labels(self, labels: int) -> "Sums":
        """The same of so many labels: no example has had those that have joined since, which stand at the end."""
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
    certainty: float  # scores times this are the logits of probabilities

    def write(self, head: nn.Linear) -> None:
        """Let a layer give the logits."""
        with torch.no_grad():
            head.weight.copy_(self.weight * self.certainty)
            head.bias.copy_(self.bias * self.certainty)


def solve(sums: Sums, ridge: float) -> LinearHead:
    """The head of the least squared error, with a penalty on its weights that is as strong as `ridge` examples.

    The penalty is `ridge` times the mean variance of a feature, so that it means the same for any encoder; the bias has
    none. Probabilities are those of labels around which scores are spread normally, with the squared error that
    generalised cross-validation expects of texts that were not among the examples.
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
def sums_over(model: Classifier, data: Encoded, tell: Tell) -> Sums:
    """The sums over all examples; tells how many of their tokens have been read."""
    model.eval()
    total, done, found = sum(map(data.length, range(len(data)))), 0, None
    with model.encoder.prepared():
        for indices in model.in_batches(data):
            batch = collate(data, indices, model.device)
            features = model.features(model.encoder(batch.words, batch.lengths))
            new = Sums.of(features, batch.labels, model.labels)
            found = new if found is None else found + new
            done += sum(map(data.length, indices))
            tell(done, total)
    assert found is not None
    return found.cpu()


class RidgeHead(Plugin):
    """Adds a domain to the sums, and solves for the head; the sums are what is remembered."""

    needs_every_domain = True
    reads = ("ridge",)

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__(settings)
        self.sums: Sums | None = None

    def refuses(self, task: str) -> str | None:
        return "a head in closed form answers with labels, and replies have none" if task == REPLY else None

    def solve(self, model: Model, data: Encoded, tell: Tell) -> None:
        assert isinstance(model, Classifier)
        new = sums_over(model, data, tell)
        self.sums = new if self.sums is None else new + self.sums
        solve(self.sums, self.settings.ridge).write(cast(nn.Linear, model.heads[-1][0]))

    def after_domain(self, model: Model, data: Encoded, device: torch.device) -> dict[str, Any]:
        return {"ridge": self.settings.ridge}

    def tensors(self) -> dict[str, Tensor]:
        return {} if self.sums is None else dict(vars(self.sums))

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self.sums = Sums(**tensors).cpu() if tensors else None

    def fits(self, model: Model) -> bool:
        if self.sums is None:
            return True
        head = cast(nn.Linear, cast(Classifier, model).heads[-1][0])
        labels, size = head.weight.shape
        shapes = [tuple(tensor.shape) for tensor in self.sums]
        return shapes == [(labels,), (size,), (size, size), (size, labels)]


def needs_features(settings: ModelSettings) -> str | None:
    """Why a model of these settings has no head that can be solved for, if so."""
    if not settings.kind.is_pretrained:
        return (
            f"ridge leaves the encoder as it is, and a new one ({settings.cell}) has learnt nothing yet: "
            "give a pretrained encoder (--encoder), or use another method"
        )
    if settings.perceptron:
        return f"ridge solves for a linear head: leave model.perceptron at 0, not {settings.perceptron}"
    return None
