"""The interfaces of encoders and of models, whether they answer with labels or with words."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn

from memgrow.data.batches import Batch, Encoded, by_length, by_tokens, collate
from memgrow.models.settings import ModelSettings
from memgrow.nn import Growth, MemoryBank
from memgrow.nn.growth import Growing, Layout, WithoutExtraState

INFERENCE_BATCH = 256  # examples in a batch where no gradient is needed


class Encoder(WithoutExtraState, ABC):
    """Reads token indices (R, T) and lengths (R); returns a vector (R, sum of sizes) for each row."""

    settings: ModelSettings

    @abstractmethod
    def forward(self, words: Tensor, lengths: Tensor) -> Tensor: ...

    @property
    @abstractmethod
    def sizes(self) -> list[int]:
        """The length of each column's part of a text's vector; all but Progressive have one column."""

    @property
    @abstractmethod
    def vocabulary_size(self) -> int:
        """The number of tokens it knows, padding and unknown included."""

    @property
    @abstractmethod
    def banks(self) -> Sequence[MemoryBank]:
        """The banks that new slots join."""

    @abstractmethod
    def attention(self, words: Tensor, lengths: Tensor) -> list[Tensor]:
        """For each of `banks`: the weight of every slot, (R, T, slots), 0 after the end of a text."""

    @abstractmethod
    def plan(self, growth: Growth, *, hidden: int = 0, words: Tensor | None = None, **memory: Any) -> None:
        """Plan new units, vectors (new, embedding) of new words, and slots; `growth.commit()` adds them.

        `memory` has slots, their domain and their logit bias, as of `MemoryBank.plan`.
        """

    @abstractmethod
    def shape(self) -> dict[str, Any]:
        """The sizes it has grown to, as JSON: with the settings, all that is needed to build it again."""

    def attention_shares(self, words: Tensor, lengths: Tensor) -> list[dict[str, Tensor]]:
        """For each of `banks`: the share of attention of each domain's slots, (R, T) each."""
        weights = self.attention(words, lengths)
        return [bank.share(each) for bank, each in zip(self.banks, weights, strict=True)]

    def layout(self, hidden: int) -> Layout:
        """The layout of a text's vector when the newest column grows by `hidden` units."""
        return [(size, 0) for size in self.sizes]

    @property
    def word_vectors(self) -> nn.Embedding | None:
        """The table of word vectors that new words join; None if the encoder has a fixed vocabulary."""
        return None

    @property
    def hidden_units(self) -> list[int]:
        """The hidden units of each column of a recurrent network."""
        return []

    @property
    def tokens_at_once(self) -> int | None:
        """The number of tokens, with padding, in a batch without gradients; None: batches are counted in examples."""
        return None

    def batches(self, data: Encoded) -> Iterable[list[int]]:
        """All examples, by their numbers, in batches without gradients."""
        most = self.tokens_at_once
        return by_length(data, INFERENCE_BATCH) if most is None else by_tokens(data, most)

    def start_slots(self, domain: str, data: Encoded) -> None:
        """Initialize a domain's new slots by its data, where that is better than random."""

    def check(self) -> None:
        """Refuse an encoder whose configuration can be built, but cannot read a text."""

    def pretrained_parameters(self) -> Iterable[nn.Parameter]:
        """Those that were trained before the first domain."""
        return ()

    def untrained_parameters(self) -> Iterable[nn.Parameter]:
        """Those that never train, whatever the method: fixed keys of a memory."""
        return ()


@torch.no_grad()
def read_all(encoder: Encoder, data: Encoded, compute: Callable[[Batch], Tensor], size: int) -> Tensor:
    """What `compute` returns for batches of all examples, without gradients: (examples, size), on the CPU."""
    encoder.eval()
    device = next(encoder.parameters()).device
    order, found = [], [torch.empty(0, size, device=device)]
    for indices in encoder.batches(data):
        order += indices
        found.append(compute(collate(data, indices, device)))
    rows = torch.empty(len(data), size)
    rows[order] = torch.cat(found).cpu()  # all at once: a GPU is asked for the next before it has answered
    return rows


class StepOutput(NamedTuple):
    """The output of a model for a training batch."""

    loss: Tensor  # the mean: gradients go through this one
    logits: Tensor | None  # (B, labels), where the answers are labels
    total: Tensor  # summed loss, without gradients
    right: Tensor  # right answers; of replies, the probability of their words, summed
    seen: int  # answers, or words of replies


class Tally(NamedTuple):
    """A score by examples, and its standard error."""

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

        The words of one reply depend on each other: the units that are drawn are replies, not words.
        """
        return float((self.sums - self.mean * self.counts).square().sum().sqrt() / self.counts.sum())

    @property
    def score(self) -> float:
        """From 0 to 1: the accuracy, or the geometric mean of the probabilities of words, 1 / perplexity."""
        return math.exp(self.mean) if self.logarithmic else self.mean


class Model(Growing, WithoutExtraState, ABC):
    """Reads texts by an encoder, and grows. It has a head for each column of the encoder; the newest one answers."""

    encoder: Encoder
    heads: Any
    only_fisher_variant: ClassVar[str | None] = None  # None: all

    @abstractmethod
    def training_step(self, batch: Batch) -> StepOutput:
        """The loss of a batch."""

    @abstractmethod
    def likelihoods(self, batch: Batch, variant: str) -> list[tuple[Tensor, float]]:
        """The log-likelihoods whose squared gradients make one example's Fisher information, each with its weight."""

    @abstractmethod
    def tally(self, data: Encoded) -> Tally:
        """The score by examples."""

    def score(self, data: Encoded) -> float:
        """The score of the answers to examples, from 0 to 1: for early stopping and the accuracy matrix."""
        return self.tally(data).score

    def plan(
        self, growth: Growth, *, hidden: int = 0, words: Tensor | None = None, labels: int = 0, **memory: Any
    ) -> None:
        """Plan hidden units, words (vectors, (new, embedding)), labels, and slots: `memory` is as of `Encoder.plan`."""
        self.encoder.plan(growth, hidden=hidden, words=words, **memory)
        self._plan(growth, hidden=hidden, words=0 if words is None else len(words), labels=labels, **memory)

    @abstractmethod
    def _plan(self, growth: Growth, *, hidden: int, words: int, labels: int, **memory: Any) -> None:
        """Plan the growth of all but the encoder; `memory` has slots, their domain and their logit bias."""

    @abstractmethod
    def add_column(self, hidden: int, slots: int = 0, domain: str | None = None) -> None:
        """Add a column that reads all earlier ones, and a head that reads them all: a progressive network."""

    @property
    def settings(self) -> ModelSettings:
        return self.encoder.settings

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def vocabulary_size(self) -> int:
        return self.encoder.vocabulary_size

    @property
    def word_vectors(self) -> nn.Embedding | None:
        return self.encoder.word_vectors

    @property
    def banks(self) -> Sequence[MemoryBank]:
        return self.encoder.banks

    def head_parameters(self) -> list[nn.Parameter]:
        return list(self.heads.parameters())

    def multiplications(self, texts: int) -> int:
        """About how many multiplications a step through so many texts has: one for each weight, but for words'."""
        words = 0 if self.word_vectors is None else self.word_vectors.weight.numel()
        return texts * (sum(parameter.numel() for parameter in self.parameters()) - words)

    def newest_parameters(self) -> list[nn.Parameter]:
        """Those of the newest column of a recurrent network and of its head."""
        return [*cast(Any, self.encoder).newest.parameters(), *self.heads[-1].parameters()]

    def shape(self) -> dict[str, Any]:
        """The sizes the model has grown to, as JSON: with the settings, all that is needed to build it again."""
        return self.encoder.shape()
