"""What a model is made of. The defaults are the paper's, for MultiNLI."""

from dataclasses import dataclass

from memgrow.errors import SettingsError
from memgrow.nn import LAYERS

POOLINGS = ("mean", "last")


@dataclass(frozen=True)
class ModelSettings:
    """Sizes and parts of a model before it grows."""

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

    def __post_init__(self) -> None:
        for name, known in (("cell", tuple(LAYERS)), ("pooling", POOLINGS)):
            if getattr(self, name) not in known:
                raise SettingsError(f"{name} {getattr(self, name)!r} is not known; there are {', '.join(known)}")
        for name in ("embedding", "hidden", "layers", "perceptron"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.slots < 0 or (self.slot_size is not None and self.slot_size < 1):
            raise SettingsError(f"slots must be 0 or more and slot_size 1 or more, not {self.slots}, {self.slot_size}")
        if not 0 <= self.dropout < 1:
            raise SettingsError(f"dropout must be at least 0 and below 1, not {self.dropout}")
