"""What a model that has learnt something can be asked: labels, replies, figures on examples, what it reads."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import cast

import torch

from memgrow.data import Domain, Example
from memgrow.data.asked import example_from_value
from memgrow.data.batches import Encoded, UnknownWords, collate, encode, unknown_in
from memgrow.data.from_python import is_frame
from memgrow.data.values import kind_of
from memgrow.device import suited_threads, using_threads
from memgrow.domain_parts import Parts, encoder_of, find_part
from memgrow.drift import ALPHA, WINDOW, DriftMonitor, Reference
from memgrow.errors import DataError, ModelError
from memgrow.history import History
from memgrow.learnt import Setup
from memgrow.metrics.calibration import Reliability, reliability
from memgrow.metrics.confusion import Confusion, confusion_of
from memgrow.models import Classifier, Model, ModelSettings, Responder
from memgrow.models.decoding import LONGEST, decode_all
from memgrow.models.model import LARGE
from memgrow.models.pretrained.files import EncoderFiles
from memgrow.seeding import derive
from memgrow.stage_data import check_examples, labels_in
from memgrow.text import Vocabulary
from memgrow.told_domain import AnswersBy, OwnOrTold

Text = str | tuple[str, str] | Mapping[str, object] | Example
PAIR = ("text", "pair")


@dataclass(frozen=True)
class Prediction:
    """The most probable label, and the probability of each."""

    label: str
    probabilities: dict[str, float]

    @property
    def confidence(self) -> float:
        """The probability of the label."""
        return self.probabilities[self.label]


@dataclass(frozen=True)
class Answer:
    """A reply in words."""

    text: str
    ended: bool  # False: it was cut
    score: float  # its log-probability, as the search counts it
    words: tuple[int, ...]  # their numbers


class Answering(OwnOrTold, ABC):
    """The side of a learner that answers. What it knows is set by whoever learns or loads."""

    task: str | None
    settings: ModelSettings
    encoder: EncoderFiles | None
    device: torch.device
    vocabulary: Vocabulary
    history: History
    parts: Parts
    reference: Reference

    @property
    @abstractmethod
    def setup(self) -> Setup:
        """The method and the settings by which it learns."""

    def evaluate(
        self, domains: Domain | Iterable[Domain], split: str = "test", for_domain: str | None = None
    ) -> dict[str, float]:
        """Accuracy on one part (train, validation or test) of each domain; of replies, 1 / perplexity.

        A label that the model does not have is refused. With `for_domain` it answers as in `answering_for`.
        """
        self.trained()
        given = [domains] if isinstance(domains, Domain) else list(domains)
        for one in given:
            if not isinstance(one, Domain):
                raise DataError(f"evaluate takes domains, and one is {kind_of(one)}; Domain.from_rows makes a domain")
        with self.answering_for(for_domain), self.suited():
            return {domain.name: self.trained().score(self.part(domain, split)) for domain in given}

    def correct(self, domain: Domain, split: str = "test") -> list[bool]:
        """For each example of one part of a domain, whether it is answered rightly.

        With a label that the model does not have, it is not.
        """
        with self.suited():
            answers: list[bool] = self.classifier().correct(self.part(domain, split, strange=True)).tolist()
        return answers

    def reliability(self, domain: Domain, split: str = "test", temperature: float | None = None) -> Reliability:
        """How far probabilities on one part of a domain can be believed; at the calibrated temperature or another."""
        at = self.calibration.temperature if temperature is None else temperature
        return reliability(*self.logits(domain, split), at)

    def confusion(self, domain: Domain, split: str = "test") -> Confusion:
        """Which labels are given to the examples of one part of a domain that have each: F1 and more is told by it."""
        return confusion_of(self.labels or (), *self.logits(domain, split))

    def logits(self, domain: Domain, split: str = "test") -> tuple[torch.Tensor, torch.Tensor]:
        """Of one part of a domain the logits, (examples, labels), and the numbers of the right labels, (examples)."""
        data = self.part(domain, split)
        with self.suited():
            return self.classifier().logits(data), torch.tensor(data.labels)

    def predict(self, texts: Sequence[Text], for_domain: str | None = None) -> list[Prediction]:
        """Labels and probabilities of texts (of pairs for a pair model), without being told their domain.

        The temperature of `calibration` makes the probabilities more or less sure, and never changes a label.
        With `for_domain` the domain is told, and it answers as in `answering_for`.
        """
        self.classifier()
        _refuse_one(texts, "predict")
        data = self.encode([_as_example(text, number) for number, text in enumerate(texts, 1)], labelled=False)
        with self.answering_for(for_domain), self.suited():
            by = self._by  # once: another thread may let it learn meanwhile
            labels, logits = by.labels or (), cast(Classifier, by.model).logits(data)
            rows = (logits / by.calibration.temperature).softmax(-1).tolist()
        return [
            Prediction(labels[best], dict(zip(labels, row, strict=True)))
            for best, row in zip(logits.argmax(-1).tolist(), rows, strict=True)
        ]

    def reply(
        self,
        messages: Sequence[str | Example],
        *,
        beam: int = 1,
        temperature: float | None = None,
        max_words: int = LONGEST,
        seed: int = 0,
    ) -> list[Answer]:
        """A reply to each message: the best that a beam search finds, or, with a temperature, one that is drawn."""
        model = self.responder()
        _refuse_one(messages, "reply")
        asked = [_as_example(message, number) for number, message in enumerate(messages, 1)]
        data = self.encode([Example(example.text, where=example.where) for example in asked], labelled=False)
        generator = torch.Generator().manual_seed(derive(seed, "replies"))  # of the CPU: see `sample`
        options = {"beam": beam, "temperature": temperature, "max_words": max_words}
        with self.suited():
            found = decode_all(model, data, **options, generator=generator)
        known = self.vocabulary.words
        texts = [" ".join(known[word] for word in reply.words) for reply in found]
        return [Answer(text, one.ended, one.score, one.words) for text, one in zip(texts, found, strict=True)]

    @torch.no_grad()
    def reading(self, text: Text) -> list[dict[str, torch.Tensor]]:
        """For each bank, the share of attention that each domain's slots get at each word: (texts, words)."""
        model = self.trained().eval()
        batch = collate(self.encode([_as_example(text)], labelled=False), [0], self.device)
        return model.encoder.reading(batch.words, batch.lengths)

    def tokens(self, text: Text) -> tuple[list[str], ...]:
        """The words, or pieces of words, that the model reads a text as; those of a pair may be one row."""
        (found,) = self.settings.kind.spelled(self.setup.tokenized([_as_example(text)]), self.encoder)
        return found

    def unknown_words(self, texts: Iterable[Text]) -> float:
        """The share of the words of these texts that the model does not know, which it reads as one unknown word.

        A pretrained encoder has pieces of words for any text, and knows all.
        """
        _refuse_one(texts, "unknown_words")
        return self.count_unknown([_as_example(text, number) for number, text in enumerate(texts, 1)]).share

    def count_unknown(self, examples: Sequence[Example]) -> UnknownWords:
        """The words of these examples, and how many of them the model does not know."""
        if self.settings.kind.is_pretrained:
            return UnknownWords()
        asked = [Example(one.text, one.pair) for one in examples]
        return unknown_in(encode(self.setup.tokenized(asked), self.vocabulary))

    @contextmanager
    def answering_for(self, domain: str | None) -> Iterator[None]:
        """Within, texts are known to be of that domain: it answers as it did when it had just learnt that domain.

        This needs an encoder and slots that no later domain has moved (frozen, frozen+M), or an imported domain.
        It holds for this thread or task alone, and what is saved within is the learner as it is.
        """
        if domain is None:
            yield
            return
        encoder_of(self.classifier())
        part, own = find_part(self.parts, domain, self.history.domains), self._own
        by = AnswersBy(part.labels, part.of_model(cast(Classifier, own.model)), own.calibration.of_domain(domain))
        with self.telling(by):
            yield

    def drift_monitor(self, window: int = WINDOW, alpha: float = ALPHA) -> DriftMonitor:
        """A running window of so many texts that tells when they are no longer like those that were learnt.

        At most a share `alpha` of all windows of known domains raises a false alarm. It keeps no text.
        """
        kind = self.settings.kind
        vocabulary = None if kind.is_pretrained else self.vocabulary
        tokenizer = kind.tokenizer(self.settings)
        return DriftMonitor(self.reference, vocabulary, self.history.domains, tokenizer, window, alpha)

    def part(self, domain: Domain, split: str, strange: bool = False) -> Encoded:
        """One part of a domain (train, validation or test) as the model reads it."""
        examples = getattr(domain, split)
        if not examples:
            raise DataError(f"{domain.name} has no {split} examples to evaluate on")
        return self.encode(examples, strange=strange)

    def suited(self) -> AbstractContextManager[None]:
        """Within, the model computes with the threads that suit its size."""
        return using_threads(suited_threads(self.device, self.trained().multiplications(LARGE)))

    def classifier(self) -> Classifier:
        """The model, if it answers with labels."""
        model = self.trained()
        if not isinstance(model, Classifier):
            raise ModelError("this model answers with words, not with labels: ask it for a reply")
        return model

    def responder(self) -> Responder:
        """The model, if it answers with words."""
        model = self.trained()
        if not isinstance(model, Responder):
            raise ModelError("this model answers with labels, not with words: it has learnt no replies")
        return model

    def trained(self) -> Model:
        """The model, once there is one."""
        if self.model is None:
            raise ModelError("this learner has learnt nothing yet: give it a domain with `adapt` first")
        return self.model

    def encode(self, examples: Sequence[Example], labelled: bool = True, strange: bool = False) -> Encoded:
        """Examples as this learner's model reads them, checked; `strange`: labels that it does not have are allowed."""
        labels = self.labels if labelled else None
        check_examples(examples, self.task or "", labels and ((*labels, *labels_in(examples)) if strange else labels))
        return encode(self.setup.tokenized(examples), self.vocabulary, labels or ())


def _as_example(text: Text, number: int = 1) -> Example:
    """A text, the two of a pair, or a row with the usual fields."""
    if isinstance(text, Example):
        return text
    if isinstance(text, tuple | list) and 0 < len(text) <= len(PAIR):
        return Example(**dict(zip(PAIR, text, strict=False)), where=f"text {number}")
    if isinstance(text, Mapping):
        return example_from_value(text, None, f"text {number}")
    return Example(text, where=f"text {number}")


def _refuse_one(texts: object, asked: str) -> None:
    """Refuse a text where several are asked for: it would be taken for one text a letter."""
    if isinstance(texts, str | Example | Mapping):
        raise DataError(f"{asked} takes a list of texts and was given one text: write {asked}([text])")
    if is_frame(texts):
        raise DataError(f"{asked} takes a list of texts and was given a frame: write {asked}(frame[column])")
    if not isinstance(texts, Iterable):
        raise DataError(f"{asked} takes a list of texts, and this is {kind_of(texts)}: write {asked}([text])")
