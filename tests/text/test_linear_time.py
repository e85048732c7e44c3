"""Texts and rows of any kind are read in a time that grows with their length and no faster, up to a megabyte."""

import time
from contextlib import suppress

import pytest

from memgrow.data.files import read_rows
from memgrow.errors import DataError
from memgrow.text import tokenise

SMALL, LONG, LARGE = 1 << 12, 1 << 15, 1 << 20
PIECES = ("a", "a ", "'", "n't", "a.", "U.S", "1,", "1.5:", "-", "a-b'", "...", "--", "``", "Mr.", "-LRB-", "'tis", "_")
ODD = ("e\u0301", "\u200d", "\u0f72", "\U0001f469\u200d", "\u202e", "\u00ad", "\x00", "\ufeff", "日本", "\u200b")


def seconds(work, *given) -> float:
    """Of the CPU: a busy machine is no slow reader."""
    began = time.process_time()
    work(*given)
    return time.process_time() - began


@pytest.mark.parametrize("piece", [*PIECES, *ODD], ids=ascii)
def test_tokenising_takes_no_longer_than_the_length_says(piece):
    short, long = ((piece * size)[:size] for size in (SMALL, LONG))
    once = min(seconds(tokenise, short) for _ in range(3))
    assert min(seconds(tokenise, long) for _ in range(2)) < 40 * once + 0.05  # 8 times as long: a square would be 64


def test_a_megabyte_of_one_word_is_cut_in_a_moment():
    for text in ("a" * LARGE, "a'" * (LARGE // 2), "\u0301" * LARGE):
        assert seconds(tokenise, text) < 5


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("quotes.csv", b'text,label\n"' + b'""' * (LARGE // 2) + b'",good\n'),
        ("commas.csv", b"text" + b"," * LARGE),
        ("tabs.tsv", b"text" + b"\t" * LARGE),
        ("spaces.jsonl", b'{"text":' + b" " * LARGE + b'"a"}\n'),
        ("numbers.jsonl", b'{"text": ' + b"9" * LARGE + b"}\n"),
        ("escapes.jsonl", b'{"text": "' + b"\\u00e9" * (LARGE // 6) + b'"}\n'),
        ("keys.jsonl", b"{" + b",".join(b'"%d":1' % number for number in range(LARGE // 10)) + b"}\n"),
        ("brackets.jsonl", b'{"text": ' + b"[" * LARGE),
    ],
)
def test_odd_rows_of_a_megabyte_are_read_or_refused_in_a_moment(tmp_path, name, content):
    (path := tmp_path / name).write_bytes(content)

    def read() -> None:
        with suppress(DataError):
            list(read_rows(path))

    assert seconds(read) < 2
