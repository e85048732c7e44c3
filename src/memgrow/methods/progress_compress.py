"""Progress & Compress (Schwarz et al., ICML 2018): learn freely, then distill what was learned into what must be kept.

The active column starts from the knowledge base, in place of the paper's connections from one to the other.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.data.batches import Batch, collate, shuffled
from memgrow.methods.base import FinishedDomain, old_part, option
from memgrow.methods.ewc import EWC, EWCOptions
from memgrow.models import Classifier, Model

BATCH = 32


@dataclass(frozen=True)
class CompressOptions(EWCOptions):
    compress_epochs: int = option(5, least=1)  # over the domain's rows
    compress_rate: float = option(1e-3, above=0)  # learning rate
    fisher_decay: float = option(0.9, least=0, most=1)  # by which earlier domains count less with each later one


class ProgressCompress(EWC):
    """Training is fine-tuning. Then the old weights learn the outputs of the new ones, with EWC's penalty."""

    about = "fine-tune, then distill into the old weights with EWC's penalty (Schwarz et al. 2018)"
    Options: ClassVar[type] = CompressOptions
    options: CompressOptions
    tasks = ("text", "pair")

    def loss(self, model: Model, batch: Batch, logits: Tensor | None) -> Tensor | None:
        return None

    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        notes = {}
        if domain.old is not None:
            self._compress(domain)
            notes = {"validation_after_compression": domain.evaluate([{}])[0].score}
        for diagonal in self.fisher.values():
            diagonal.mul_(self.options.fisher_decay)
        notes = {**super().finish_domain(domain), **notes}
        # One penalty around the latest weights, as in the paper's online EWC.
        weights = dict(domain.model.named_parameters())
        self.center = {name: weights[name].detach().clone() for name in self.center}
        return notes

    def _compress(self, domain: FinishedDomain) -> None:
        model, data = domain.model, domain.data
        assert isinstance(model, Classifier)
        assert domain.old is not None
        targets = model.plain_logits(data).softmax(-1).to(model.device)
        weights = dict(model.named_parameters())
        with torch.no_grad():
            for name, before in domain.old.named_parameters():
                old_part(weights[name], before.shape).copy_(before)
        optimizer = torch.optim.Adam(model.parameters(), lr=self.options.compress_rate)
        for epoch in range(self.options.compress_epochs):
            model.train()
            for indices in shuffled(data, BATCH, domain.seed, epoch):
                batch = collate(data, indices, model.device)
                logits = model(batch.words, batch.lengths)
                loss = F.kl_div(logits.log_softmax(-1), targets[batch.examples], reduction="batchmean")
                if (penalty := super().loss(model, batch, logits)) is not None:
                    loss = loss + penalty
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
