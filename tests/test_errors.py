"""The parts of sentences that errors are made of."""

from memgrow.errors import brief, interruption


def test_what_a_library_says_in_colours_is_told_without_them():
    error = RuntimeError("Failed. \x1b[96mThis is step 1/3\x1b[0m of \x1b[1;31mthree\x1b[m\nNext steps")
    assert brief(error) == "RuntimeError: Failed. This is step 1/3 of three"


def test_a_long_reason_is_told_in_its_beginning():
    assert brief(ValueError("x" * 200), longest=10) == "ValueError: xxxxxxxxxx..."
    assert brief(ValueError(" \n")) == "ValueError"


def test_the_signal_that_an_error_came_of_is_found_and_a_ring_of_errors_ends():
    signal, one, other = KeyboardInterrupt(), ValueError(), OSError()
    one.__cause__, other.__cause__ = other, one
    assert interruption(one) is None
    other.__cause__ = signal
    assert interruption(one) is signal
