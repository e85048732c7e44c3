"""What all models share: their settings, and the interfaces of encoders and of models."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from memgrow.data.disk import take_plain_values
from memgrow.errors import ModelError, SettingsError
from memgrow.nn import LAYERS

if TYPE_CHECKING:
    from memgrow.models.hub import EncoderFiles

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from memgrow.data.batches import Batch, Encoded, by_length, by_tokens, collate
from memgrow.nn import Growth, MemoryBank
from memgrow.nn.bank import Growing, Layout, WithoutExtraState

PRETRAINED, CAUSAL = "pretrained", "causal"
RECURRENT_ONLY = ("embedding", "hidden", "slot_size", "layers", "bidirectional", "tied", "lowercase")
LATER_SETTINGS = ("lowercase",)  # left out of saved models at their default, so that earlier versions read them


@dataclass(frozen=True)
class ModelSettings:
    """Sizes and parts of a model before it grows. The defaults are the paper's, for MultiNLI."""

    cell: str = "lstm"  # lstm, gru or rnn
    embedding: int = 300  # size of a word's vector
    hidden: int = 300
    slots: int = 500  # of the first domain; 0 is the plain network without a memory
    slot_size: int | None = None  # None: the hidden size
    layers: int = 1
    bidirectional: bool = True
    pooling: str = "mean"  # of all states, or the last ones
    perceptron: int = 300  # hidden units between features and labels
    dropout: float = 0.0  # on word vectors, between layers and in the perceptron
    tied: bool = False  # a responder scores words by their own vectors; a classifier has no use for it
    lowercase: bool = False  # texts are read in lower case; replies are learned and written as they are

    is_pretrained: ClassVar[bool] = False
    grows: ClassVar[frozenset[str]] = frozenset(("slots", "words", "hidden", "column"))  # what can be added
    default_slots: ClassVar[int] = 0  # of a later domain, where neither the method nor the model says how many
    token_name: ClassVar[str] = "words"  # what a text is cut into
    joins_pairs: ClassVar[bool] = False  # a pair of texts is read as one text
    _choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"cell": tuple(LAYERS), "pooling": ("mean", "last")}
    _at_least_one: ClassVar[tuple[str, ...]] = ("embedding", "hidden", "layers", "perceptron")

    def __post_init__(self) -> None:
        take_plain_values(self)
        for name, known in self._choices.items():
            if getattr(self, name) not in known:
                raise SettingsError(f"{name} {getattr(self, name)!r} is not known; choose one of {', '.join(known)}")
        for name in self._at_least_one:
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.slots < 0 or (self.slot_size is not None and self.slot_size < 1):
            raise SettingsError(f"slots must be 0 or more and slot_size 1 or more, not {self.slots}, {self.slot_size}")
        if not 0 <= self.dropout < 1:
            raise SettingsError(f"dropout must be at least 0 and below 1, not {self.dropout}")

    def resolve(self) -> "tuple[Self, EncoderFiles | None]":
        """The settings, and the files of the pretrained encoder that they name."""
        return self, None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name not in LATER_SETTINGS or value}


@dataclass(frozen=True)
class PretrainedSettings(ModelSettings):
    """An encoder by name, folder or hub name, how it is read, and the memory in its residual stream."""

    cell: str = PRETRAINED
    encoder: str = "minilm"
    weights: str | None = None  # SHA-256 of the encoder's weights: found, not set
    slots: int = 0  # of the first domain, in each layer with a memory
    perceptron: int = 0  # hidden units between features and labels; 0 is a linear head
    dropout: float = 0.1  # within the encoder and on its vectors
    pairs: str = "one"  # a pair is read as one text, with the tokenizer's separator, or as two texts
    memory_layers: str | int = "auto"  # layers followed by a memory, from 1 on: 3,5; auto: the middle, the last but one
    memory: str = "slots"  # how it is read: the only way since 1.0
    key_size: int = 64
    best: int = 16  # slots of a domain that a token reads at most
    precision: str = "auto"  # of matrix products: float32, bfloat16; auto: bfloat16 if the processor multiplies it

    is_pretrained: ClassVar[bool] = True
    grows: ClassVar[frozenset[str]] = frozenset(("slots",))
    default_slots: ClassVar[int] = 256
    token_name: ClassVar[str] = "word pieces"
    _choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "cell": (PRETRAINED,),
        "pooling": ("mean", "first"),
        "pairs": ("one", "two"),
        "precision": ("auto", "float32", "bfloat16"),
        "memory": ("slots",),
    }
    _at_least_one: ClassVar[tuple[str, ...]] = ("best",)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "memory_layers", str(self.memory_layers))  # a single layer may be a number
        for name in RECURRENT_ONLY:
            if getattr(self, name) != getattr(ModelSettings, name):
                raise SettingsError(f"{name} is a setting of recurrent networks: leave it out with an encoder")
        if self.key_size < 2 or self.perceptron < 0:
            raise SettingsError(
                f"key_size must be at least 2 and perceptron 0 or more, not {self.key_size}, {self.perceptron}"
            )
        self.memory_positions(2)

    @property
    def joins_pairs(self) -> bool:  # type: ignore[override]
        return self.pairs == "one"

    def memory_positions(self, layers: int) -> tuple[int, ...]:
        """The layers, counted from 0, that are followed by a memory in an encoder of that many."""
        if self.memory_layers == "auto":
            return tuple(sorted({max(layers // 2 - 1, 0), max(layers - 2, 0)}))
        try:
            positions = tuple(sorted({int(number) - 1 for number in str(self.memory_layers).split(",")}))
        except ValueError:
            positions = (-1,)
        if positions[0] < 0:
            raise SettingsError(f"memory_layers {self.memory_layers!r} is not a list of layers such as '3,5', or auto")
        return positions

    def resolve(self) -> "tuple[Self, EncoderFiles | None]":
        from memgrow.models.hub import find_encoder

        files = find_encoder(self.encoder)
        if self.weights not in (None, files.sha256):
            raise SettingsError(
                f"the weights of encoder {self.encoder} have the SHA-256 {files.sha256[:16]}..., and this model was "
                f"made with {(self.weights or '')[:16]}...: restore that encoder, or start a new model"
            )
        return replace(self, weights=files.sha256), files


@dataclass(frozen=True)
class CausalSettings(PretrainedSettings):
    """A causal language model by name, folder or hub name, which learns replies."""

    cell: str = CAUSAL
    dropout: float = 0.0  # within the model

    grows: ClassVar[frozenset[str]] = frozenset()
    token_name: ClassVar[str] = "tokens"
    _choices: ClassVar[Mapping[str, tuple[str, ...]]] = {**PretrainedSettings._choices, "cell": (CAUSAL,)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.slots:
            raise SettingsError("a causal language model has no memory slots: leave slots out")


def settings_from_json(values: Mapping[str, Any]) -> ModelSettings:
    """The settings that `to_json` made JSON of."""
    values = dict(values)
    if values.pop("domains_read", 0):
        raise ModelError("this model reads only the nearest domains (domains_read): memgrow 0.2 can use it")
    kinds: dict[str, type[ModelSettings]] = {PRETRAINED: PretrainedSettings, CAUSAL: CausalSettings}
    return kinds.get(values["cell"], ModelSettings)(**values)


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

    def parts(self, batch: Batch) -> list[tuple[Batch, float]]:
        """The batch in parts whose gradients are added up, each with its share of the loss."""
        return [(batch, 1.0)]

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

    def addition_names(self) -> list[str]:
        """Parameters beside pretrained weights that stay as they are: all that domains train; none elsewhere."""
        return []

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
