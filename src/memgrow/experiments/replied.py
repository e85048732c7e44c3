"""What is kept of a model's replies: numbers of each example, packed tightly, and a few of the replies themselves."""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrow.metrics.bleu import BleuCounts

LOSS, SIMILARITY = 100, 1000  # steps to a nat, and to a cosine of 1: nobody reads further digits


@dataclass(frozen=True)
class Sample:
    """A reply that was generated. The message stays with the corpus: it is known by its number and a checksum."""

    index: int
    message: str
    reply: str


@dataclass(frozen=True, eq=False)
class Said:
    """What was answered to messages, held against the replies that the data gives."""

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
    def from_json(cls, value: Mapping[str, Any]) -> "Said":
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
class Replied:
    """One part of a domain: -log p of the replies given, and what was answered, each where it was asked for."""

    loss: NDArray[np.float64] | None = None  # (examples,), in nats
    tokens: NDArray[np.int64] | None = None  # (examples,): words and ends that the loss is of
    said: Said | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "loss": None if self.loss is None else pack(self.loss, LOSS),
            "tokens": None if self.tokens is None else pack(self.tokens),
            "said": None if self.said is None else self.said.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Replied":
        loss, tokens, said = value["loss"], value["tokens"], value["said"]
        return cls(
            None if loss is None else unpack(loss) / LOSS,
            None if tokens is None else unpack(tokens),
            None if said is None else Said.from_json(said),
        )


def pack(values: ArrayLike, steps: int = 1) -> str:
    """Whole numbers, of so many steps to one, as text."""
    whole = np.rint(np.asarray(values, dtype=np.float64) * steps).astype("<i4")
    planes = whole.view(np.uint8).reshape(-1, 4).T  # the bytes of one rank together: most of the upper ones are equal
    return base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()


def unpack(packed: str) -> NDArray[np.int64]:
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed)), dtype=np.uint8).reshape(4, -1)
    return np.ascontiguousarray(planes.T).view("<i4").ravel().astype(np.int64)
