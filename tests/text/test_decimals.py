"""Numbers read many at once are, to the bit, those that are read one by one; what is not plain is left to others."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memgrow.text.vector_files import parse_decimals

PLAIN = st.from_regex(r"[-+]?(\d{1,15}|\d{1,15}\.|\.\d{1,15}|\d{1,7}\.\d{1,8})", fullmatch=True).filter(str.isascii)


def same_bits(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Unlike ==, which takes 0 and -0 for the same."""
    return np.array_equal(ours.view(np.uint32), theirs.view(np.uint32))


@example([["-0", "0", "-0.00"], ["-.0", "+0.", "-5"]])
@given(st.integers(1, 4).flatmap(lambda size: st.lists(st.lists(PLAIN, min_size=size, max_size=size), min_size=1)))
def test_plain_numbers_are_read_to_the_bit(rows):
    expected = np.array(rows, dtype=np.float64).astype(np.float32)
    found = parse_decimals([" ".join(row).encode() for row in rows], len(rows[0]))
    assert found is not None
    assert found.dtype == np.float32
    assert same_bits(found, expected)


@pytest.mark.parametrize(
    "number", ["1e5", "nan", "-", "", ".", "1.2.3", "1-2", "--1", "0x1", "1_0", "1,5", "1.5x", "1" * 16, "\u0663"]
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_not_a_plain_number_is_refused_wherever_it_stands(number, place):
    fields = ["1.5", "-2", ".25"]
    fields[place] = number
    assert parse_decimals([b"3 4 5", " ".join(fields).encode()], 3) is None


@pytest.mark.parametrize("row", [b"1 2", b"1 2 3 4", b"1  3", b" 1 2", b"1\t2 3"])
def test_rows_of_another_length_are_refused(row):
    assert parse_decimals([b"3 4 5", row], 3) is None


@given(st.text(alphabet="0123456789+-. eE", max_size=30))
def test_whatever_is_read_is_what_python_reads(text):
    fields = text.split(" ")
    found = parse_decimals([text.encode()], len(fields))
    if found is not None:
        assert same_bits(found, np.array([[float(field) for field in fields]], dtype=np.float32))
