"""The settings that the recorded runs were made with, under the names and defaults of memgrow 0.2.

A record's key is a hash of them, so they must not change. `for_memgrow` turns them into the settings of the memgrow
that is installed, which may have renamed or dropped some.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import memgrow
from memgrow.errors import SettingsError

OF_SLOTS = ("memory", "memory_layers", "key_size", "best", "domains_read")  # no effect in a model without slots
RENAMED: dict[str, str] = {}  # settings that memgrow calls by another name now


@dataclass(frozen=True)
class ModelSettings:
    """A recurrent network. The defaults are the paper's, for MultiNLI."""

    cell: str = "lstm"
    embedding: int = 300
    hidden: int = 300
    slots: int = 500
    slot_size: int | None = None
    layers: int = 1
    bidirectional: bool = True
    pooling: str = "mean"
    perceptron: int = 300
    dropout: float = 0.0
    tied: bool = False
    domains_read: int = 0
    lowercase: bool = False

    def before_slots(self) -> "ModelSettings":
        """The settings without those that have no effect before there are slots."""
        return self


@dataclass(frozen=True)
class PretrainedSettings(ModelSettings):
    """A pretrained encoder with a memory in its residual stream."""

    cell: str = "pretrained"
    encoder: str = "minilm"
    weights: str | None = None
    slots: int = 0
    perceptron: int = 0
    dropout: float = 0.1
    pairs: str = "one"
    memory_layers: str = "auto"
    memory: str = "slots"
    key_size: int = 64
    best: int = 16
    precision: str = "auto"

    def before_slots(self) -> ModelSettings:
        usual: dict[str, Any] = {one.name: one.default for one in fields(self) if one.name in OF_SLOTS}
        return self if self.slots else replace(self, **usual)


@dataclass(frozen=True)
class TrainingSettings:
    """Training on a domain."""

    rate: float = 3e-4
    batch: int = 32
    epochs: int | Literal["auto"] = 20
    patience: int | Literal["auto"] = 2
    clip: float = 5.0
    min_count: int = 1
    min_documents: int = 1
    max_words: int = 400
    new_rate: float | None = None
    warm_up: int = 0
    schedule: str = "constant"


@dataclass(frozen=True)
class MethodSettings:
    """The options of methods."""

    slots: int | None = None
    quiet: float = 0.0
    strength: float = 1000.0
    fisher: str = "exact"
    fisher_examples: int = 1000
    keep: float | Literal["auto"] = 0.5
    distil: float = 1.0
    temperature: float = 2.0
    old_rate: float = 0.1
    smooth: float | Literal["auto"] = 0.999
    rank: int = 8
    ridge: float = 1000.0
    sparse_slots: int = 64
    rehearse: int = 100
    rehearsal_share: float = 0.25


Settings = ModelSettings | TrainingSettings | MethodSettings

# Fine-tuning of a pretrained encoder.
FINE_TUNING = TrainingSettings(
    rate=5e-5, new_rate=1e-3, warm_up=50, schedule="linear", epochs=5, max_words=256, clip=1.0
)


def changed(settings: Settings) -> dict[str, Any]:
    """The settings that are not at their defaults."""
    default = type(settings)()
    values = {one.name: getattr(settings, one.name) for one in fields(settings)}
    return {name: value for name, value in values.items() if value != getattr(default, name)}


def for_memgrow(settings: Settings) -> Any:
    """The same settings for the memgrow that is installed; one that it no longer has is refused."""
    kind = getattr(memgrow, type(settings).__name__)
    known = {one.name for one in fields(kind)}
    values = {RENAMED.get(one.name, one.name): getattr(settings, one.name) for one in fields(settings)}
    lost = [name for name in changed(settings) if RENAMED.get(name, name) not in known]
    if lost:
        raise SettingsError(f"memgrow no longer has the setting {lost[0]}: such runs can be read, but not made")
    return kind(**{name: value for name, value in values.items() if name in known})
