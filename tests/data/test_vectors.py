"""Word vectors in every format and packing; faults are errors with their place."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from memgrow.data.vectors import read_vectors
from memgrow.errors import DataError

TABLE = {"the": [0.1, -2.0, 3.5], "Paris": [1e-5, 0.0, 7.25], "dog": [4.0, 5.0, -0.75], "naïve": [0.5, 0.25, 0.125]}


def glove(table: dict[str, list[float]]) -> bytes:
    return "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in table.items()).encode()


def word2vec(table: dict[str, list[float]]) -> bytes:
    return f"{len(table)} 3\n".encode() + glove(table)


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize(("encode", "name"), [(glove, "v.txt"), (word2vec, "v.vec")])
def test_every_format_gives_the_same_rows(write, encode, name: str, packed: str) -> None:
    vectors = read_vectors(write(name + packed, encode(TABLE)), ["naïve", "the", "absent"])
    assert vectors.size == 3
    assert vectors.rows.keys() == {"naïve", "the"}
    for word, row in vectors.rows.items():
        assert row.dtype == np.float32
        assert row.tolist() == np.array(TABLE[word], np.float32).tolist()


@pytest.mark.parametrize("order", [["dog", "Dog", "DOG"], ["DOG", "Dog", "dog"], ["Dog", "DOG", "dog"]])
def test_a_word_is_looked_up_as_written_then_lower_cased_then_capitalised(write, order: list[str]) -> None:
    numbers = {"dog": 1.0, "Dog": 2.0, "DOG": 3.0}

    def found(held: list[str], word: str) -> float | None:
        path = write("v.txt", glove({form: [numbers[form], 0.5] for form in held}))
        row = read_vectors(path, [word]).rows.get(word)
        return None if row is None else float(row[0])

    assert [found(order, word) for word in ("dog", "Dog", "DOG", "dOG")] == [1, 2, 3, 1]
    without_lower = [form for form in order if form != "dog"]
    assert [found(without_lower, word) for word in ("dog", "dOG", "DOG")] == [2, 2, 3]
    assert found(["DOG"], "dog") is None


@pytest.mark.parametrize("first", [b"", b"4 2\n"])
def test_words_with_spaces_are_split_from_the_right(write, first: bytes) -> None:
    lines = b". . . 0.5 1\nat me@x.com 2 -3\nroute 66 4 5e-1\n5 1.0 2.0\n"
    vectors = read_vectors(write("v.txt", first + lines), [". . .", "at me@x.com", "route 66", "5"])
    assert {word: row.tolist() for word, row in vectors.rows.items()} == {
        ". . .": [0.5, 1],
        "at me@x.com": [2, -3],
        "route 66": [4, 0.5],
        "5": [1, 2],
    }


def test_tabs_trailing_spaces_windows_lines_and_blank_lines_are_tolerated(write) -> None:
    path = write("v.txt", b"the\t1.5\t2 \r\ndog 3  4.5\n\n\xc2\xa0 5 6\n\n")
    vectors = read_vectors(path, ["the", "dog", "\u00a0"])
    assert [vectors.rows[word].tolist() for word in ("the", "dog", "\u00a0")] == [[1.5, 2], [3, 4.5], [5, 6]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", b"", "not a vector file"),
        ("v.txt", b"Once upon a time\nthere was\n", "not a vector file"),
        ("v.txt", b"\x93NUMPY\x01\x00v\x00\x00\n", "not a vector file"),
        pytest.param("v.txt", b"x" * 3_000_000, "not a vector file", id="endless line"),
        ("v.txt", b"0 300\n", "line 1 promises 0"),
        ("v.txt", b"10 999999999999\nthe ", "line 1 promises 10"),
        ("v.txt", b"the 1.5 2.5 3.5\ndog 1.5 2.5\n", "line 2 does not have 3 numbers"),
        ("v.txt", b"the 1.5 2.5\ndog 1.5 2.5 3.5\n", "line 2 does not have 2 numbers"),
        ("v.txt", b"1 3\nthe 1.5 2.5\n", "line 2 does not have 3 numbers"),
        ("v.txt", b"the 1.5 2.5\ndog 1.5 nan\n", "line 2 .*finite numbers"),
        ("v.txt", b"the 1.5 2.5\nna\xefve 1.5 2.5\n", "line 2: the word is not UTF-8"),
        ("v.txt", b"3 2\nthe 1.5 2.5\n", "promises 3 rows but ends after 1"),
        ("v.bin", b"1 3\ndog ", "is binary: save it as text"),
        ("v.txt.gz", b"plain text", "v.txt.gz cannot be read .*Not a gzipped file"),
        ("v.txt.gz", gzip.compress(glove(TABLE), mtime=0)[:-12], "v.txt.gz cannot be read .*end-of-stream"),
    ],
)
def test_a_broken_file_is_refused_with_a_sentence(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_vectors(path, ["dog"])
    assert str(path) in str(caught.value)


def test_an_archive_that_unpacks_to_too_much_is_refused(write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memgrow.data.disk.MAX_UNPACKED", 1 << 20)
    with pytest.raises(DataError, match="unpacks to more"):
        read_vectors(write("bomb.txt.gz", b"a 0.5 0.5\n" * 1_000_000), ["zebra"])
