"""The interface of any model to its learner, whether it answers with labels or with words."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from memgrow.data.batches import Batch, Encoded
from memgrow.models.encoder import Encoder, ModelSettings
from memgrow.nn import Growth, MemoryBank
from memgrow.nn.growth import renamed_optimizer
from memgrow.nn.state_dict import WithoutExtraState

LARGE = 256  # examples in a batch where no gradient is needed


class StepOutput(NamedTuple):
    """The output of a model for a training batch."""

    loss: Tensor  # the mean: gradients go through this one
    logits: Tensor | None  # (B, labels), where the answers are labels
    total: Tensor  # summed loss, without gradients
    right: Tensor  # right answers; of replies, the probability of their words, summed
    seen: int  # answers, or words of replies


class Tally(NamedTuple):
    """The answers to examples, counted one by one: a score, and how far chance may have moved it."""

    sums: Tensor  # (examples), double, on the CPU: 1 if the answer is right, else 0; of a reply, log p of all it says
    counts: Tensor  # (examples), likewise: 1; of a reply, its words and its end
    logarithmic: bool = False  # whether the sums are logarithms

    @property
    def mean(self) -> float:
        """The accuracy; of replies, the mean log-probability of a word."""
        return float(self.sums.sum() / self.counts.sum())

    @property
    def standard_error(self) -> float:
        """That of the mean, if other examples had been drawn; of an accuracy p it is sqrt(p (1 - p) / examples).

        The words of one reply depend on each other, so that replies are the units that are drawn, and not words.
        """
        return float((self.sums - self.mean * self.counts).square().sum().sqrt() / self.counts.sum())

    @property
    def score(self) -> float:
        """The same as the model's `score`, up to rounding."""
        return math.exp(self.mean) if self.logarithmic else self.mean


class Model(WithoutExtraState, ABC):
    """Reads texts by an encoder, and grows. It has a head for each column of the encoder; the newest one answers."""

    encoder: Encoder
    heads: Any
    fisher: ClassVar[str | None] = None  # the only variant of the Fisher information that it has, if it has but one

    @abstractmethod
    def __init__(self, encoder: Encoder, labels: int) -> None: ...

    @abstractmethod
    def training_step(self, batch: Batch) -> StepOutput:
        """The loss of a batch."""

    @abstractmethod
    def likelihoods(self, batch: Batch, variant: str) -> list[tuple[Tensor, float]]:
        """The log-likelihoods whose squared gradients make one example's Fisher information, each with its weight."""

    @abstractmethod
    def score(self, data: Encoded) -> float:
        """The score of the answers to examples, from 0 to 1: what early stopping and the accuracy matrix go by."""

    @abstractmethod
    def tally(self, data: Encoded) -> Tally:
        """What the score is made of, example by example."""

    def grow(
        self,
        *,
        slots: int = 0,
        hidden: int = 0,
        domain: str | None = None,
        initial_logit_bias: float = 0.0,
        words: Tensor | None = None,
        labels: int = 0,
        optimizer: torch.optim.Optimizer | None = None,
        generator: torch.Generator | None = None,
        **deprecated: Any,
    ) -> None:
        """Add slots, hidden units, words (vectors, (new, embedding)) and labels in one call, or nothing at all."""
        growth = Growth(renamed_optimizer(optimizer, deprecated), generator)
        planned: dict[str, Any] = {
            "slots": slots,
            "hidden": hidden,
            "domain": domain,
            "initial_logit_bias": initial_logit_bias,
        }
        self.encoder.plan(growth, words=words, **planned)
        self._plan(growth, words=0 if words is None else len(words), labels=labels, **planned)
        growth.commit()

    @abstractmethod
    def _plan(
        self,
        growth: Growth,
        *,
        slots: int,
        hidden: int,
        domain: str | None,
        initial_logit_bias: float,
        words: int,
        labels: int,
    ) -> None:
        """Plan the growth of all but the encoder."""

    def add_column(
        self,
        hidden: int,
        slots: int = 0,
        domain: str | None = None,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        """Add a column that reads all earlier ones, and a head that reads them all: a progressive network."""
        self._widen(hidden, slots, domain)
        if optimizer is not None:
            optimizer.add_param_group({"params": self.newest_parameters()})

    @abstractmethod
    def _widen(self, hidden: int, slots: int, domain: str | None) -> None:
        """Add the column and its head."""

    @property
    def settings(self) -> ModelSettings:
        return self.encoder.settings

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def vocabulary_size(self) -> int:
        """The number of words it knows, padding and unknown included."""
        return self.encoder.vocabulary_size

    @property
    def word_vectors(self) -> nn.Embedding | None:
        """The table of word vectors, if each batch reads from it only the rows of its own words."""
        return self.encoder.word_vectors

    @property
    def scores_by_vectors(self) -> bool:
        """Whether an answer depends on the vectors of all words, and not on those of a text alone."""
        return False

    @property
    def banks(self) -> Sequence[MemoryBank]:
        """The banks that new slots join."""
        return self.encoder.banks

    def head_parameters(self) -> list[nn.Parameter]:
        """Those of all heads."""
        return list(self.heads.parameters())

    def multiplications(self, texts: int) -> int:
        """About how many multiplications a step through so many texts has: one for each weight, but for words'."""
        words = 0 if self.word_vectors is None else self.word_vectors.weight.numel()
        return texts * (sum(parameter.numel() for parameter in self.parameters()) - words)

    def newest_parameters(self) -> list[nn.Parameter]:
        """Those of the newest column and of its head."""
        return [*self.encoder.newest_parameters(), *self.heads[-1].parameters()]

    def name_of(self, parameter: Tensor) -> str:
        """The name of one of its parameters."""
        return next(name for name, own in self.named_parameters() if own is parameter)

    def shape(self) -> dict[str, Any]:
        """The sizes the model has grown to: with the settings, all that is needed to build it anew.

        What else has columns, such as a decoder, grows together with the encoder, which speaks for it.
        """
        return self.encoder.shape()
