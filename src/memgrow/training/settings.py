"""The settings of training on a domain."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Literal, cast

import torch
from torch import Tensor

from memgrow.data import Domain, Example
from memgrow.data.batches import Encoded, Tokenized, encode
from memgrow.data.text import Vocabulary
from memgrow.data.vectors import RememberedVectors
from memgrow.errors import counted
from memgrow.evaluation.calibration import Calibration
from memgrow.evaluation.drift import Reference
from memgrow.evaluation.history import History
from memgrow.methods import (
    RECOMMENDED,
    RECOMMENDED_FOR_CAUSAL,
    RECOMMENDED_FOR_ENCODERS,
    RECOMMENDED_FOR_REPLIES,
    CombinedMethod,
    MethodSettings,
    MethodSpec,
)
from memgrow.methods.base import check_options, option
from memgrow.models import CausalModel, CausalSettings, Classifier, Model, ModelSettings, PretrainedSettings
from memgrow.models.domain_memory import DomainMemory
from memgrow.models.hub import DEFAULT_ENCODER, EncoderFiles, is_causal, public_name
from memgrow.models.tokenizer import max_tokens, tokenize_for
from memgrow.nn import LAYERS

AUTO: Literal["auto"] = "auto"
LARGEST_COUNT = 2**31 - 1
AUTO_EPOCHS = 5  # epochs="auto"; a first domain, or one without known labels, gets more if it has few rows:
FIRST_EPOCHS, FIRST_STEPS, AUTO_STEPS = 10, 500, 150  # 10 epochs, but at most 500 steps, and at least 150 steps
MANY_EPOCHS = 40  # that a run with few of them is advised to try
AUTO_PATIENCE, VALIDATED = 2, 500  # patience="auto": epochs with 500 validation predictions in all, at least 2


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of training on a domain. The defaults, and Adam as the optimizer, are the paper's."""

    rate: float = option(3e-4, above=0)  # learning rate
    batch: int = option(32, least=1, most=LARGEST_COUNT)
    epochs: int | Literal["auto"] = option(20, least=1, most=LARGEST_COUNT, words=(AUTO,))  # at most
    patience: int | Literal["auto"] = option(2, least=1, most=LARGEST_COUNT, words=(AUTO,))
    # epochs without a better validation score before training stops
    clip: float = option(5.0, above=0, most=inf)  # largest norm of the gradient
    min_count: int = option(1, least=1, most=LARGEST_COUNT)  # words that occur less often in a domain are not stored
    min_documents: int = option(1, least=1, most=LARGEST_COUNT)  # as words that fewer of its documents have
    max_words: int = option(400, least=1, most=LARGEST_COUNT)  # longer texts are cut off
    new_rate: float | None = option(None, above=0)  # learning rate of parameters without pretraining; None: the same
    warm_up: int = option(0, least=0)  # steps in which the learning rates rise, at most a third of all
    schedule: str = option("constant", words=("constant", "linear"))  # of the learning rates; linear: to zero
    select: str = option("best", words=("best", "last"))
    # the weights of the best epoch by validation, with early stopping, or of the last one
    drift: bool = True  # whether statistics of the texts are stored, to notice drift

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def max_epochs(self) -> int:
        return AUTO_EPOCHS if self.epochs == AUTO else self.epochs

    def epochs_for(self, batches: int, first: bool) -> int:
        """The number of epochs, at most; with "auto" it is larger for a `first` domain, whose labels are all new."""
        if not (first and self.epochs == AUTO and batches):
            return self.max_epochs
        return max(self.max_epochs, min(FIRST_EPOCHS, FIRST_STEPS // batches), -(-AUTO_STEPS // batches))

    def resolve(self, batches: int, validation: int, first: bool) -> "TrainingSettings":
        """The settings for a domain with so many batches and validation examples.

        Where "auto" adds epochs, the warm-up is at most a tenth of the steps, and patience at least that of "auto".
        """
        epochs = self.epochs_for(batches, first)
        if epochs == self.max_epochs:
            return replace(self, epochs=epochs)
        patience = max(self.patience_for(validation), replace(self, patience=AUTO).patience_for(validation))
        return replace(self, epochs=epochs, warm_up=min(self.warm_up, epochs * batches // 10), patience=patience)

    def patience_for(self, validation: int) -> int:
        """The patience with so many validation examples: "auto" waits longer where there are few."""
        return max(AUTO_PATIENCE, -(-VALIDATED // max(validation, 1))) if self.patience == AUTO else self.patience

    def warm_up_steps(self, batches: int) -> int:
        """The number of warm-up steps, at most a third of all steps."""
        return min(self.warm_up, self.max_epochs * batches // 3)

    def rate_factor(self, step: int, batches: int) -> float:
        """The factor of the learning rates in a step, counted from 0, where an epoch has so many batches."""
        rising = min(1.0, (step + 1) / (self.warm_up_steps(batches) + 1))
        if self.schedule == "constant":
            return rising
        return rising * (1 - step / (self.max_epochs * batches))


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

    @property
    def memory(self) -> DomainMemory | None:
        """The domain memory, if the model has one."""
        return self.model.memory if isinstance(self.model, Classifier | CausalModel) else None

    def calibrated_logits(self, data: Encoded, domain: str | None = None) -> Tensor:
        """Logits whose softmax is calibrated, each by the temperature of the domain whose weights answer."""
        model, calibration = cast(Classifier, self.model), self.calibration
        if domain is not None:
            return model.logits(data, domain) / calibration.of_domain(domain).temperature
        if model.memory is not None and model.memory.routes:
            return model.logits(data, temperatures={name: one.temperature for name, one in calibration.domains.items()})
        return model.logits(data) / calibration.temperature

    def encode(self, config: LearnerConfig, examples: Sequence[Example]) -> Encoded:
        """Examples as token indices of this state's vocabulary, and label indices."""
        return encode(config.tokenize(examples), self.vocabulary, self.labels or ())

    def score(self, config: LearnerConfig, domain: Domain) -> float:
        """The score on the test examples of a domain."""
        assert self.model is not None
        return self.model.score(self.encode(config, domain.test))


@dataclass(frozen=True)
class Defaults:
    method: str = RECOMMENDED
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    options: MethodSettings = field(default_factory=MethodSettings)


# A pretrained encoder: a low rate that falls to zero. A first domain with few rows trains longer (`defaults_for`).
FINE_TUNING = TrainingSettings(
    rate=5e-5, new_rate=1e-3, warm_up=50, schedule="linear", epochs=5, max_words=256, clip=1.0
)

# A causal language model learns a new way to reply from few rows, and soon learns these by heart.
CAUSAL_TUNING = replace(FINE_TUNING, new_rate=1e-3, warm_up=20, epochs=3, batch=16)

# A recurrent network: words found in a single document, such as names and numbers, are not stored. Patience depends on
# the number of validation examples.
RECURRENT = TrainingSettings(min_documents=2, patience="auto")
LOWERCASE = ModelSettings(lowercase=True)
# A thousand texts take a minute or two on two cores.
SMALL = Defaults(
    model=replace(LOWERCASE, embedding=50, hidden=64, slots=64, perceptron=64),
    training=replace(RECURRENT, rate=1e-3, epochs=15),
)
SMALL_REPLIES = Defaults(
    method=RECOMMENDED_FOR_REPLIES,
    model=replace(LOWERCASE, cell="gru", embedding=64, hidden=128, slots=64, bidirectional=False),
    training=replace(RECURRENT, rate=2e-3, epochs=15),
)
PAPER = Defaults(model=LOWERCASE, training=RECURRENT)
PAPER_REPLIES = replace(PAPER, method=RECOMMENDED_FOR_REPLIES)


def defaults_for(model: ModelSettings | str | Path | None, replies: bool = False) -> Defaults:
    """The defaults for a model's settings or for a pretrained encoder; with neither, for a recurrent network."""
    if isinstance(model, str | Path):
        model = (CausalSettings if is_causal(str(model)) else PretrainedSettings)(encoder=str(model))
    if isinstance(model, CausalSettings):
        options = MethodSettings(smooth="auto", keep="auto", fisher_examples=200)
        return Defaults(RECOMMENDED_FOR_CAUSAL, model, CAUSAL_TUNING, options)
    if isinstance(model, PretrainedSettings):
        options = MethodSettings(smooth="auto", keep="auto", fisher_examples=200, compress_rate=5e-5)
        return Defaults(RECOMMENDED_FOR_ENCODERS, model, replace(FINE_TUNING, epochs="auto", select="last"), options)
    return replace(PAPER_REPLIES if replies else PAPER, model=model or LOWERCASE)


def defaults_for_device(device: torch.device, replies: bool = False) -> Defaults:
    """The defaults of a recurrent network whose sizes are not given: they suit the device."""
    labelled, replying = (PAPER, PAPER_REPLIES) if device.type == "cuda" else (SMALL, SMALL_REPLIES)
    return replying if replies else labelled


def defaults_for_new(
    device: torch.device, encoder: str | Path | None, *, methods: Iterable[MethodSpec] = (), replies: bool = False
) -> Defaults:
    """The defaults of a new model on an encoder: lstm, gru or rnn, or a pretrained one.

    Without one it is the default encoder. Replies, and methods that a pretrained encoder cannot do, take the LSTM.
    """
    if encoder is None and not replies and all(set(method.grows) <= PretrainedSettings.grows for method in methods):
        encoder = DEFAULT_ENCODER
    if encoder is not None and encoder not in LAYERS:
        return defaults_for(encoder)
    usual = defaults_for_device(device, replies)
    return usual if encoder is None else replace(usual, model=replace(usual.model, cell=str(encoder)))


def sizes_line(model: ModelSettings, training: TrainingSettings, rows: int, closed_form: bool = False) -> str:
    """One line that tells what a new model is and how it trains on so many rows first."""
    if isinstance(model, PretrainedSettings):
        kind = "language model" if isinstance(model, CausalSettings) else "encoder"
        what = f"{kind} {public_name(model.encoder)}"
    else:
        name = f"bidirectional {model.cell.upper()}" if model.bidirectional else model.cell.upper()
        what = f"{name}, embedding {model.embedding}, hidden {model.hidden}, slots {model.slots}"
    if closed_form:
        return f"New model: {what}, solved in closed form"
    epochs = f"at most {counted(training.max_epochs, 'epoch')}"
    if training.epochs == AUTO:
        first = training.epochs_for(-(-rows // training.batch), first=True)
        epochs = f"{first} epochs for {counted(rows, 'row')}"
        if first > AUTO_EPOCHS:
            epochs += f", and {AUTO_EPOCHS} for a later domain that shares labels"
    return f"New model: {what}, rate {training.rate:g}, batch {training.batch}, {epochs}"


def advice_for(config: LearnerConfig, epochs: int) -> str:
    """What may help a model that is no better than the majority-class baseline after so many epochs."""
    if config.method.closed_form:
        return "give it more rows"
    if config.model.is_pretrained:
        return "give it more rows, or another method or rate; with few rows try a new model with --method ridge"
    vectors = "" if config.vectors else " word vectors (--vectors),"
    more = f" more epochs (--set epochs={MANY_EPOCHS})," if epochs < MANY_EPOCHS else ""
    return f"give it more rows,{vectors}{more} or a higher rate"
