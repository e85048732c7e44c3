"""The columns of a file, with labels or replies: named by the user, or found by their usual names."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from memgrow.data.files import DEFAULT_FORMAT, FileFormat
from memgrow.data.values import name_of
from memgrow.errors import DataError, SettingsError, listed

MESSAGES = ("message", "text", "prompt", "question", "query", "post", "context", "input")  # first match wins
REPLIES = ("response", "reply", "answer", "completion", "output")
TEXTS: tuple[tuple[str, str | None], ...] = (("text", None), ("premise", "hypothesis"), ("sentence1", "sentence2"))
LABELS = ("label", "gold_label")
SPLIT = "split"
ROLES = ("text", "pair", "label", "by", "group", "split", "reply")


@dataclass(frozen=True)
class Columns:
    """Names of columns; None for text, pair, label, split and reply: find it by its usual name."""

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    by: str | None = None
    group: str | None = None
    split: str | None = None
    reply: str | None = None
    labels: Mapping[object, str] | tuple[tuple[str, str], ...] = ()  # other names of labels, such as 5: positive
    file_format: FileFormat = DEFAULT_FORMAT

    def __post_init__(self) -> None:
        pairs = self.labels.items() if isinstance(self.labels, Mapping) else self.labels
        named = [(name_of(old), name_of(new)) for old, new in pairs]
        if any(not name for pair in named for name in pair):
            raise SettingsError("a label's other name is given as OLD=NEW, such as 5=positive; give both")
        object.__setattr__(self, "labels", tuple(named))

    @property
    def texts(self) -> list[str]:
        """The columns of texts, once they are found."""
        return [name for name in (self.text, self.pair, self.reply) if name is not None]

    @property
    def kind(self) -> str:
        """What the rows are, once the columns are found."""
        return "messages and replies" if self.reply else "pairs" if self.pair else "single texts"

    @cached_property
    def label_names(self) -> dict[str, str]:
        """The other name of each label that has one."""
        return dict(cast(tuple[tuple[str, str], ...], self.labels))

    def resolve(self, names: Collection[str], where: str, labelled: bool = True) -> "Columns":
        """These columns with the missing ones found among `names`; unless `labelled`, only texts are required."""
        for role in ROLES:
            name = getattr(self, role)
            if name is not None and name not in names:
                raise DataError(f"{where} has no column {name!r} (named by {option(role)}){_available(names)}")
        found = self._with_reply(names, where, labelled) or self._with_label(names, where, labelled)
        return replace(found, split=found.split or (SPLIT if SPLIT in names else None))

    def unread_label(self, names: Collection[str]) -> str | None:
        """A label column in a file that is read as messages and replies."""
        taken = (self.text, self.reply, self.by, self.group, self.split)
        return None if self.reply is None else _first_of(LABELS, names, taken)

    def _with_label(self, names: Collection[str], where: str, labelled: bool) -> "Columns":
        found = self
        if self.text is None:
            texts = self._texts(names)
            if texts is None:
                raise DataError(f"{where} has no column for the text{_available(names)}: name it with --text")
            found = replace(self, text=texts[0], pair=texts[1])
        if found.label is None:
            label = next((name for name in LABELS if name in names), None)
            if labelled and label is None:
                raise DataError(f"{where} has no column for the label{_available(names)}: name one with --label")
            found = replace(found, label=label)
        return found

    def _with_reply(self, names: Collection[str], where: str, labelled: bool) -> "Columns | None":
        """Message and reply; None for a file with labels."""
        named = [role for role in ("pair", "label") if getattr(self, role) is not None]
        if self.reply is not None and named:
            raise SettingsError(f"a reply has no {named[0]}: give --reply or --{named[0]}, not both")
        taken = (self.text, self.by, self.group, self.split)
        reply = self.reply or _first_of(REPLIES, names, taken)
        message = self.text or _first_of(MESSAGES, names, (*taken, reply))
        if self.reply is None:
            texts = self._texts(names)
            has_text = self.text is not None or texts is not None
            has_label = any(name in names for name in LABELS)
            if named or (texts and texts[1]):
                return None
            if not _is_dialogue(message, reply, has_text=has_text, has_label=has_label, labelled=labelled):
                return None
        if message is None or (labelled and reply is None):
            missing, role = ("messages", "text") if message is None else ("replies", "reply")
            raise DataError(f"{where} has no column for the {missing}{_available(names)}: name one with --{role}")
        return replace(self, text=message, reply=reply)

    def _texts(self, names: Collection[str]) -> tuple[str, str | None] | None:
        for text, pair in TEXTS:
            if text in names and text not in (self.pair, self.reply) and (self.pair or not pair or pair in names):
                return text, self.pair or pair
        return None


DEFAULT_COLUMNS = Columns()


def option(role: str) -> str:
    """The option of a command that names a column; in Python it is the argument of that name."""
    return "--split-column" if role == "split" else f"--{role}"


def _available(names: Collection[str]) -> str:
    return f"; its columns are {listed(names) or 'none'}"


def _first_of(usual: Sequence[str], names: Collection[str], taken: Collection[str | None]) -> str | None:
    return next((name for name in usual if name in names and name not in taken), None)


def _is_dialogue(message: str | None, reply: str | None, *, has_text: bool, has_label: bool, labelled: bool) -> bool:
    """Whether a file has replies rather than labels; a label beside a text, or beside half a dialogue, wins."""
    if has_text:
        return labelled and not has_label and reply is not None
    if not labelled:
        return message is not None
    return bool(message and reply) or (not has_label and bool(message or reply))
