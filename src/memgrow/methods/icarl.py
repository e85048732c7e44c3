"""iCaRL (Rebuffi et al., CVPR 2017): kept rows are chosen by herding, and texts get the label of the nearest mean.

The network trains on new and kept rows, with distillation. Sigmoids of the paper are a softmax here.
"""

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.data.batches import Encoded
from memgrow.errors import SettingsError
from memgrow.evaluation.calibration import fit_temperature
from memgrow.methods.base import FinishedDomain
from memgrow.methods.rehearsal import Rehearsal
from memgrow.models import Classifier, Model
from memgrow.models.base import read_all


class ICaRL(Rehearsal):
    """Rehearsal whose rows represent the means of their labels, which then become the head."""

    about = (
        "rehearsal of representative rows, distillation, and the label of the nearest mean (Rebuffi et al. "
        "2017): KEEPS these rows"
    )
    tasks = ("text", "pair")

    def start_domain(self, old: Model | None, model: Model, data: Encoded) -> None:
        if old is not None and not self.rows:
            raise SettingsError("icarl needs rows of every domain: start a new model, or use another method")

    @torch.no_grad()
    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        model, (new,) = domain.model, domain.domains
        assert isinstance(model, Classifier)
        layers, head = model.heads[-1][:-1], model.heads[-1][-1]
        features = read_all(
            model.encoder,
            domain.data,
            lambda batch: layers(model.features(model.encoder(batch.words, batch.lengths))),
            head.in_features,
        )
        features, labels = F.normalize(features, dim=1), torch.tensor(domain.data.labels)
        count, chosen = len(new.train), list[int]()
        for label in (present := sorted({*domain.data.labels[:count]})):
            rows = (labels[:count] == label).nonzero()[:, 0]
            chosen += rows[herd(features[rows], max(1, self.options.rehearse // len(present)))].tolist()
        kept = [*chosen, *range(count, count + len(self.kept))]  # earlier rows follow the new ones
        sums = torch.zeros(model.labels, head.in_features).index_add(0, labels[kept], features[kept])
        means = F.normalize(sums, dim=1)  # of unit length, so that the nearest one has the largest product
        means /= fit_temperature(features[kept] @ means.T, labels[kept])
        head.weight.copy_(means)
        head.bias.zero_()
        self.rows[new.name] = tuple(replace(new.train[index], where="") for index in chosen)
        return {"rows_kept": len(chosen)}


def herd(features: Tensor, count: int) -> list[int]:
    """Indices of rows (N, d), each chosen to bring the mean of those chosen as near the mean of all as possible."""
    target, total, chosen = features.mean(0), torch.zeros_like(features[0]), list[int]()
    for number in range(1, min(count, len(features)) + 1):
        distances = (target - (total + features) / number).norm(dim=1)
        distances[chosen] = torch.inf
        chosen.append(int(distances.argmin()))
        total = total + features[chosen[-1]]
    return chosen
