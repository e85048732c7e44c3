"""The settings of a model around a pretrained encoder."""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from memgrow.errors import SettingsError
from memgrow.models.encoder import ModelSettings
from memgrow.models.pretrained.catalogue import find_encoder
from memgrow.models.pretrained.files import EncoderFiles
from memgrow.nn import MEMORY_KINDS

CELL = "pretrained"
PAIRS = ("one", "two")
PRECISIONS = ("auto", "float32", "bfloat16")
OF_SLOTS = ("memory", "memory_layers", "key_size", "best")  # without any effect where there are none
OF_ITS_OWN = (
    "embedding",
    "hidden",
    "slot_size",
    "layers",
    "bidirectional",
    "tied",
    "lowercase",
)  # as its files have it


@dataclass(frozen=True)
class PretrainedSettings(ModelSettings):
    """An encoder by name, folder or hub name, how it is read, and the memory that stands in its residual stream."""

    cell: str = CELL
    encoder: str = "minilm"
    weights: str | None = None  # SHA-256 of the encoder's weights: found, not set
    slots: int = 0  # of the first domain, in each layer with a memory
    perceptron: int = 0  # hidden units between features and labels; 0 is a linear head
    dropout: float = 0.1  # within the encoder and on its vectors
    pairs: str = "one"  # a pair is read as one text, with the tokenizer's separator, or as two texts apart
    memory_layers: str | int = "auto"  # after which memories stand, from 1 on: 3,5; auto: half-way, last but one
    memory: str = "slots"  # how it is read: slots, or one of the controls, fixed-keys and adapter
    key_size: int = 64
    best: int = 16  # slots of a domain that a token reads at most
    precision: str = "auto"  # of matrix products: float32, bfloat16; auto: bfloat16 if the processor multiplies it

    poolings: ClassVar[tuple[str, ...]] = ("mean", "first")
    at_least_one: ClassVar[tuple[str, ...]] = ("best",)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "memory_layers", str(self.memory_layers))  # one layer alone may be a number
        plain = ModelSettings()
        for name in OF_ITS_OWN:
            if getattr(self, name) != getattr(plain, name):
                raise SettingsError(
                    f"{name} is a setting of recurrent encoders; {self.encoder} has its own: leave it out"
                )
        for name, known in (("pairs", PAIRS), ("precision", PRECISIONS), ("memory", MEMORY_KINDS)):
            if getattr(self, name) not in known:
                raise SettingsError(f"{name} {getattr(self, name)!r} is not known; there are {', '.join(known)}")
        if self.key_size < 2:
            raise SettingsError(f"key_size must be at least 2, not {self.key_size}")
        if self.perceptron < 0:
            raise SettingsError(f"perceptron must be 0 or more, not {self.perceptron}")
        self.memory_places(2)

    @classmethod
    def cells(cls) -> tuple[str, ...]:
        return (CELL,)

    def memory_places(self, layers: int) -> tuple[int, ...]:
        """The layers, counted from 0, whose output a memory is added to, in an encoder of that many."""
        if self.memory_layers == "auto":
            return tuple(sorted({max(layers // 2 - 1, 0), max(layers - 2, 0)}))
        try:
            places = tuple(sorted({int(number) - 1 for number in str(self.memory_layers).split(",")}))
        except ValueError:
            places = (-1,)
        if places[0] < 0:
            raise SettingsError(
                f"memory_layers {self.memory_layers!r} is no list of layers: write auto, or numbers from 1 on, "
                "such as '3,5'"
            )
        return places

    def before_slots(self) -> Self:
        usual: dict[str, Any] = {one.name: one.default for one in fields(self) if one.name in OF_SLOTS}
        return self if self.slots else replace(self, **usual)

    def resolved(self) -> tuple[Self, EncoderFiles | None]:
        files = find_encoder(self.encoder)
        if self.weights not in (None, files.sha256):
            raise SettingsError(
                f"the encoder {self.encoder} is not the one that this was made with: its weights have the SHA-256 "
                f"{files.sha256[:16]}..., not {(self.weights or '')[:16]}...; put the old one back, or start anew"
            )
        return replace(self, weights=files.sha256), files
