"""What a learner is: how it learns (`LearnerConfig`) and what it has learned (`LearnerState`). Both are values."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from memgrow.data import Example
from memgrow.data.batches import Encoded, Tokenized, encode
from memgrow.data.vectors import RememberedVectors
from memgrow.data.vocabulary import Vocabulary
from memgrow.evaluation.calibration import Calibration
from memgrow.evaluation.drift import Reference
from memgrow.evaluation.history import History
from memgrow.methods import CombinedMethod, MethodSettings, MethodSpec
from memgrow.models import Model, ModelSettings
from memgrow.models.hub import EncoderFiles
from memgrow.models.tokenizer import max_tokens, tokenize_for
from memgrow.training.settings import TrainingSettings


@dataclass(frozen=True)
class LearnerConfig:
    """The method and the settings of a learner; learning does not change them."""

    method: MethodSpec
    model: ModelSettings
    training: TrainingSettings
    options: MethodSettings
    seed: int
    encoder: EncoderFiles | None = None  # files of a pretrained encoder
    vectors: RememberedVectors | None = None  # word vectors that new words start with

    def tokenize(self, examples: Sequence[Example]) -> Tokenized:
        """Examples as the tokens that the encoder reads."""
        return tokenize_for(self.model, examples, self.training.max_words, self.encoder)

    @property
    def max_tokens(self) -> int:
        """The number of tokens of a text that are read, at most."""
        return max_tokens(self.training.max_words, self.encoder)


@dataclass(frozen=True)
class LearnerState:
    """What a learner has learned so far. Adapting to a domain returns the next state."""

    task: str | None
    labels: tuple[str, ...] | None
    model: Model | None
    vocabulary: Vocabulary
    method_state: CombinedMethod
    history: History
    calibration: Calibration = field(default_factory=Calibration)
    reference: Reference = field(default_factory=Reference)  # statistics of each domain's texts, for drift

    def encode(self, config: LearnerConfig, examples: Sequence[Example]) -> Encoded:
        """Examples as token indices of this state's vocabulary, and label indices."""
        return encode(config.tokenize(examples), self.vocabulary, self.labels or ())
