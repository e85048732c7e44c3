"""The encoders: texts in, a vector for each out. `ENCODERS` names the kinds, `ModelSettings.cell` picks one.

Models, methods, checkpoints and reports ask an encoder for what they need of it (sizes, word vectors, banks, shape), so
that a further kind is a subclass of `Encoder` and a row in `ENCODERS`; nothing else knows what is inside.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import torch
from torch import Tensor, nn

from memgrow.data import Example
from memgrow.data.batches import Encoded, Tokenized, tokenize_examples
from memgrow.data.text import tokenize, tokenize_lower
from memgrow.data.values import take_plain_values
from memgrow.data.vectors import Vectors, read_vectors
from memgrow.data.vocabulary import Vocabulary
from memgrow.errors import SettingsError
from memgrow.models.pretrained.files import EncoderFiles
from memgrow.nn import Growth, MemoryBank, ResidualMemory
from memgrow.nn.growth import Layout
from memgrow.nn.state_dict import WithoutExtraState

SPREAD = 0.4  # of a word vector's entries where no file gives them: about that of the usual 300-dimensional files


@dataclass(frozen=True)
class ModelSettings:
    """Sizes and parts of a model before it grows. The defaults are the paper's, for MultiNLI."""

    cell: str = "lstm"  # which encoder, a row of ENCODERS: lstm, gru and rnn are recurrent networks of that cell
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
    lowercase: bool = False  # texts are read in lower case; replies are learnt and written as they are

    poolings: ClassVar[tuple[str, ...]] = ("mean", "last")
    at_least_one: ClassVar[tuple[str, ...]] = ("embedding", "hidden", "layers", "perceptron")

    def __post_init__(self) -> None:
        take_plain_values(self)
        for name, known in (("cell", self.cells()), ("pooling", self.poolings)):
            if getattr(self, name) not in known:
                raise SettingsError(f"{name} {getattr(self, name)!r} is not known; there are {', '.join(known)}")
        for name in self.at_least_one:
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.slots < 0 or (self.slot_size is not None and self.slot_size < 1):
            raise SettingsError(f"slots must be 0 or more and slot_size 1 or more, not {self.slots}, {self.slot_size}")
        if not 0 <= self.dropout < 1:
            raise SettingsError(f"dropout must be at least 0 and below 1, not {self.dropout}")

    @classmethod
    def cells(cls) -> tuple[str, ...]:
        """The encoders that these settings can ask for."""
        return tuple(name for name, kind in ENCODERS.items() if not kind.is_pretrained)

    @property
    def kind(self) -> "type[Encoder]":
        """The kind of encoder that these settings ask for."""
        return ENCODERS[self.cell]

    def resolved(self) -> "tuple[Self, EncoderFiles | None]":
        """The settings, and the files of a pretrained encoder where they name one."""
        return self, None

    def before_slots(self) -> Self:
        """The settings as a model goes by them that has no slots yet: what has no effect then is at its default."""
        return self


class Encoder(WithoutExtraState, ABC):
    """Reads token indices (R, T) and lengths (R); returns a vector (R, sum of sizes) for each row.

    What is here suits an encoder of one column whose memory is in `banks` and whose words have `word_vectors`; one
    that grows in other ways overrides `grows`, `plan`, `layout`, `shape` and `rebuild` together.
    """

    grows: ClassVar[frozenset[str]] = frozenset(("slots", "words"))  # of slots, words, hidden and column
    stored_once: ClassVar[bool] = False  # it is so large that versions of a model share what has not changed of it
    is_pretrained: ClassVar[bool] = False  # and comes with files of its own, and with settings of its own
    unit: ClassVar[str] = "words"  # what a text is cut into
    usual_slots: ClassVar[int] = 0  # of a later domain, where neither the method nor the model says how many
    reads_pairs_as_one: bool = False  # a pair of texts is one row, not two

    def __init__(self, settings: ModelSettings, words: int, domain: str | None = None) -> None:
        """For a vocabulary of this many `words`, padding and unknown included; the first slots belong to `domain`."""
        super().__init__()
        self.settings = settings

    @classmethod
    def create(
        cls, settings: ModelSettings, words: int, domain: str | None = None, files: EncoderFiles | None = None
    ) -> Self:
        """A new encoder; `files` are those of a pretrained one."""
        return cls(settings, words, domain)

    def check_reading(self) -> None:
        """Refuse an encoder whose configuration lets it be built, but not read a text."""

    # From a text to its tokens. They are numbered by the learner's vocabulary, which grows with "words".

    @classmethod
    def tokenizer(cls, settings: ModelSettings) -> Callable[[str], list[str]]:
        """Splits a text into tokens: words, unless an encoder has a tokenizer of its own."""
        return tokenize_lower if settings.lowercase else tokenize

    @classmethod
    def tokenized(
        cls, settings: ModelSettings, examples: Sequence[Example], max_words: int, files: EncoderFiles | None = None
    ) -> Tokenized:
        """Examples as tokens, or as their numbers where the encoder numbers them itself."""
        return tokenize_examples(examples, max_words, cls.tokenizer(settings))

    @classmethod
    def limit(cls, settings: ModelSettings, max_words: int, files: EncoderFiles | None = None) -> int:
        """The number of tokens that are read of a text, at most, where `max_words` are asked for."""
        return max_words

    @classmethod
    def spelled(cls, tokenized: Tokenized, files: EncoderFiles | None = None) -> list[tuple[list[str], ...]]:
        """The tokens of each example, for people to read."""
        return [tuple(map(list, texts)) for texts in tokenized.texts]

    @classmethod
    def first_vocabulary(cls, settings: ModelSettings) -> Vocabulary:
        """The tokens that the encoder knows before it has seen any text."""
        return Vocabulary()

    # Reading

    @property
    def tokens_at_once(self) -> int | None:
        """The number of tokens, with padding, in a batch without gradients; None: batches are counted in examples."""
        return None

    def prepared(self) -> AbstractContextManager[object]:
        """Within, weights stay as they are: what depends on them alone may be computed once for all batches."""
        return nullcontext()

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
    def word_vectors(self) -> nn.Embedding | None:
        """The table of word vectors, if a batch reads only the rows of its words, by calling it with their indices."""
        return None

    @property
    def banks(self) -> Sequence[MemoryBank]:
        """The banks that new slots join and that `reading` tells of."""
        return ()

    @property
    def hidden_units(self) -> list[int]:
        """The hidden units of each column, for reports; none where nothing of the kind can be counted."""
        return []

    @abstractmethod
    def reading(self, words: Tensor, lengths: Tensor) -> list[dict[str, Tensor]]:
        """For each of `banks`: the share of attention that each domain's slots get, (R, T) each, 0 after the end."""

    def slot_weights(self, words: Tensor, lengths: Tensor) -> list[Tensor]:
        """For each of `banks`: the weight of every slot, (R, T, slots), 0 after the end; none if it cannot be told."""
        return []

    # Training

    def pretrained_parameters(self) -> Iterable[nn.Parameter]:
        """Those that were trained before the first domain."""
        return ()

    def untrained_parameters(self) -> Iterable[nn.Parameter]:
        """Those that never train, whatever the method: keys of a memory that are fixed."""
        memories = (module for module in self.modules() if isinstance(module, ResidualMemory))
        return [parameter for memory in memories for parameter in memory.untrained_parameters()]

    # Growing

    @property
    def growing(self) -> Sequence[MemoryBank | ResidualMemory]:
        """The parts that new slots join: the banks, or what each of them stands in."""
        return self.banks

    def start_slots(self, domain: str, data: Encoded) -> None:
        """Begin with a domain's new slots where its data says; by default where they were drawn."""

    def plan(
        self,
        growth: Growth,
        *,
        slots: int = 0,
        hidden: int = 0,
        domain: str | None = None,
        initial_logit_bias: float = 0.0,
        words: Tensor | None = None,
    ) -> None:
        """Make new slots and units, and vectors (new, embedding) of new words, part of a larger growth."""
        if hidden:
            self._refuse("hidden units")
        for part in self.growing:
            part.plan(growth, slots=slots, domain=domain, initial_logit_bias=initial_logit_bias)
        self._plan_words(growth, words)

    def layout(self, hidden: int) -> Layout:
        """The layout of a text's vector when the newest column grows by `hidden` units."""
        return [(size, 0) for size in self.sizes]

    def add_column(self, hidden: int, slots: int = 0, domain: str | None = None) -> None:
        """Add a column that reads all earlier ones: a progressive network."""
        self._refuse("columns")

    def newest_parameters(self) -> Iterable[nn.Parameter]:
        """Those of the newest column: what trains when the earlier ones are frozen."""
        return self.parameters()

    # In a checkpoint

    def shape(self) -> dict[str, Any]:
        """The sizes it has grown to, as JSON: with the settings, all that `rebuild` needs."""
        return {"words": self.vocabulary_size, "slots": segments_of(self.banks[0]) if self.banks else []}

    @classmethod
    def rebuild(cls, settings: ModelSettings, shape: Mapping[str, Any], files: EncoderFiles | None = None) -> Self:
        """An encoder of a shape, its weights still to be filled in."""
        new = cls(replace(settings, slots=0), shape["words"])
        for segment in shape["slots"]:
            growth = Growth()
            new.plan(
                growth, slots=segment["count"], domain=segment["domain"], initial_logit_bias=-float(segment["quiet"])
            )
            growth.commit()
        new.settings = settings
        return new

    def _plan_words(self, growth: Growth, words: Tensor | None) -> None:
        if words is None or not len(words):
            return
        table = self.word_vectors
        if table is None:
            self._refuse("words")
        count = table.num_embeddings
        growth.enlarge(table.weight, 0, [(count, len(words))], lambda _: words)
        growth.then(lambda: setattr(table, "num_embeddings", count + len(words)))

    def _refuse(self, what: str) -> NoReturn:
        raise SettingsError(f"the encoder {self.settings.cell!r} cannot grow by {what}: use a method that adds none")


ENCODERS: dict[str, type[Encoder]] = {}
"""The kinds of encoder by name; each adds its own."""


def segments_of(bank: MemoryBank) -> list[dict[str, Any]]:
    """The slots of a bank by the domain that they came with, as JSON."""
    return [{"domain": s.domain, "count": s.stop - s.start, "quiet": s.biased} for s in bank.segments]


def first_vectors(words: Sequence[str], size: int, file: str | Path | None = None) -> tuple[Tensor, int]:
    """Rows (words, size), and how many of them come from the file.

    The others are drawn from a normal distribution with the spread of the file's rows, or 0.4 without a file.
    """
    if file is None or not words:
        return torch.randn(len(words), size) * SPREAD, 0
    vectors = _read(str(file), tuple(words))
    if vectors.size != size:
        raise SettingsError(
            f"the vectors of {file} have {vectors.size} numbers, but this model's words have {size}: "
            f"use vectors of {size}, or a model with embedding: {vectors.size}"
        )
    found = [index for index, word in enumerate(words) if word in vectors.rows]
    known = torch.from_numpy(np.stack([vectors.rows[words[index]] for index in found])) if found else None
    rows = torch.randn(len(words), size) * (SPREAD if known is None else float(known.std()))
    if known is not None:
        rows[found] = known
    return rows, len(found)


@lru_cache(maxsize=1)
def _read(file: str, words: tuple[str, ...]) -> Vectors:
    """Learners that differ in their seed ask for the same words of the same file, one after another."""
    return read_vectors(file, words)
