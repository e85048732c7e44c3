"""Gradient episodic memory: a step must not raise the loss on kept rows of earlier domains.

GEM (Lopez-Paz and Ranzato, NeurIPS 2017) has a constraint for each earlier domain, A-GEM (Chaudhry et al., ICLR 2019)
one for all of them. Rows are kept as text, as by rehearsal, and are not trained on.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.data import Example
from memgrow.data.batches import Batch, Encoded, collate
from memgrow.methods.rehearsal import EpisodicMemory
from memgrow.models import Model

SWEEPS = 100  # over the constraints


class GEM(EpisodicMemory):
    """Adds a term whose gradient turns that of the batch away from those that point against it."""

    about = "the same for each earlier domain, in more time (Lopez-Paz and Ranzato 2017): KEEPS these rows"
    tasks = ("text", "pair")
    needs_whole_batches = True

    def __init__(self, options: object) -> None:
        super().__init__(options)
        self.constraints: list[Encoded] = []

    def extra_rows(self, count: int) -> Sequence[Example]:
        return self.kept

    def groups(self) -> list[int]:
        """The numbers of rows, in their order, that make a constraint each."""
        return [len(rows) for rows in self.rows.values()]

    def start_domain(self, old: Model | None, model: Model, data: Encoded) -> None:
        self.constraints = []
        if old is not None:
            rows, first = data.split_off(len(self.kept)), 0
            for size in self.groups():
                self.constraints.append(rows.some(range(first, first + size)))
                first += size

    def loss(self, model: Model, batch: Batch, logits: Tensor | None) -> Tensor | None:
        if not self.constraints or logits is None:
            return None
        parameters = [one for one in model.parameters() if one.requires_grad and one.numel()]

        def gradient(loss: Tensor) -> Tensor:
            found = torch.autograd.grad(loss, parameters, retain_graph=True, materialize_grads=True)
            return torch.cat([one.flatten() for one in found])

        new, old = gradient(F.cross_entropy(logits, batch.labels)), []
        for rows in self.constraints:
            chosen = torch.randperm(len(rows))[: len(batch.labels)].tolist()
            old.append(gradient(model.training_step(collate(rows, chosen, model.device)).loss))
        turn = correction(new, torch.stack(old))
        return (torch.cat([one.flatten() for one in parameters]) * turn).sum() if turn.any() else None


class AGEM(GEM):
    """One constraint: the mean over kept rows of all domains."""

    about = "fine-tune; no step may raise the loss on a few earlier rows (Chaudhry et al. 2019): KEEPS these rows"

    def groups(self) -> list[int]:
        return [len(self.kept)] if self.rows else []


def correction(new: Tensor, old: Tensor) -> Tensor:
    """The shortest vector that, added to a gradient (P), leaves no negative product with the old ones (K, P).

    It is a sum of old gradients with weights of 0 or more; coordinate descent finds them in the dual problem.
    """
    products, slopes = (old @ old.T).tolist(), (old @ new).tolist()
    weights = [0.0] * len(slopes)
    for _ in range(SWEEPS if min(slopes) < 0 else 0):
        for at, row in enumerate(products):
            slope = slopes[at] + sum(map(float.__mul__, row, weights))
            weights[at] = max(0.0, weights[at] - slope / max(row[at], torch.finfo().tiny))
    return torch.tensor(weights, dtype=old.dtype, device=old.device) @ old
