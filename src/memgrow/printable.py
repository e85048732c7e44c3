"""Text of strangers: names in files may hold what a terminal would obey rather than show."""

import json
import re
from typing import Any

# Control characters (of both sets, with the one that begins a terminal's commands), line separators, marks that change
# the direction of what follows, and halves of characters, which cannot be written.
_UNSEEN = "\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT = re.compile(f"[{_UNSEEN}]")
_IN_LINES = re.compile("[{}]".format(_UNSEEN.replace("\x00-\x1f", "\x00-\x09\x0b-\x1f")))  # all but the line feed


def printable(text: str, lines: bool = False) -> str:
    r"""The text with all that a terminal would obey written out, as in \x1b; `lines`: it may have several lines."""
    return (_IN_LINES if lines else _IN_TEXT).sub(lambda found: ascii(found[0])[1:-1], text)


def json_text(value: Any, indent: int | None = None) -> str:
    r"""JSON in which all that a terminal would obey is written as \u001b: the value that it stands for is the same."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _IN_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
