"""How a learner learns, and what it has learnt so far: values that are passed on, saved and loaded."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from memgrow.calibration import Calibration
from memgrow.data import Example
from memgrow.data.batches import Tokenized
from memgrow.domain_parts import Parts
from memgrow.drift import Reference
from memgrow.history import History
from memgrow.methods import Method, MethodSettings, Plugins
from memgrow.models import Model, ModelSettings
from memgrow.models.pretrained.files import EncoderFiles
from memgrow.text import Vocabulary
from memgrow.text.remembered_vectors import RememberedVectors
from memgrow.training.settings import TrainingSettings


@dataclass(frozen=True)
class Setup:
    """The method and settings by which a learner learns; learning does not change them."""

    method: Method
    model: ModelSettings
    training: TrainingSettings
    options: MethodSettings
    seed: int
    encoder: EncoderFiles | None = None  # the files of a pretrained encoder
    vectors: RememberedVectors | None = None  # that new words begin with

    def tokenized(self, examples: Sequence[Example]) -> Tokenized:
        """Examples as tokens of the kind that the encoder reads."""
        return self.model.kind.tokenized(self.model, examples, self.training.max_words, self.encoder)

    @property
    def limit(self) -> int:
        """The number of tokens that are read of a text, at most."""
        return self.model.kind.limit(self.model, self.training.max_words, self.encoder)


@dataclass(frozen=True)
class Learnt:
    """The knowledge of a learner so far; an adaptation makes the next of it."""

    task: str | None
    labels: tuple[str, ...] | None
    model: Model | None
    vocabulary: Vocabulary
    plugins: Plugins
    history: History
    calibration: Calibration = field(default_factory=Calibration)
    parts: Parts = field(default_factory=dict)  # what each domain has of its own, where the encoder is frozen
    reference: Reference = field(default_factory=Reference)
