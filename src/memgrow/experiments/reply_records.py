"""The evaluation of models that reply, and what a record keeps of it: losses of replies, scores, a few samples."""

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from memgrow.data import Domain, Example, Stream
from memgrow.data.batches import by_length, collate
from memgrow.data.domain import file_fingerprint
from memgrow.errors import DataError
from memgrow.learner import Learner
from memgrow.metrics import perplexity_of
from memgrow.metrics.replies import BleuCounts, bleu2_counts, distinct, w2v_similarity, words_to_look_up
from memgrow.models.decoding import LONGEST
from memgrow.models.model import LARGE
from memgrow.storage import finite
from memgrow.text import read_vectors, tokenise

LOSS, SIMILARITY = 100, 1000  # steps to a nat, and to a cosine of 1: nobody reads further digits
CHECKSUM = 16  # hexadecimal digits of a message's

Words = list[list[str]]


@dataclass(frozen=True)
class Sample:
    """A reply that was generated. The message stays with the corpus: it is known by its number and a checksum."""

    index: int
    message: str
    reply: str


@dataclass(frozen=True, eq=False)
class ReplyScores:
    """The scores of answers to messages against the replies that the data gives."""

    counts: BleuCounts
    distinct: tuple[float, float]  # shares of different words, and pairs of words, among all
    similarity: NDArray[np.float64] | None = None  # (examples,): W2V-Sim, where there were vectors
    samples: tuple[Sample, ...] = ()

    def to_json(self) -> dict[str, Any]:
        counts = self.counts
        return {
            "matches": [pack(counts.matches[:, order]) for order in (0, 1)],
            "words": pack(counts.totals[:, 0]),
            "references": pack(counts.references),
            "distinct": list(self.distinct),
            "similarity": None if self.similarity is None else pack(self.similarity, SIMILARITY),
            "samples": [asdict(sample) for sample in self.samples],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ReplyScores":
        words, similar = unpack(value["words"]), value["similarity"]
        counts = BleuCounts(
            matches=np.stack([unpack(packed) for packed in value["matches"]], axis=1),
            totals=np.stack([words, np.maximum(0, words - 1)], axis=1),
            references=unpack(value["references"]),
        )
        one, two = value["distinct"]
        cosines = None if similar is None else unpack(similar) / SIMILARITY
        return cls(counts, (one, two), cosines, tuple(Sample(**sample) for sample in value["samples"]))


@dataclass(frozen=True, eq=False)
class ReplyRecord:
    """One part of a domain: -log p of the replies given, and what was answered, each where it was asked for."""

    loss: NDArray[np.float64] | None = None  # (examples,), in nats
    tokens: NDArray[np.int64] | None = None  # (examples,): words and ends that the loss is of
    scores: ReplyScores | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "loss": None if self.loss is None else pack(self.loss, LOSS),
            "tokens": None if self.tokens is None else pack(self.tokens),
            "said": None if self.scores is None else self.scores.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ReplyRecord":
        loss, tokens, said = value["loss"], value["tokens"], value["said"]
        return cls(
            None if loss is None else unpack(loss) / LOSS,
            None if tokens is None else unpack(tokens),
            None if said is None else ReplyScores.from_json(said),
        )


def pack(values: ArrayLike, steps: int = 1) -> str:
    """Numbers rounded to `steps` steps to one, as text."""
    whole = np.rint(np.asarray(values, dtype=np.float64) * steps).astype("<i4")
    planes = whole.view(np.uint8).reshape(-1, 4).T  # the bytes of one rank together: most of the upper ones are equal
    return base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()


def unpack(packed: str) -> NDArray[np.int64]:
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed)), dtype=np.uint8).reshape(4, -1)
    return np.ascontiguousarray(planes.T).view("<i4").ravel().astype(np.int64)


@dataclass(frozen=True)
class ReplyEvaluation:
    """The making and scoring of replies. The kept ones answer test messages at even distances, from the first on."""

    beam: int = 1  # 1: greedily
    longest: int = LONGEST  # words of a reply
    samples: int = 10  # replies of each domain that are kept
    vectors: Path | None = None  # word vectors for W2V-Sim

    def fingerprints(self) -> dict[str, str]:
        """Fingerprints that a record must agree with; one that has W2V-Sim serves where that is not asked for."""
        made = {"how replies are made": f"beam {self.beam}, {self.longest} words, {self.samples} kept"}
        return made | ({"vectors of W2V-Sim": file_fingerprint(self.vectors)} if self.vectors else {})

    def evaluate(self, learner: Learner, stream: Stream) -> dict[str, dict[str, ReplyRecord]]:
        """For each part and domain: losses on the validation examples, losses and answers on the test examples."""
        answers = {domain.name: self.answers(learner, domain.test) for domain in stream if domain.test}
        said = self.score({domain.name: domain.test for domain in stream if domain.test}, answers)
        return {
            "validation": {domain.name: ReplyRecord(*losses(learner, domain.validation)) for domain in stream},
            "test": {
                domain.name: ReplyRecord(*losses(learner, domain.test), said.get(domain.name)) for domain in stream
            },
        }

    def score(
        self, examples: Mapping[str, Sequence[Example]], answers: Mapping[str, Sequence[str]]
    ) -> dict[str, ReplyScores]:
        """Answers by domain, as texts, held against the examples' own replies."""
        said = {name: [tokenise(answer) for answer in some] for name, some in answers.items()}
        given = {name: [tokenise(example.reply or "") for example in some] for name, some in examples.items()}
        similar = self._similarity(said, given)
        return {
            name: ReplyScores(
                bleu2_counts(words, given[name]),
                (distinct(words, 1), distinct(words, 2)),
                similar.get(name),
                tuple(
                    Sample(index, checksum(examples[name][index].text), answers[name][index])
                    for index in chosen(len(words), self.samples)
                ),
            )
            for name, words in said.items()
        }

    def answers(self, learner: Learner, examples: Sequence[Example]) -> list[str]:
        """The learner's replies to the examples' messages."""
        found = learner.reply(examples, beam=self.beam, max_words=self.longest)
        return [answer.text for answer in found]

    def _similarity(self, said: Mapping[str, Words], given: Mapping[str, Words]) -> dict[str, NDArray[np.float64]]:
        if self.vectors is None or not said:
            return {}
        vectors = read_vectors(self.vectors, words_to_look_up(*said.values(), *given.values()))  # once: it takes long
        return {name: w2v_similarity(words, given[name], vectors).each for name, words in said.items()}


@dataclass(frozen=True)
class ReplyFigures:
    """The quality of the replies to one part of a domain, as `memgrow evaluate` shows it."""

    examples: int
    perplexity: float
    bleu2: float
    distinct1: float
    distinct2: float
    length: float  # words of a reply
    w2v_similarity: float | None = None

    def known(self) -> dict[str, float]:
        """By name, without what was not measured."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """Null stands for an infinite perplexity."""
        plain: dict[str, Any] = finite(self.known())
        return plain


def evaluate_replies(
    learner: Learner, domain: Domain, *, split: str = "test", beam: int = 1, vectors: Path | None = None
) -> ReplyFigures:
    """Answer one part of a domain and hold the answers against the replies given."""
    examples = getattr(domain, split)
    if not examples:
        raise DataError(f"{domain.name} has no {split} examples to evaluate on")
    evaluation = ReplyEvaluation(beam, samples=0, vectors=vectors)
    answers = evaluation.answers(learner, examples)
    scores = evaluation.score({domain.name: examples}, {domain.name: answers})[domain.name]
    return ReplyFigures(
        examples=len(examples),
        perplexity=perplexity_of(learner.evaluate(domain, split)[domain.name]),
        bleu2=scores.counts.score(),
        distinct1=scores.distinct[0],
        distinct2=scores.distinct[1],
        length=float(scores.counts.totals[:, 0].mean()),
        w2v_similarity=None if scores.similarity is None else float(scores.similarity.mean()),
    )


def chosen(examples: int, samples: int) -> list[int]:
    """The numbers of the examples that are kept, by a fixed rule."""
    step = max(1, examples // max(1, samples))
    return list(range(0, examples, step))[:samples]


def checksum(message: str) -> str:
    return hashlib.sha256(message.encode(errors="surrogateescape")).hexdigest()[:CHECKSUM]


@torch.no_grad()
def losses(learner: Learner, examples: Sequence[Example]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """-log p of each example's reply, and of how many tokens: its words and the end."""
    model, data = learner.responder().eval(), learner.encode(examples)
    loss, tokens = np.zeros(len(data)), np.zeros(len(data), dtype=np.int64)
    for indices in by_length(data, LARGE):
        batch = collate(data, indices, learner.device)
        (words, given), (lengths, ends) = batch.words.chunk(2), batch.lengths.chunk(2)
        found = model(words, lengths, given, ends)
        loss[indices] = found.tokens.double().sum(1).cpu().numpy()
        tokens[indices] = ends.numpy() + 1
    return loss, tokens
