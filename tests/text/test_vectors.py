"""Word vectors in every format and packing, faults told with their place, and numbers parsed to the bit."""

import gzip
import tracemalloc
import zipfile
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memgrow.errors import DataError
from memgrow.text import read_vectors
from memgrow.text.vector_files import parse_decimals

PLAIN = st.builds(
    lambda sign, digits, dot: sign + (digits if dot < 0 else f"{digits[:dot]}.{digits[dot:]}"),
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**15 - 1).map(str) | st.text("0123456789", min_size=1, max_size=15),
    st.integers(-1, 15),
)
TABLE = {"the": [0.1, -2.0, 3.5], "Paris": [1e-5, 0.0, 7.25], "dog": [4.0, 5.0, -0.75], "naïve": [0.5, 0.25, 0.125]}


def glove(table: dict[str, list[float]]) -> bytes:
    return "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in table.items()).encode()


def word2vec(table: dict[str, list[float]]) -> bytes:
    return f"{len(table)} 3\n".encode() + glove(table)


def binary(table: dict[str, list[float]], between: bytes = b"\n") -> bytes:
    rows = (word.encode() + b" " + np.array(row, "<f4").tobytes() + between for word, row in table.items())
    return f"{len(table)} 3\n".encode() + b"".join(rows)


def packed_binary(table: dict[str, list[float]]) -> bytes:
    return binary(table, between=b"")


def write_plain(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def write_gzip(path: Path, content: bytes) -> Path:
    return write_plain(path.with_name(path.name + ".gz"), gzip.compress(content, mtime=0))


def write_zip(path: Path, content: bytes) -> Path:
    target = path.with_name(path.name + ".zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/", b"")
        archive.writestr(f"folder/{path.name}", content)
        archive.writestr("readme.txt", b"not the vectors")
    return target


@pytest.mark.parametrize("write", [write_plain, write_gzip, write_zip])
@pytest.mark.parametrize(
    ("encode", "name"),
    [
        (glove, "v.txt"),
        (word2vec, "v.vec"),
        (binary, "v.bin"),
        (packed_binary, "v.bin"),
        (binary, "v.model"),
    ],
)
def test_every_format_gives_the_same_rows(
    tmp_path: Path,
    encode: Callable[[dict[str, list[float]]], bytes],
    name: str,
    write: Callable[[Path, bytes], Path],
) -> None:
    vectors = read_vectors(write(tmp_path / name, encode(TABLE)), ["naïve", "the", "absent"])
    assert (vectors.size, vectors.count) == (3, 4)
    assert vectors.rows.keys() == {"naïve", "the"}
    for word, row in vectors.rows.items():
        assert row.dtype == np.float32
        assert row.tolist() == np.array(TABLE[word], np.float32).tolist()


@pytest.mark.parametrize(("encode", "name"), [(glove, "v.txt"), (word2vec, "v.vec"), (binary, "v.bin")])
def test_of_many_words_each_gets_its_own_row(
    tmp_path: Path, encode: Callable[[dict[str, list[float]]], bytes], name: str
) -> None:
    table = {f"word{i}": [float(i), -0.5 * i, 0.25] for i in range(300)}
    asked = [f"word{i}" for i in range(299, -1, -2)]  # far more than are parsed at once
    vectors = read_vectors(write_plain(tmp_path / name, encode(table)), asked)
    assert {word: row.tolist() for word, row in vectors.rows.items()} == {word: table[word] for word in asked}


@pytest.mark.parametrize("order", [["dog", "Dog", "DOG"], ["DOG", "Dog", "dog"], ["Dog", "DOG", "dog"]])
def test_a_word_is_looked_up_as_written_then_lower_cased_then_capitalised(tmp_path: Path, order: list[str]) -> None:
    numbers = {"dog": 1.0, "Dog": 2.0, "DOG": 3.0}

    def found(held: list[str], word: str) -> float | None:
        path = write_plain(tmp_path / "v.txt", glove({form: [numbers[form], 0.5] for form in held}))
        row = read_vectors(path, [word]).rows.get(word)
        return None if row is None else float(row[0])

    assert [found(order, word) for word in ("dog", "Dog", "DOG", "dOG")] == [1, 2, 3, 1]
    without_lower = [form for form in order if form != "dog"]
    assert [found(without_lower, word) for word in ("dog", "dOG", "DOG")] == [2, 2, 3]
    assert found(["DOG"], "dog") is None


def test_the_first_of_two_rows_for_a_word_counts(tmp_path: Path) -> None:
    path = write_plain(tmp_path / "v.txt", b"dog 1.5 2.5\ndog 3.5 4.5\n")
    assert read_vectors(path, ["dog"]).rows["dog"].tolist() == [1.5, 2.5]


@pytest.mark.parametrize("first", [b"", b"4 2\n"])
def test_words_with_spaces_are_split_from_the_right(tmp_path: Path, first: bytes) -> None:
    lines = b". . . 0.5 1\nat me@x.com 2 -3\nroute 66 4 5e-1\n5 1.0 2.0\n"
    vectors = read_vectors(write_plain(tmp_path / "v.txt", first + lines), [". . .", "at me@x.com", "route 66", "5"])
    assert {word: row.tolist() for word, row in vectors.rows.items()} == {
        ". . .": [0.5, 1],
        "at me@x.com": [2, -3],
        "route 66": [4, 0.5],
        "5": [1, 2],
    }


def test_tabs_trailing_spaces_windows_lines_and_blank_lines_are_tolerated(tmp_path: Path) -> None:
    path = write_plain(tmp_path / "v.txt", b"the\t1.5\t2 \r\ndog 3  4.5\n\n\xc2\xa0 5 6\n\n")
    vectors = read_vectors(path, ["the", "dog", "\u00a0"])
    assert [vectors.rows[word].tolist() for word in ("the", "dog", "\u00a0")] == [[1.5, 2], [3, 4.5], [5, 6]]
    assert vectors.count == 3


def test_numbers_of_words_nobody_asked_for_are_not_parsed(tmp_path: Path) -> None:
    path = write_plain(tmp_path / "v.txt", b"the 1 2\nodd x y\n")
    assert read_vectors(path, ["the"]).count == 2
    with pytest.raises(DataError, match=r"v\.txt, line 2 holds something that is not a number"):
        read_vectors(path, ["odd"])


def test_a_binary_word_that_is_not_utf8_does_not_stop_the_reading(tmp_path: Path) -> None:
    broken = binary({"the": [1, 2, 3], "?": [4, 5, 6], "dog": [7, 8, 9]}).replace(b"?", b"\xff", 1)
    assert read_vectors(write_plain(tmp_path / "v.bin", broken), ["dog"]).rows["dog"].tolist() == [7, 8, 9]


def test_rows_cannot_be_changed_because_spellings_share_them(tmp_path: Path) -> None:
    rows = read_vectors(write_plain(tmp_path / "v.txt", glove(TABLE)), ["the", "The"]).rows
    assert rows["the"] is rows["The"]
    with pytest.raises(ValueError, match="read-only"):
        rows["the"][0] = 1


@pytest.mark.parametrize("encode", [glove, binary])
@pytest.mark.parametrize("write", [write_plain, write_gzip, write_zip])
def test_progress_rises_to_the_size_of_the_file_on_disk(
    tmp_path: Path,
    encode: Callable[[dict[str, list[float]]], bytes],
    write: Callable[[Path, bytes], Path],
) -> None:
    path = write(tmp_path / "v", encode({f"word{i}": [i, i / 7, 1 / (i + 1)] for i in range(3500)}))
    seen: list[tuple[int, int]] = []
    read_vectors(path, [], progress=lambda done, total: seen.append((done, total)))
    size = path.stat().st_size
    assert len(seen) == 4
    assert seen == sorted(seen)
    assert seen[0][0] > 0
    assert seen[-1] == (size, size)
    assert all(done <= total == size for done, total in seen)


@pytest.mark.parametrize("kind", ["text", "binary"])
def test_memory_stays_far_below_the_size_of_the_file(tmp_path: Path, kind: str) -> None:
    rows, size = 20_000, 200
    row = " 0.123456" * size + "\n" if kind == "text" else b" " + np.ones(size, "<f4").tobytes() + b"\n"
    with gzip.open(tmp_path / "v.bin.gz" if kind == "binary" else tmp_path / "v.txt.gz", "wb", 1) as file:
        file.write(f"{rows} {size}\n".encode())
        for i in range(rows):
            file.write(f"w{i}".encode() + (row.encode() if isinstance(row, str) else row))
        path, length = Path(file.name), file.tell()
    tracemalloc.start()
    try:
        vectors = read_vectors(path, ["w7", f"w{rows - 1}"])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (vectors.count, len(vectors.rows)) == (rows, 2)
    assert length > 15_000_000
    assert peak < 4_000_000


def test_rows_that_were_parsed_are_not_kept_as_text(tmp_path: Path) -> None:
    rows, size = 1500, 200
    text = "".join(f"w{i}" + " 0.123456" * size + "\n" for i in range(rows)).encode()
    path = write_plain(tmp_path / "v.txt", text)
    tracemalloc.start()
    try:
        vectors = read_vectors(path, [f"w{i}" for i in range(rows)])
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(vectors.rows) == rows
    assert peak - kept < len(text)


@pytest.mark.parametrize(
    ("last", "sound"),
    [
        (b"w65 0.5\n", "line 66 has a vector of length 1"),
        (b"w65\xff 0.5 1\n", "line 66: the word is not UTF-8"),
        (b"", "promises 66 rows but ends after 64"),
    ],
    ids=["wrong length", "not UTF-8", "cut off"],
)
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("bad", [None, 11, 35, 65])
def test_of_two_faults_in_a_file_the_first_is_told(
    tmp_path: Path, bad: int | None, every: int, last: bytes, sound: str
) -> None:
    lines = [f"w{line} {'x' if line == bad else 0.5} 1\n".encode() for line in range(2, 66)]
    path = write_plain(tmp_path / "v.txt", b"66 2\n" + b"".join(lines) + last)
    message = sound if bad is None else f"line {bad} holds something that is not a number"
    with pytest.raises(DataError, match=message):
        read_vectors(path, [f"w{line}" for line in range(2, 70, every)])


def test_a_fault_in_front_of_damage_to_an_archive_is_told_first(tmp_path: Path) -> None:
    lines = b"the 0.5 1\ndog x 1\n" + glove({f"w{i}": [i / 7, i / 11] for i in range(100_000)})
    path = write_plain(tmp_path / "v.txt.gz", gzip.compress(lines, mtime=0)[:-12])
    with pytest.raises(DataError, match="cannot be read"):
        read_vectors(path, ["the"])
    with pytest.raises(DataError, match="line 2 holds something that is not a number"):
        read_vectors(path, ["dog"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", b"", "v.txt is empty"),
        ("v.txt.gz", gzip.compress(b"", mtime=0), "v.txt.gz is empty"),
        ("v.txt", b"\n", "not a vector file"),
        ("v.txt", b"Once upon a time\nthere was\n", "not a vector file"),
        ("v.txt", b"\x93NUMPY\x01\x00v\x00\x00\n", "not a vector file"),
        ("v.bin", b"the 0.5 0.25\n", "not a vector file"),
        pytest.param("v.txt", b"x" * 3_000_000, "not a vector file", id="endless line"),
        ("v.txt", b"0 300\n", "line 1 promises 0 vectors of 300 numbers"),
        ("v.txt", b"10 0\n", "line 1 promises 10 vectors of 0 numbers"),
        ("v.bin", b"10 999999999999\nthe ", "line 1 promises 10 vectors"),
        ("v.txt", b"the 1.5 2.5 3.5\ndog 1.5 2.5\n", "line 2 has a vector of length 2, but .* length 3"),
        ("v.txt", b"the 1.5 2.5\ndog 1.5 2.5 3.5\n", "line 2 has a vector of length 3, but .* length 2"),
        ("v.txt", b"the 1.5 2.5\ndog -1 2 3\n", "line 2 has a vector of length 3, but .* length 2"),
        ("v.txt", b"1 3\nthe 1.5 2.5\n", "line 2 has a vector of length 2, but .* length 3"),
        ("v.txt", b"the 1.5 2.5\ndog  1.5\n", "line 2 has a vector of length 1, but .* length 2"),
        ("v.txt", b"the 1.5 2.5\ndog 1.5 nan\n", "line 2 holds a number that is not finite"),
        ("v.txt", b"the 1.5 2.5\nna\xefve 1.5 2.5\n", "line 2: the word is not UTF-8"),
        ("v.txt", b"3 2\nthe 1.5 2.5\n", "promises 3 rows but ends after 1"),
        ("v.txt", b"3 2\n", "promises 3 rows but ends after 0"),
        ("v.bin", binary(TABLE)[:-6], "v.bin ends inside row 4 of 4"),
        ("v.bin", binary(TABLE)[:19], "v.bin ends inside row 1 of 4"),
        pytest.param("v.bin", b"1 3\n" + b"x" * 3_000_000, "row 1 has a word without end", id="endless word"),
        ("v.bin", binary({"dog": [1, 2, float("inf")]}), "row 1 holds a number that is not finite"),
        ("v.txt.gz", b"plain text", "v.txt.gz cannot be read .*Not a gzipped file"),
        ("v.txt.gz", gzip.compress(glove(TABLE), mtime=0)[:-12], "v.txt.gz cannot be read .*end-of-stream"),
        ("v.txt.zip", b"plain text", "v.txt.zip cannot be read .*not a zip file"),
    ],
)
def test_a_broken_file_is_refused_with_a_sentence(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = write_plain(tmp_path / name, content)
    with pytest.raises(DataError, match=message) as caught:
        read_vectors(path, ["dog"])
    assert str(path) in str(caught.value)


def test_damage_inside_an_archive_is_noticed(tmp_path: Path) -> None:
    for path in (write_gzip(tmp_path / "v.txt", glove(TABLE)), write_zip(tmp_path / "v.txt", glove(TABLE))):
        content = bytearray(path.read_bytes())
        middle = content.index(b"v.txt", 60) + 30 if path.suffix == ".zip" else 30
        content[middle] ^= 0xFF
        path.write_bytes(content)
        with pytest.raises(DataError, match="cannot be read"):
            read_vectors(path, ["dog"])


def test_an_archive_without_a_file_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "v.zip", "w") as archive:
        archive.writestr("folder/", b"")
    with pytest.raises(DataError, match="archive without any file"):
        read_vectors(tmp_path / "v.zip", ["dog"])


def test_an_archive_whose_table_of_contents_names_nothing_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(path := tmp_path / "glove.zip", "w") as archive:
        archive.writestr("glove.txt", glove(TABLE))
    before, name, rest = path.read_bytes().rpartition(b"glove.txt")
    path.write_bytes(before + b"\0" + name[1:] + rest)
    with pytest.raises(DataError, match="archive without any file"):
        read_vectors(path, ["the"])


def test_an_archive_with_a_password_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "v.txt", glove(TABLE))
    content = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # mark every member as encrypted
        at = content.find(signature)
        while at >= 0:
            content[at + flags] |= 1
            at = content.find(signature, at + 1)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be unpacked .*password"):
        read_vectors(path, ["dog"])


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_vectors(tmp_path / "absent.txt", [])
    with pytest.raises(DataError, match="is a folder"):
        read_vectors(str(tmp_path), [])


def same_bits(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Unlike ==, which takes 0 and -0 for the same."""
    return np.array_equal(ours.view(np.uint32), theirs.view(np.uint32))


@example([["-0", "0", "-0.00"], ["-.0", "+0.", "-5"]])
@given(
    st.integers(1, 4).flatmap(
        lambda size: st.lists(st.lists(PLAIN, min_size=size, max_size=size), min_size=1, max_size=5)
    )
)
def test_plain_numbers_are_read_to_the_bit(rows):
    expected = np.array(rows, dtype=np.float64).astype(np.float32)
    found = parse_decimals([" ".join(row).encode() for row in rows], len(rows[0]))
    assert found is not None
    assert found.dtype == np.float32
    assert same_bits(found, expected)


def test_what_is_not_a_plain_number_is_refused_wherever_it_stands():
    odd = ["1e5", "nan", "-", "", ".", "1.2.3", "1-2", "--1", "0x1", "1_0", "1,5", "1.5x", "1" * 16, "\u0663"]
    for number, place in product(odd, range(3)):
        fields = ["1.5", "-2", ".25"]
        fields[place] = number
        assert parse_decimals([b"3 4 5", " ".join(fields).encode()], 3) is None, fields


def test_rows_of_another_length_are_refused():
    for row in (b"1 2", b"1 2 3 4", b"1  3", b" 1 2", b"1\t2 3"):
        assert parse_decimals([b"3 4 5", row], 3) is None, row


@given(st.text(alphabet="0123456789+-. eE", max_size=30))
def test_whatever_is_read_is_what_python_reads(text):
    fields = text.split(" ")
    found = parse_decimals([text.encode()], len(fields))
    if found is not None:
        assert same_bits(found, np.array([[float(field) for field in fields]], dtype=np.float32))
