"""Files that would wait for ever or fill the memory are refused with a sentence, in a moment and in little memory."""

import gzip
import os
import time
import tracemalloc
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest

from memgrow.data import formats, load_stream
from memgrow.data import lines as data_lines
from memgrow.data.asked import asked_from_lines
from memgrow.data.columns import BY_NAME
from memgrow.data.files import check_file, read_rows
from memgrow.data.lines import line_chunks
from memgrow.errors import DataError, listed

ROW = b'{"text": "so fine", "label": "good"}\n'


@contextmanager
def refused(part: str, seconds: float = 5.0, megabytes: float = 100.0):
    """The sentence, its time (of the CPU, as the machine may be busy) and its memory: a sentence is short."""
    tracemalloc.start()
    began = time.process_time()
    try:
        with pytest.raises(DataError, match=part) as caught:
            yield
        assert time.process_time() - began < seconds
        assert tracemalloc.get_traced_memory()[1] < megabytes * 2**20
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 600


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_before_anybody_waits_for_it(tmp_path):
    os.mkfifo(path := tmp_path / "pipe.jsonl")
    with refused("no regular file"):
        load_stream(path)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no such device")
def test_a_link_to_a_device_is_refused(tmp_path):
    (path := tmp_path / "zero.csv").symlink_to("/dev/zero")
    with refused("no regular file"):
        load_stream(path)


@pytest.mark.parametrize("name", ["loop.jsonl", "train.jsonl"])
def test_a_link_to_itself_is_refused(tmp_path, name):
    (path := tmp_path / name).symlink_to(path)
    with refused("cannot be read"):
        load_stream(path)


def test_a_name_with_a_null_byte_is_refused(tmp_path):
    with refused("cannot be read"):
        check_file(tmp_path / "a\0b.jsonl")


@pytest.mark.parametrize(("content", "part"), [(b"\n", "empty lines"), (ROW, "times its size")])
def test_an_archive_that_unpacks_without_end_is_refused(tmp_path, monkeypatch, content, part):
    monkeypatch.setattr(data_lines, "ALWAYS_UNPACKED", 1 << 18)
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(content * (2_000_000 // len(content)), 9))
    with refused(part):
        for _ in read_rows(path):
            pass


def test_a_small_archive_may_unpack_to_many_times_its_size(tmp_path):
    path = tmp_path / "same.jsonl.gz"
    path.write_bytes(gzip.compress(ROW * 20_000, 9))
    assert sum(1 for _ in read_rows(path)) == 20_000


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "tsv"])
def test_a_line_that_never_ends_is_refused(tmp_path, monkeypatch, suffix):
    for module in (formats, data_lines):
        monkeypatch.setattr(module, "LONGEST_ROW", 1 << 20)
    path = tmp_path / f"long.{suffix}"
    path.write_bytes(b"{}\n" + b"a" * (30 << 20))  # a row, or a header
    with refused("line 2 has a row of more than 1 MB", megabytes=10):
        list(read_rows(path))


def test_a_quoted_field_over_many_lines_is_refused_when_it_is_too_long(tmp_path, monkeypatch):
    for module in (formats, data_lines):
        monkeypatch.setattr(module, "LONGEST_ROW", 1 << 20)
    path = tmp_path / "long.csv"
    path.write_bytes(b'text,label\n"' + b"a line of the text\n" * 100_000 + b'",good\n')
    with refused("line 2 has a row of more than 1 MB", megabytes=20):
        list(read_rows(path))


def test_a_line_of_standard_input_that_never_ends_is_refused():
    lines = line_chunks(BytesIO(b"fine\n" + b"a" * (data_lines.LONGEST_ROW + 2)))
    with refused("standard input has a row of more than 16 MB"):
        list(asked_from_lines(lines, BY_NAME, "text"))


@pytest.mark.parametrize("joint", [",", "\t"])
def test_a_header_of_very_many_columns_is_refused(tmp_path, joint):
    path = tmp_path / ("wide.csv" if joint == "," else "wide.tsv")
    path.write_text(joint.join(f"c{number}" for number in range(100_000)) + "\n")
    with refused("names 100,000 columns"):
        list(read_rows(path))


def test_a_sentence_about_many_columns_names_the_first(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{number}" for number in range(9_000)) + "\n" + "," * 8_999 + "\n")
    with refused("and 8,988 more"):
        load_stream(path)


def test_a_name_with_the_end_of_a_line_is_told_on_one_line(tmp_path):
    (path := tmp_path / "odd.jsonl").write_bytes(b'{"\\n": ""}')
    with refused(r"its columns are \\n: name one"):
        load_stream(path)


def test_few_short_names_are_listed_whole():
    assert listed(["a", "b"]) == "a, b"
    assert listed("x" * 41 for _ in range(13)) == ", ".join(["x" * 40 + "..."] * 12) + ", and 1 more"
