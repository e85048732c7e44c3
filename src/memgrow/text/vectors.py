"""Pretrained word vectors for the words of a vocabulary, streamed from files of any length."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memgrow.text.vector_files import (
    RawRow,
    Row,
    binary_rows,
    binary_vectors,
    detect,
    text_rows,
    text_vectors,
    unpacked,
)

_ROWS_PER_REPORT = 1000
_ROWS_AT_ONCE = 32  # parsed together: few enough to stay in the processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """The vectors that a file has for the words asked for; rows are read-only."""

    size: int  # numbers in a row
    rows: Mapping[str, Row]  # by the word as asked for
    count: int  # rows in the file


def read_vectors(path: str | Path, words: Iterable[str], progress: Callable[[int, int], None] | None = None) -> Vectors:
    """Read the vectors of these words, each looked up as written, then lower-cased, then capitalised.

    `path` is GloVe text, word2vec text or word2vec binary, plain, .gz or .zip. `progress` now and then receives
    the bytes read of the file on disk and its size.
    """
    path = Path(path)
    layout = detect(path)
    read_rows, parse = (binary_rows, binary_vectors) if layout.binary else (text_rows, text_vectors)
    wanted = _wanted(words)
    rows: dict[str, Row] = {}
    found: list[tuple[RawRow, list[str]]] = []  # rows that are not parsed yet, each with the words it is for
    ranks: dict[str, int] = {}  # how close the spelling found so far is to each word
    count = 0
    total = path.stat().st_size
    with unpacked(path) as file:
        try:
            for raw in read_rows(file.stream, layout, path):
                count += 1
                if progress is not None and count % _ROWS_PER_REPORT == 0:
                    progress(file.position(), total)
                served = wanted.get(raw.word, ())
                better = {word: rank for rank, word in served if word not in ranks or rank < ranks[word]}
                if better:
                    ranks |= better
                    found.append((raw, list(better)))
                if len(found) == _ROWS_AT_ONCE:
                    rows |= _parsed(found, parse, layout.size, path)
                    found = []
        finally:  # also where a row cannot be read: of two faults in a file the first one is told
            rows |= _parsed(found, parse, layout.size, path)
    if progress is not None:
        progress(total, total)
    return Vectors(layout.size, rows, count)


def _parsed(
    found: Sequence[tuple[RawRow, list[str]]],
    parse: Callable[[Sequence[RawRow], int, Path], list[Row]],
    size: int,
    path: Path,
) -> dict[str, Row]:
    vectors = parse([raw for raw, _ in found], size, path) if found else []
    return {word: row for row, (_, words) in zip(vectors, found, strict=True) for word in words}


def _wanted(words: Iterable[str]) -> dict[str, list[tuple[int, str]]]:
    """For each spelling that may stand in a file, the words it serves and how close it is to each (0 is closest)."""
    wanted: dict[str, list[tuple[int, str]]] = {}
    for word in dict.fromkeys(words):
        spellings = dict.fromkeys((word, word.lower(), word.capitalize()))
        for rank, spelling in enumerate(spellings):
            wanted.setdefault(spelling, []).append((rank, word))
    return wanted
