"""Classifiers of texts and of pairs of texts: an encoder, features, and a small perceptron."""

import copy
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.data.batches import Batch, Encoded
from memgrow.data.disk import Shapes
from memgrow.errors import ModelError, SettingsError
from memgrow.models.base import (
    CausalSettings,
    Encoder,
    Model,
    ModelSettings,
    PretrainedSettings,
    StepOutput,
    Tally,
    read_all,
)
from memgrow.models.causal import CausalModel
from memgrow.models.domain_memory import DomainMemory, kept_blocks
from memgrow.models.hub import EncoderFiles, check_sizes, unfit
from memgrow.models.recurrent import RecurrentEncoder
from memgrow.models.seq2seq import Responder
from memgrow.models.transformer import PretrainedEncoder
from memgrow.nn import Growth


class LabelLayer(nn.Linear):
    """A linear layer with an output for each label, that grows by labels.

    Labels that were added together stay one product: in a larger one sums may be rounded in another order, and the
    logits of old labels keep their bits. A new label begins as the mean of all old ones. Its logit is then the mean of
    theirs, so that it is not the most probable anywhere, and of n labels it takes at most 1/n of the probability.
    """

    def __init__(self, features: int, labels: int) -> None:
        super().__init__(features, labels)
        self.blocks: tuple[int, ...] = (labels,)  # of labels that were added together

    def forward(self, x: Tensor) -> Tensor:
        if len(self.blocks) == 1:
            return super().forward(x)
        blocks = list(self.blocks)
        parts = zip(torch.split(self.weight, blocks), torch.split(self.bias, blocks), strict=True)
        return torch.cat([F.linear(x, weight, bias) for weight, bias in parts], dim=-1)

    def plan(self, growth: Growth, labels: int) -> None:
        if labels:
            for parameter in (self.weight, self.bias):
                growth.enlarge(parameter, 0, [(self.out_features, labels)], growth.mean_of(parameter))
            growth.then(lambda: self._add_block(labels))

    def _add_block(self, labels: int) -> None:
        self.blocks, self.out_features = (*self.blocks, labels), self.out_features + labels


class RandomFeatures(nn.Linear):
    """A fixed random layer on vectors of unit length, ReLU(W x / |x|): a linear head on it separates more."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.normalize(x, dim=-1)).relu()


class Classifier(Model):
    """The base of both classifiers. Rows of a batch: all first texts, then all second ones."""

    texts: ClassVar[int]  # in one example
    copies: ClassVar[int]  # of a sentence's vector among the features

    def __init__(self, encoder: Encoder, labels: int) -> None:
        super().__init__()
        self.encoder, self.labels = encoder, labels
        self.heads = nn.ModuleList(self._new_head(count + 1) for count in range(len(encoder.sizes)))
        self.memory: DomainMemory | None = None  # read by `logits`, not while a domain trains

    @abstractmethod
    def features(self, vectors: Tensor) -> Tensor:
        """One vector for each example (B, copies * S) from one for each text (B * texts, S)."""

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Logits (B, labels) of word indices (B * texts, T)."""
        logits: Tensor = self.heads[-1](self.features(self.encoder(words, lengths)))
        return logits

    def training_step(self, batch: Batch) -> StepOutput:
        logits = self(batch.words, batch.lengths)
        loss, count = F.cross_entropy(logits, batch.labels), len(batch.labels)
        right = (logits.detach().argmax(-1) == batch.labels).sum()
        return StepOutput(loss, logits, loss.detach() * count, right, count)

    def likelihoods(self, batch: Batch, variant: str) -> list[tuple[Tensor, float]]:
        scores = torch.log_softmax(self(batch.words, batch.lengths)[0], dim=-1)  # (labels)
        probabilities = scores.detach().exp()
        if variant == "exact":
            return [(score, float(p)) for score, p in zip(scores, probabilities, strict=True)]
        answer = int(batch.labels if variant == "empirical" else torch.multinomial(probabilities.cpu(), 1))
        return [(scores[answer], 1.0)]

    def logits(self, data: Encoded, domain: str | None = None, temperatures: Mapping[str, float] = {}) -> Tensor:
        """The logits of all examples (examples, labels), in their order, on the CPU.

        With a domain memory each text is answered by the entry that `DomainMemory.readers` says, or by `domain`'s; see
        there for `temperatures`.
        """
        if self.memory is None or (domain is None and not self.memory.routes):
            return self.plain_logits(data)
        return self.memory.logits(self, data, domain, temperatures)

    def plain_logits(self, data: Encoded) -> Tensor:
        """The same by the current weights, without the domain memory."""
        self.eval()
        return read_all(self.encoder, data, lambda batch: self(batch.words, batch.lengths), self.labels)

    def correct(self, data: Encoded) -> Tensor:
        """For each example (examples) whether its most probable label is the right one."""
        return self.logits(data).argmax(-1) == torch.tensor(data.labels)

    def tally(self, data: Encoded) -> Tally:
        right = self.correct(data).double()
        return Tally(right, torch.ones_like(right))

    def _plan(self, growth: Growth, *, hidden: int, words: int, labels: int, **memory: Any) -> None:
        first = cast(nn.Linear, self.heads[-1][0])
        layout = list(self.encoder.layout(hidden)) * self.copies
        draw = growth.uniform(1 / sum(size + extra for size, extra in layout) ** 0.5)  # as torch draws a Linear
        growth.enlarge(first.weight, 1, layout, draw)
        growth.then(lambda: setattr(first, "in_features", first.weight.shape[1]))
        for head in self.heads:  # all have the same labels
            cast(LabelLayer, head[-1]).plan(growth, labels)
        growth.then(lambda: setattr(self, "labels", self.labels + labels))

    @property
    def label_blocks(self) -> tuple[int, ...]:
        """How many of its labels were added each time."""
        return cast(LabelLayer, self.heads[-1][-1]).blocks

    @label_blocks.setter
    def label_blocks(self, blocks: Sequence[int]) -> None:
        if not all(isinstance(size, int) and size > 0 for size in blocks) or sum(blocks) != self.labels:
            raise ModelError(f"config.json: the labels do not add up to the {self.labels} of the model")
        cast(LabelLayer, self.heads[-1][-1]).blocks = tuple(blocks)

    @property
    def label_parameters(self) -> set[str]:
        """The names of the parameters with a row for each label."""
        return {f"heads.{n}.{len(head) - 1}.{one}" for n, head in enumerate(self.heads) for one in ("weight", "bias")}

    def keep_labels(self, labels: Sequence[int]) -> None:
        """Drop all labels but these, by their indices."""
        blocks, self.labels = kept_blocks(self.label_blocks, labels), len(labels)
        for head in self.heads:
            layer = cast(LabelLayer, head[-1])
            layer.weight, layer.bias = (nn.Parameter(one.detach()[labels]) for one in (layer.weight, layer.bias))
            layer.out_features, layer.blocks = len(labels), blocks

    def shape(self) -> dict[str, Any]:
        blocks = self.label_blocks
        memory = {"domain_memory": self.memory.shape()} if self.memory is not None else {}
        first = self.heads[-1][0]
        projection = {"projection": first.out_features} if isinstance(first, RandomFeatures) else {}
        return {**super().shape(), **({"labels": list(blocks)} if len(blocks) > 1 else {}), **memory, **projection}

    def project(self, features: int) -> None:
        """Start a new linear head on this many random features."""
        layer = RandomFeatures(self.heads[-1][0].in_features, features, bias=False)
        self.heads[-1] = nn.Sequential(layer, LabelLayer(features, self.labels)).to(self.device)

    def add_column(self, hidden: int, slots: int = 0, domain: str | None = None) -> None:
        cast(RecurrentEncoder, self.encoder).add_column(hidden, slots, domain)
        self.heads.append(self._new_head(len(self.encoder.sizes)))

    def _new_head(self, columns: int) -> nn.Sequential:
        """A head that reads the first columns."""
        settings, features = self.settings, self.copies * sum(self.encoder.sizes[:columns])
        if not settings.perceptron:
            return nn.Sequential(LabelLayer(features, self.labels)).to(self.device)
        head = nn.Sequential(
            nn.Linear(features, settings.perceptron),
            nn.ReLU(),
            nn.Dropout(settings.dropout),
            LabelLayer(settings.perceptron, self.labels),
        )
        return head.to(self.device)


class TextClassifier(Classifier):
    """One row per example: a text, or a pair that a pretrained encoder reads as one sequence."""

    texts = 1
    copies = 1

    def features(self, vectors: Tensor) -> Tensor:
        return vectors


class PairClassifier(Classifier):
    """Two texts, read by the same encoder, and how they relate."""

    texts = 2
    copies = 4

    def features(self, vectors: Tensor) -> Tensor:
        return self.joined(*vectors.chunk(2))

    @staticmethod
    def joined(u: Tensor, v: Tensor) -> Tensor:
        """The features of pairs whose texts have the vectors u and v, (B, S) each."""
        return torch.cat((u, v, u * v, (u - v).abs()), dim=-1)


REPLY = "reply"
TASKS = ("text", "pair", REPLY)


def build(
    task: str,
    settings: ModelSettings,
    words: int,
    labels: int = 0,
    domain: str | None = None,
    files: EncoderFiles | None = None,
    base: PretrainedEncoder | None = None,
) -> Model:
    """A new model, on a copy of the encoder `base` or on that of the files."""
    if base is not None:
        return _around(copy.deepcopy(base), task, labels)
    if isinstance(settings, CausalSettings):
        assert files is not None
        return CausalModel.create(settings, files)
    if isinstance(settings, PretrainedSettings):
        assert files is not None
        return _around(PretrainedEncoder.create(settings, files, domain), task, labels)
    return _around(RecurrentEncoder(settings, words, domain), task, labels)


def rebuild(
    task: str,
    settings: ModelSettings,
    labels: int,
    shape: Mapping[str, Any],
    *,
    files: EncoderFiles | None = None,
    stored: Shapes | None = None,
) -> Model:
    """A model of the given shape, its weights to be filled in; `stored` are the shapes of the weights it must have.

    A folder may come from anywhere: what is not plausible is refused before anything of its size is built.
    """

    if isinstance(settings, CausalSettings):
        assert files is not None
        return CausalModel.rebuild(settings, files, shape, stored or {})

    def encoder() -> Encoder:
        if isinstance(settings, PretrainedSettings):
            assert files is not None
            return PretrainedEncoder.rebuild(settings, files, shape)
        return RecurrentEncoder.rebuild(settings, shape)

    def build() -> Model:
        model = _around(encoder(), task, labels)
        if isinstance(model, Classifier) and "projection" in shape:
            model.project(shape["projection"])
        if isinstance(model, Classifier) and "labels" in shape:
            model.label_blocks = shape["labels"]
        if isinstance(model, Classifier) and "domain_memory" in shape:
            base = cast(PretrainedEncoder, encoder()) if settings.is_pretrained else None
            model.memory = DomainMemory.restore(shape["domain_memory"], base, stored or {})
        return model

    if stored is not None:
        if settings.layers > len(stored) or len(shape.get("columns", ())) > len(stored):
            raise unfit(f"more layers or columns than the {len(stored):,} tensors")
        if "projection" in shape and stored.get("heads.0.0.weight", ())[:1] != (shape["projection"],):
            raise unfit("another number of random features than heads.0.0.weight")
        if files is not None:
            check_sizes(json.loads(files.config), stored)
        with torch.device("meta"):  # shapes alone, which takes milliseconds and no memory
            model = build()
        _check_shapes(_shapes_of(model), stored, exactly=files is None)
    return build()


def check_numbers(model: Model, stored: Mapping[str, Tensor]) -> None:
    """Refuse weights of another dtype than the model's, or that are not finite."""
    for name, own in model.state_dict().items():
        if name in stored and stored[name].dtype != own.dtype:
            raise unfit(f"{name} is of {stored[name].dtype} and should be of {own.dtype}")
        if name in stored and own.is_floating_point() and not _all_finite(stored[name]):
            raise ModelError(f"{name} has a weight that is not a finite number: go back to a saved model")


def _around(encoder: Encoder, task: str, labels: int) -> Model:
    """The model of a task; a pair that the encoder reads as one text needs a classifier of texts."""
    if task == REPLY:
        return Responder(encoder)
    if task not in TASKS:
        raise SettingsError(f"unknown task {task!r}; choose one of {', '.join(TASKS)}")
    is_pair = task == "pair" and not encoder.settings.joins_pairs
    return (PairClassifier if is_pair else TextClassifier)(encoder, labels)


def _all_finite(tensor: Tensor) -> bool:
    """In one pass and without another tensor of that size."""
    return not tensor.numel() or all(bool(bound.isfinite()) for bound in torch.aminmax(tensor.detach()))


def _shapes_of(model: Model) -> Shapes:
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def _check_shapes(expected: Shapes, stored: Shapes, exactly: bool = False) -> None:
    """Refuse weights of other shapes than expected; `exactly`: also one that is too many."""
    for name, sizes in expected.items():
        if stored.get(name) != sizes:
            raise unfit(f"{name} is {stored.get(name, 'missing')} and should be {sizes}")
    if exactly and (more := sorted(stored.keys() - expected.keys())):
        raise unfit(f"{more[0]} is unexpected")
