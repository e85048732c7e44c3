"""Classifiers of texts and of pairs of texts: an encoder, features, and a small perceptron."""

from abc import abstractmethod
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.data.batches import Batch, Encoded, by_length, collate
from memgrow.models.encoder import TextEncoder
from memgrow.models.model import LARGE, Model, Taught
from memgrow.models.settings import ModelSettings
from memgrow.nn import Growth


class Classifier(Model):
    """What both have in common. Rows of a batch: all first texts, then all second ones."""

    texts: ClassVar[int]  # in one example
    copies: ClassVar[int]  # of a sentence's vector among the features

    def __init__(self, settings: ModelSettings, words: int, labels: int, domain: str | None = None) -> None:
        super().__init__()
        self.settings = settings
        self.labels = labels
        self.encoder = TextEncoder(settings, words, domain)
        self.heads = cast(list[nn.Sequential], nn.ModuleList())  # one for each column; the newest one answers
        self.heads.append(self._new_head())

    @abstractmethod
    def features(self, vectors: Tensor) -> Tensor:
        """From one vector for each text (B * texts, S) to one for each example (B, copies * S)."""

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Logits (B, labels) of word indices (B * texts, T)."""
        logits: Tensor = self.heads[-1](self.features(self.encoder(words, lengths)))
        return logits

    def teach(self, batch: Batch) -> Taught:
        logits = self(batch.words, batch.lengths)
        loss, count = F.cross_entropy(logits, batch.labels), len(batch.labels)
        right = (logits.detach().argmax(-1) == batch.labels).sum()
        return Taught(loss, logits, loss.detach() * count, right, count)

    def likelihoods(self, batch: Batch, variant: str) -> list[tuple[Tensor, float]]:
        scores = torch.log_softmax(self(batch.words, batch.lengths)[0], dim=-1)  # (labels)
        chances = scores.detach().exp()
        if variant == "exact":
            return [(score, float(chance)) for score, chance in zip(scores, chances, strict=True)]
        answer = int(batch.labels if variant == "empirical" else torch.multinomial(chances.cpu(), 1))
        return [(scores[answer], 1.0)]

    @torch.no_grad()
    def logits(self, data: Encoded) -> Tensor:
        """Of all examples (examples, labels), in their order, on the CPU."""
        self.eval()
        answers = torch.empty(len(data), self.labels)
        for indices in by_length(data, LARGE):
            batch = collate(data, indices, self.device)
            answers[indices] = self(batch.words, batch.lengths).cpu()
        return answers

    def correct(self, data: Encoded) -> Tensor:
        """Of which examples (examples) the most probable label is the right one."""
        return self.logits(data).argmax(-1) == torch.tensor(data.labels)

    def score(self, data: Encoded) -> float:
        """The share of examples whose most probable label is the right one."""
        return float(self.correct(data).double().mean())

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
        growth = Growth(optimiser, generator)
        self.encoder.plan(growth, slots=slots, hidden=hidden, domain=domain, quiet=quiet, words=words)
        first = cast(nn.Linear, self.heads[-1][0])
        layout = list(self.encoder.layout(hidden)) * self.copies
        draw = growth.uniform(1 / sum(size + extra for size, extra in layout) ** 0.5)  # as torch draws a Linear
        growth.enlarge(first.weight, 1, layout, draw)
        growth.commit()
        first.in_features = first.weight.shape[1]

    def add_column(
        self,
        hidden: int,
        slots: int = 0,
        domain: str | None = None,
        optimiser: torch.optim.Optimizer | None = None,
    ) -> None:
        """Add a column that reads all earlier ones, and a head that reads them all: a progressive network."""
        column = self.encoder.new_column(hidden, slots, domain)
        self.encoder.columns.append(column)
        self.heads.append(self._new_head())
        if optimiser is not None:
            optimiser.add_param_group({"params": [*column.parameters(), *self.heads[-1].parameters()]})

    def _new_head(self) -> nn.Sequential:
        head = nn.Sequential(
            nn.Linear(self.copies * sum(self.encoder.sizes), self.settings.perceptron),
            nn.ReLU(),
            nn.Dropout(self.settings.dropout),
            nn.Linear(self.settings.perceptron, self.labels),
        )
        return head.to(self.encoder.embedding.weight.device)


class TextClassifier(Classifier):
    """One text, one label."""

    texts = 1
    copies = 1

    def features(self, vectors: Tensor) -> Tensor:
        return vectors


class PairClassifier(Classifier):
    """Two texts, read by the same encoder, and what they have to do with each other."""

    texts = 2
    copies = 4

    def features(self, vectors: Tensor) -> Tensor:
        u, v = vectors.chunk(2)
        return torch.cat((u, v, u * v, (u - v).abs()), dim=-1)
