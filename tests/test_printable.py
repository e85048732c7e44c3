"""What a terminal would obey is shown, and everything else is left as it is."""

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from memgrow.errors import json_text, printable

OBEYED = "\x1b[31m\x9b2J\x07\r\x7f\u202e\u2066\ud800"


@given(st.text())
@example(OBEYED)
def test_nothing_is_left_that_a_terminal_obeys_or_that_cannot_be_written(text):
    shown = printable(text)
    assert not any(one < " " or "\x7f" <= one <= "\x9f" or one in "\u202e\u2066" for one in shown)
    shown.encode()
    assert printable(shown) == shown


def test_what_people_write_is_left_as_it_is():
    for text in ("plain [b]text[/b]", "naïve café", "日本語", "می‌خواهم", "👩‍👩‍👧", "a b", "नमस्ते"):
        assert printable(text) == text
    assert printable("two\nlines", lines=True) == "two\nlines"
    assert printable("a\x1b[0mb") == r"a\x1b[0mb"


@settings(max_examples=30)
@given(st.dictionaries(st.text(), st.lists(st.text() | st.none())))
@example({OBEYED: [OBEYED]})
def test_json_stands_for_the_same_value(value):
    for indent in (None, 1):
        text = json_text(value, indent)
        assert json.loads(text.encode()) == value
        assert printable(text, lines=True) == text
