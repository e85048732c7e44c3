"""One example to learn from, or to be tried on."""

from dataclasses import dataclass, field

from memgrow.data.values import is_missing, kind_of, name_of
from memgrow.errors import DataError


@dataclass(frozen=True, slots=True)
class Example:
    """One text, or two for a pair task, and its label or its reply where that is known.

    A label may be a string, a whole number, true or false, also numpy's; it is kept as a string.
    """

    text: str
    pair: str | None = None
    label: str | None = None
    where: str = field(default="", compare=False)  # "reviews.jsonl, line 7": for error messages alone
    reply: str | None = None  # what is answered to the text, in data to learn answering from

    def __post_init__(self) -> None:
        # Nearly all are as they should be, and there may be millions.
        if type(self.text) is not str or {type(self.pair), type(self.label), type(self.reply)} - _STRING_OR_NONE:
            for role in ("text", "pair", "reply"):
                if role == "text" or getattr(self, role) is not None:
                    object.__setattr__(self, role, _checked_text(getattr(self, role), role, self.where))
            if self.label is not None:
                object.__setattr__(self, "label", as_label(self.label, self.where))

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that a model reads; the reply is what it should write."""
        return (self.text,) if self.pair is None else (self.text, self.pair)


_STRING_OR_NONE = {str, type(None)}


def _checked_text(value: object, role: str, where: str) -> str:
    if isinstance(value, str):
        return str(value)
    place = f"{where}: " if where else ""
    advice = "fill it in, or leave the row out" if is_missing(value) else "give a string"
    raise DataError(f"{place}the {role} of an example is {kind_of(value)}, but must be a string; {advice}")


def as_label(value: object, where: str = "") -> str:
    """The string that a label is kept as; an error where it can be none."""
    name = name_of(value)
    if name is None:
        place = f"{where}: " if where else ""
        advice = "fill it in, or leave the row out" if is_missing(value) else "give one of these, as str(label)"
        raise DataError(
            f"{place}the label of an example is {kind_of(value)}, but must be a string, a whole number, true or false; "
            f"{advice}"
        )
    return name


def half_of_a_character(text: str) -> str | None:
    """The first half of a character that stands alone in a text, which no file can hold, as in \\ud800; or None."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"\\u{ord(text[error.start]):04x}"
    return None
