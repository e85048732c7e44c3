"""Lines of standard input as they come: the same lines, and no waiting for those that have not been written yet."""

import io
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memgrow.data import live_lines
from memgrow.data.lines import bounded_lines
from memgrow.data.live_lines import LiveLines, as_they_come


@pytest.fixture
def pipe():
    """The reading end as a file, and the writing end."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as file:
        yield file, writer


@given(
    content=st.lists(st.sampled_from([b"a", b"bb", b"\n", b"\r\n", b"\0"]), max_size=40).map(b"".join),
    block=st.integers(1, 9),
)
def test_they_are_the_lines_that_a_file_has(content, block):
    expected = list(bounded_lines(io.BytesIO(content)))
    assert list(LiveLines(io.BytesIO(content))) == expected
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    with os.fdopen(reader, "rb") as file, pytest.MonkeyPatch.context() as patched:
        patched.setattr(live_lines, "BLOCK", block)
        assert list(LiveLines(file)) == expected


def test_of_a_line_that_is_too_long_so_much_is_read_that_it_can_be_told(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(live_lines, "LONGEST_ROW", 10)
    (path := tmp_path / "long").write_bytes(b"x" * 35 + b"\nend")
    with path.open("rb") as file:
        lines = list(LiveLines(file))
    assert b"".join(lines) == b"x" * 35 + b"\nend"
    assert len(lines[0]) == 11


def test_what_is_there_is_taken_together_and_nothing_is_waited_for(pipe):
    file, writer = pipe
    lines = LiveLines(file)
    chunks = as_they_come(lines, 3, lines.waiting)
    os.write(writer, b"a\nb\n")
    assert next(chunks) == [b"a\n", b"b\n"]
    os.write(writer, b"c\nd\ne\nf\n")
    assert next(chunks) == [b"c\n", b"d\n", b"e\n"]
    assert next(chunks) == [b"f\n"]
    threading.Timer(0.05, lambda: (os.write(writer, b"last"), os.close(writer))).start()
    assert list(chunks) == [[b"last"]]
