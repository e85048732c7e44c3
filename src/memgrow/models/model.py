"""What a learner asks of any model, whether it answers with labels or with words."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from memgrow.data.batches import Batch, Encoded
from memgrow.models.encoder import TextEncoder
from memgrow.models.settings import ModelSettings

LARGE = 256  # examples in a batch where no gradient is needed


class Taught(NamedTuple):
    """What came of a batch."""

    loss: Tensor  # the mean: gradients go through this one
    logits: Tensor | None  # (B, labels), where the answers are labels
    total: Tensor  # summed loss, without gradients
    right: Tensor  # right answers; of replies, the probability of their words, summed
    seen: int  # answers, or words of replies


class Model(nn.Module, ABC):
    """Reads texts by an encoder, and grows."""

    settings: ModelSettings
    encoder: TextEncoder
    fisher: ClassVar[str | None] = None  # the only variant of the Fisher information that it has, if it has but one
    heads: Any  # one for each column of the encoder; the newest one answers

    @abstractmethod
    def teach(self, batch: Batch) -> Taught:
        """The loss of a batch."""

    @abstractmethod
    def likelihoods(self, batch: Batch, variant: str) -> list[tuple[Tensor, float]]:
        """Of one example: log-likelihoods whose squared gradients make its Fisher information, each with its weight."""

    @abstractmethod
    def score(self, data: Encoded) -> float:
        """How well the examples are answered, from 0 to 1: what early stopping and the accuracy matrix go by."""

    @abstractmethod
    def grow(
        self,
        *,
        slots: int = 0,
        hidden: int = 0,
        domain: str | None = None,
        quiet: float = 0.0,
        words: Tensor | None = None,
        optimiser: torch.optim.Optimizer | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Add slots, hidden units and words (their vectors, (new, embedding)) in one call, or nothing at all."""

    @abstractmethod
    def add_column(
        self,
        hidden: int,
        slots: int = 0,
        domain: str | None = None,
        optimiser: torch.optim.Optimizer | None = None,
    ) -> None:
        """Add a column that reads all earlier ones, and a head that reads them all: a progressive network."""

    def shape(self) -> dict[str, Any]:
        """How far the model has grown: with the settings, all that is needed to build it anew.

        What else has columns, such as a decoder, grows together with the encoder, which speaks for it.
        """
        return {
            "words": self.encoder.embedding.num_embeddings,
            "columns": [
                {
                    "hidden": column.hidden_size,
                    "slots": [
                        {"domain": s.domain, "count": s.stop - s.start, "quiet": s.quiet}
                        for s in column.banks[0].segments
                    ],
                }
                for column in self.encoder.columns
            ],
        }

    @property
    def scores_by_vectors(self) -> bool:
        """Whether an answer depends on the vectors of all words, and not on those of a text alone."""
        return False

    @property
    def device(self) -> torch.device:
        return self.encoder.embedding.weight.device
