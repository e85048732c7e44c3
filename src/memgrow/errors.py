"""Errors that a user can put right, each a sentence (what is wrong, where, what to do), and the grammar of such."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # of a terminal, which some libraries put into what they say


class MemgrowError(ValueError):
    """Something the user gave cannot be used; the message says what, where and what to do instead."""


class DataError(MemgrowError):
    """A file or an example that cannot be read as data."""


class ModelError(MemgrowError):
    """A model folder that cannot be read or written."""


class SettingsError(MemgrowError):
    """A setting, a method or a size that does not exist or cannot be."""


class MissingExtraError(SettingsError):
    """A setting that needs a package which is not installed."""


class ForgettingError(MemgrowError):
    """A domain that was learnt and not kept, as more than was allowed had been forgotten of what is watched."""

    def __init__(self, message: str, before: Mapping[str, float], after: Mapping[str, float]) -> None:
        super().__init__(message)
        self.before, self.after = dict(before), dict(after)  # test accuracy by watched domain, out of 1

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.before, self.after)


def listed(names: Iterable[str], most: int = 12, longest: int = 40) -> str:
    """Names with commas between them, for a sentence: of many the first, and of a long one its beginning.

    What cannot be printed, as the end of a line, is written as Python writes it.
    """
    every = list(names)
    some = [name if len(name) <= longest else f"{name[:longest]}..." for name in every[:most]]
    some = [name if name.isprintable() else repr(name)[1:-1] for name in some]
    more = [f"and {len(every) - most:,} more"] if len(every) > most else []
    return ", ".join(some + more)


def quoted(value: object, longest: int = 60) -> str:
    """A value as Python writes it, for a sentence; of a long one its beginning."""
    text = repr(value[: longest + 1] if isinstance(value, str | bytes | list | tuple) else value)
    return text if len(text) <= longest + 2 else f"{text[:longest]}..."


def brief(error: BaseException, longest: int = 160) -> str:
    """What an error of a library says, as a part of a sentence: its kind and the beginning of its first line."""
    first = _COLOURS.sub("", str(error)).strip().partition("\n")[0]
    said = f"{first[:longest]}..." if len(first) > longest else first
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def counted(count: int, what: str) -> str:
    """A count with its noun: 1 pair, 1,200 pairs."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def was_or_were(count: int) -> str:
    """The verb that agrees with a count."""
    return "was" if count == 1 else "were"


def interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """The signal that an error came of, if it did: what is interrupted may make another error of it, as imports do."""
    met = set[int]()  # two errors may be the cause of each other
    while error is not None and not isinstance(error, KeyboardInterrupt):
        if id(error) in met:
            return None
        met.add(id(error))
        error = error.__cause__ or error.__context__
    return error


# Control characters, line separators, marks that change the text direction, and lone surrogates.
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
