"""Replies with words: how they are scored (BLEU-2, W2V-Sim, distinct-n, perplexity), and what records keep."""

import base64
import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrow import Example, Learner, Stream
from memgrow.errors import DataError
from research.common.corpora import file_fingerprint

LOSS, SIMILARITY = 100, 1000  # steps to a nat, and to a cosine of 1, that a record keeps
CHECKSUM = 16  # hexadecimal digits of a message's

Texts = Sequence[Sequence[str]]
"""The words of each text."""

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BleuCounts:
    """The counts of each example, from which BLEU-2 of any set of examples follows.

    BLEU-2 = 100 x min(1, exp(1 - r / c)) x sqrt(p1 x p2), with c words in the outputs, r in the references, and the
    precisions p1 of words and p2 of pairs of words; nothing is smoothed.
    """

    matches: Counts  # (examples, 2): words, and pairs of words, that the reference has too
    totals: Counts  # (examples, 2): words, and pairs of words
    references: Counts  # (examples,): words of the reference

    def score(self) -> float:
        """BLEU-2 of all examples together, from 0 to 100."""
        return float(self.scores(np.ones((1, len(self.references))))[0])

    def scores(self, weights: ArrayLike) -> Floats:  # (sets,)
        """BLEU-2 of each set of a bootstrap; weights (sets, examples) say how often an example is in a set."""
        times = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        matches, totals, words = times @ self.matches, times @ self.totals, times @ self.references
        output = totals[:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            precisions = np.where(matches > 0, matches / totals, 0.0)  # (sets, 2)
            penalty = np.where(output > 0, np.exp(np.minimum(0.0, 1 - words / output)), 0.0)
        found: Floats = 100 * penalty * np.sqrt(precisions.prod(axis=1))
        return found


def bleu2_counts(outputs: Texts, references: Texts) -> BleuCounts:
    pairs = list(zip(outputs, references, strict=True))
    return BleuCounts(
        matches=np.array([[_matches(output, reference, n) for n in (1, 2)] for output, reference in pairs]),
        totals=np.array([[max(0, len(output) - n + 1) for n in (1, 2)] for output in outputs]),
        references=np.array([len(reference) for reference in references]),
    )


def _matches(output: Sequence[str], reference: Sequence[str], order: int) -> int:
    return (Counter(_ngrams(output, order)) & Counter(_ngrams(reference, order))).total()


def _ngrams(words: Sequence[str], order: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(order)), strict=False)


def distinct(outputs: Texts, order: int) -> float:
    """Distinct-n: the share of different n-grams among all n-grams of the outputs; 0 if there are none."""
    found = [ngram for words in outputs for ngram in _ngrams(words, order)]
    return len(set(found)) / len(found) if found else 0.0


def perplexity(losses: ArrayLike, tokens: ArrayLike) -> float:
    """From negative log-likelihoods in nats and numbers of tokens; infinite beyond what a float holds."""
    loss, count = float(np.sum(losses, dtype=np.float64)), float(np.sum(tokens, dtype=np.float64))
    with np.errstate(over="ignore"):
        return float(np.exp(loss / count))


def w2v_similarity(outputs: Texts, references: Texts, rows: Mapping[str, NDArray[np.float32]]) -> Floats:
    """The cosine of the averaged word vectors of each output and its reference; 0 where no word has a vector."""
    pairs = zip(outputs, references, strict=True)
    return np.array([_cosine(_average(output, rows), _average(reference, rows)) for output, reference in pairs])


def _average(words: Sequence[str], rows: Mapping[str, NDArray[np.float32]]) -> Floats | None:
    known = [rows[word] for word in words if word in rows]
    return np.mean(known, axis=0, dtype=np.float64) if known else None


def _cosine(a: Floats | None, b: Floats | None) -> float:
    if a is None or b is None:
        return 0.0
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / lengths if lengths > 0 else 0.0


@dataclass(frozen=True)
class Sample:
    """A generated reply. The message stays with the corpus: it is known by its number and a checksum."""

    index: int
    message: str
    reply: str


@dataclass(frozen=True, eq=False)
class ReplyScores:
    """The scores of answers to messages against the replies of the data."""

    counts: BleuCounts
    distinct: tuple[float, float]  # shares of different words, and pairs of words
    similarity: Floats | None = None  # (examples,): W2V-Sim, where there were vectors
    samples: tuple[Sample, ...] = ()

    def to_json(self, steps: int = SIMILARITY) -> dict[str, Any]:
        counts = self.counts
        return {
            "matches": [pack(counts.matches[:, order]) for order in (0, 1)],
            "words": pack(counts.totals[:, 0]),
            "references": pack(counts.references),
            "distinct": list(self.distinct),
            "similarity": None if self.similarity is None else pack(self.similarity, steps),
            "samples": [asdict(sample) for sample in self.samples],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], steps: int = SIMILARITY) -> "ReplyScores":
        words, similar = unpack(value["words"]), value["similarity"]
        counts = BleuCounts(
            matches=np.stack([unpack(packed) for packed in value["matches"]], axis=1),
            totals=np.stack([words, np.maximum(0, words - 1)], axis=1),
            references=unpack(value["references"]),
        )
        one, two = value["distinct"]
        cosines = None if similar is None else unpack(similar) / steps
        return cls(counts, (one, two), cosines, tuple(Sample(**sample) for sample in value["samples"]))


@dataclass(frozen=True, eq=False)
class ReplyRecord:
    """One part of a domain: -log p of the given replies, and the scores of the generated ones, if there are any.

    Recorded runs have the loss of each example; new ones have the sum, as one number.
    """

    loss: Floats | None = None  # in nats
    tokens: Counts | None = None  # words and ends of the given replies
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
    planes = whole.view(np.uint8).reshape(-1, 4).T  # bytes of one rank together: most of the upper ones are equal
    return base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()


def unpack(packed: str) -> Counts:
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed)), dtype=np.uint8).reshape(4, -1)
    return np.ascontiguousarray(planes.T).view("<i4").ravel().astype(np.int64)


@dataclass(frozen=True)
class ReplyEvaluation:
    """How replies are generated and scored. Samples answer test messages at even distances, from the first on."""

    beam: int = 1  # 1: greedy
    longest: int = 40  # words of a reply
    samples: int = 10  # replies of each domain that are kept
    vectors: Path | None = None  # word vectors for W2V-Sim

    def fingerprints(self) -> dict[str, str]:
        """What a record must agree with; one that has W2V-Sim serves where that is not asked for."""
        made = {"how replies are made": f"beam {self.beam}, {self.longest} words, {self.samples} kept"}
        return made | ({"vectors of W2V-Sim": file_fingerprint(self.vectors)} if self.vectors else {})

    def evaluate(self, learner: Learner, stream: Stream) -> dict[str, dict[str, ReplyRecord]]:
        """By part and domain: losses on the validation examples, losses and answers on the test examples."""
        tested = {domain.name: domain.test for domain in stream if domain.test}
        answers = {
            name: [one.text for one in learner.reply(examples, beam=self.beam, max_words=self.longest)]
            for name, examples in tested.items()
        }
        said = self.score(tested, answers)
        return {
            "validation": {domain.name: ReplyRecord(*_losses(learner, domain, "validation")) for domain in stream},
            "test": {
                domain.name: ReplyRecord(*_losses(learner, domain, "test"), said.get(domain.name)) for domain in stream
            },
        }

    def score(
        self, examples: Mapping[str, Sequence[Example]], answers: Mapping[str, Sequence[str]]
    ) -> dict[str, ReplyScores]:
        """Answers by domain, as texts, against the examples' own replies."""
        said = {name: [_words(answer) for answer in some] for name, some in answers.items()}
        given = {name: [_words(example.reply or "") for example in some] for name, some in examples.items()}
        similar = self._similarity(said, given)
        return {
            name: ReplyScores(
                bleu2_counts(words, given[name]),
                (distinct(words, 1), distinct(words, 2)),
                similar.get(name),
                tuple(
                    Sample(index, _checksum(examples[name][index].text), answers[name][index])
                    for index in _at_even_distances(len(words), self.samples)
                ),
            )
            for name, words in said.items()
        }

    def _similarity(self, said: Mapping[str, Texts], given: Mapping[str, Texts]) -> dict[str, Floats]:
        if self.vectors is None or not said:
            return {}
        from memgrow.data.vectors import read_vectors

        words = {word: None for texts in (*said.values(), *given.values()) for text in texts for word in text}
        rows = read_vectors(self.vectors, list(words)).rows
        return {name: w2v_similarity(some, given[name], rows) for name, some in said.items()}


def _words(text: str) -> list[str]:
    from memgrow.data.text import tokenize

    return list(tokenize(text))


def _losses(learner: Learner, domain: Any, part: str) -> tuple[Floats, Counts]:
    """The sum of -log p of the given replies, and of how many tokens: words and ends."""
    examples = getattr(domain, part)
    if not examples:
        raise DataError(f"{domain.name} has no {part} examples")
    tokens = sum(len(_words(example.reply or "")) + 1 for example in examples)
    score = learner.evaluate(domain, part)[domain.name]  # 1 / perplexity
    return np.array([-log(score) * tokens if score > 0 else float("inf")]), np.array([tokens])


def _at_even_distances(examples: int, samples: int) -> list[int]:
    step = max(1, examples // max(1, samples))
    return list(range(0, examples, step))[:samples]


def _checksum(message: str) -> str:
    return hashlib.sha256(message.encode(errors="surrogateescape")).hexdigest()[:CHECKSUM]
