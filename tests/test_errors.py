"""The parts of sentences that errors are made of."""

from memgrow.errors import brief


def test_what_a_library_says_in_colours_is_told_without_them():
    error = RuntimeError("Failed. \x1b[96mThis is step 1/3\x1b[0m of \x1b[1;31mthree\x1b[m\nNext steps")
    assert brief(error) == "RuntimeError: Failed. This is step 1/3 of three"


def test_a_long_reason_is_told_in_its_beginning():
    assert brief(ValueError("x" * 200), longest=10) == "ValueError: xxxxxxxxxx..."
    assert brief(ValueError(" \n")) == "ValueError"
