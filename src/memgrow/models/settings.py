"""The settings of a model: a recurrent network, or a pretrained encoder."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from memgrow.data.disk import take_plain_values
from memgrow.errors import ModelError, SettingsError
from memgrow.nn import LAYERS, MEMORY_KINDS

if TYPE_CHECKING:
    from memgrow.models.hub import EncoderFiles

PRETRAINED = "pretrained"
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
    memory: str = "slots"  # how it is read: slots, or one of the controls, fixed-keys and adapter
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
        "memory": MEMORY_KINDS,
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


def settings_from_json(values: Mapping[str, Any]) -> ModelSettings:
    """The settings that `to_json` made JSON of."""
    values = dict(values)
    if values.pop("domains_read", 0):
        raise ModelError("this model reads only the nearest domains (domains_read): memgrow 0.2 can use it")
    return (PretrainedSettings if values["cell"] == PRETRAINED else ModelSettings)(**values)
