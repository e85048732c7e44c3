"""Text into words, close to the Penn Treebank's way. Tokenization is idempotent: tokens joined by spaces stay the same.

No alternative of the pattern looks further than one character past its own end, so a token that stands alone is matched
as it was among its neighbours. This file needs Python alone: exported models carry a copy of it.
"""

import re
import unicodedata
from functools import lru_cache

_CONTRACTIONS = ("n't", "'s", "'m", "'d", "'ll", "'re", "'ve")
_CLITICS = (*_CONTRACTIONS, *(clitic.upper() for clitic in _CONTRACTIONS))
_SHORTENED = ("'em", "'Em", "'t", "'tis", "'Tis", "'twas", "'Twas")  # whole where a word may start

# Only what hardly ever ends a sentence as a full word: "no." and "fig." would be wrong more often than right.
_ABBREVIATIONS = (
    *("Mr", "Mrs", "Ms", "Dr", "Prof", "Sr", "Jr", "St", "Mt", "Lt", "Capt", "Sgt", "Gen", "Sen", "Gov", "Rev"),
    *("etc", "vs", "cf", "viz", "approx", "est", "dept", "inc", "ltd", "corp", "co", "bros", "ave", "blvd"),
    *("Jan", "Feb", "Aug", "Sept", "Oct", "Nov", "Dec", "Ph.D"),
)

REPAIRS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201b\u02bc\uff07", "'"),  # typographic apostrophes
        **dict.fromkeys("\u2010\u2011", "-"),
        "\u200b": " ",
        **dict.fromkeys("\u00ad\u2060\ufeff", None),  # soft hyphen, word joiner, byte-order mark: never seen
    }
)


def _marks() -> str:
    """The accents, vowel signs and joiners that `\\w` leaves out, as the inside of a character class."""
    ranges: list[list[int]] = [[0x200C, 0x200D]]
    for code in range(0x300, 0x20000):
        if unicodedata.category(chr(code))[0] == "M":
            if ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def _pattern() -> re.Pattern[str]:
    letter, sign, mark = r"[^\W\d_]", r"[^\W_]", f"[{_marks()}]"
    # Possessive (`++`) where one sign repeats: nothing is tried twice, so the time is linear in the text. Groups are
    # not, as Python before 3.11.5 does not step back out of one that fails half way; after them nothing can fail.
    initials = rf"(?:{letter}\.){{2,}}+|{letter}\.{letter}(?!{sign}|{mark})"  # U.S. or e.g
    start = rf"(?:{initials}|\d++(?:[.,:/]\d++)*|{sign})"  # or 3,000.50 or any letter or digit
    part = rf"{start}{sign}*+(?:{mark}++{sign}*+)*"
    spelt = {form for word in _ABBREVIATIONS for form in (word, word.lower(), word.capitalize(), word.upper())}
    abbreviation = "|".join(re.escape(form) for form in sorted(spelt))
    leading = "|".join(sorted({*_CLITICS, *_SHORTENED} - {"n't", "N'T"}, key=len, reverse=True))
    return re.compile(
        rf"(?:{abbreviation})\.(?!\.)"
        rf"|{part}(?:[-']{part})*"
        rf"|(?:{leading})(?!{sign}|{mark})"
        r"|\.\.\.|--|``|''"
        r"|-[LR][RCS]B-"  # the treebank's brackets
        rf"|\S{mark}*+"
    )


TOKEN = _pattern()  # of texts after REPAIRS
_SHORT = 32  # characters: longer pieces hardly ever come again


def tokenize(text: str, most: int | None = None) -> list[str]:
    """Split a text into words and punctuation marks.

    With `most`, at least `most` + 1 tokens are returned if there are so many; the rest of the text is not looked at.
    """
    if not text.isascii():
        text = text.translate(REPAIRS)
    # No token crosses white space, and each piece has one at least.
    pieces = text.split() if most is None else text.split(maxsplit=most + 1)[: most + 1]
    return [token for piece in pieces for token in (_cached_tokens(piece) if len(piece) <= _SHORT else _tokens(piece))]


def tokenize_lower(text: str, most: int | None = None) -> list[str]:
    """The same in lower case."""
    return tokenize(text.lower(), most)


def _tokens(piece: str) -> tuple[str, ...]:
    tokens = TOKEN.findall(piece)
    if "'" not in piece:
        return tuple(tokens)
    return tuple(part for token in tokens for part in (_without_clitics(token) if "'" in token else (token,)))


_cached_tokens = lru_cache(maxsize=1 << 16)(_tokens)  # most pieces of a corpus come again and again


def _without_clitics(word: str) -> list[str]:
    """Take contractions off the end one by one: shouldn't've becomes should, n't, 've."""
    if word[0] == "'":
        return [word]
    end = len(word)
    pieces = []
    while word.endswith(_CLITICS, 0, end):
        start = word.rindex("'", 0, end)
        if word[end - 1] in "tT":
            start -= 1  # the n of n't
            if start == 0 or word[start - 1] in ".-'":
                break  # no whole word would be left before it
        pieces.append(word[start:end])
        end = start
    return [word[:end], *reversed(pieces)]
