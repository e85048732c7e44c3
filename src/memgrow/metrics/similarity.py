"""W2V-Sim: how near an output's words are to its reference's, as the cosine of their averaged word vectors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memgrow.metrics.words import Texts, check_texts
from memgrow.text.vectors import Vectors

Row = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Similarity:
    """The mean over examples, from -1 to 1, each example's own, and how much of the text had a vector."""

    mean: float
    each: NDArray[np.float64]  # (examples,)
    output_coverage: float  # share of the outputs' words, from 0 to 1
    reference_coverage: float

    def to_json(self) -> dict[str, Any]:
        return {
            "mean": self.mean,
            "output_coverage": self.output_coverage,
            "reference_coverage": self.reference_coverage,
        }


def words_to_look_up(*sides: Texts) -> list[str]:
    """The different words of all texts, to read their vectors with `text.read_vectors`."""
    return list(dict.fromkeys(word for texts in sides for text in texts for word in text))


def w2v_similarity(outputs: Texts, references: Texts, vectors: Vectors) -> Similarity:
    """Each output, given as words, against the reference of its example.

    Words without a vector are left out. An output or a reference without any word that has one, such as an empty
    output, is as similar as nothing: 0.
    """
    check_texts(outputs, references)
    each = np.array(
        [
            _cosine(_average(output, vectors.rows), _average(reference, vectors.rows))
            for output, reference in zip(outputs, references, strict=True)
        ]
    )
    return Similarity(
        mean=float(each.mean()),
        each=each,
        output_coverage=_coverage(outputs, vectors.rows),
        reference_coverage=_coverage(references, vectors.rows),
    )


def _average(words: Sequence[str], rows: Mapping[str, Row]) -> NDArray[np.float64] | None:
    known = [rows[word] for word in words if word in rows]
    return np.mean(known, axis=0, dtype=np.float64) if known else None


def _cosine(a: NDArray[np.float64] | None, b: NDArray[np.float64] | None) -> float:
    if a is None or b is None:
        return 0.0
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / lengths if lengths > 0 else 0.0


def _coverage(texts: Iterable[Sequence[str]], rows: Mapping[str, Row]) -> float:
    words = [word in rows for text in texts for word in text]
    return sum(words) / len(words) if words else 0.0
