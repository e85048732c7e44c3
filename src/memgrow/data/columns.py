"""The columns of a file: named by the user, or found by the names that people commonly give.

A file is there to be labelled (a text or a pair, and its label) or to be answered (a message and the reply to it).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from memgrow.data.lines import AS_IT_IS, FileFormat
from memgrow.data.values import name_of
from memgrow.errors import DataError, SettingsError, listed

MESSAGES = ("message", "text", "prompt", "question", "query", "post", "context", "input")  # the first there is taken
REPLIES = ("response", "reply", "answer", "completion", "output")
TEXTS: tuple[tuple[str, str | None], ...] = (  # a text alone, or a text and its pair; the first that fits is taken
    ("text", None),
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
)
DIALOGUE = (MESSAGES[0], REPLIES[0])
LABELS = ("label", "gold_label")
SPLIT = "split"

OPTIONS = {
    "text": "--text",
    "pair": "--pair",
    "label": "--label",
    "by": "--by",
    "group": "--group",
    "split": "--split-column",
    "reply": "--reply",
}
ARGUMENTS = {role: f"{role}=" for role in OPTIONS}  # the same from Python


@dataclass(frozen=True)
class Columns:
    """The names of columns; None for text, pair, label, split and reply means: find it by its usual name.

    With a reply the text is the message that it answers, and there is no pair and no label.
    """

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    by: str | None = None
    group: str | None = None
    split: str | None = None
    reply: str | None = None
    labels: Mapping[object, str] | tuple[tuple[str, str], ...] = ()  # other names of labels, such as 5: positive
    file_format: FileFormat = AS_IT_IS  # how the file is written

    def __post_init__(self) -> None:
        pairs = self.labels.items() if isinstance(self.labels, Mapping) else self.labels
        named = [(name_of(old), name_of(new)) for old, new in pairs]
        if any(not name for pair in named for name in pair):
            raise SettingsError("labels are called by other names, such as 5=positive; give both")
        object.__setattr__(self, "labels", tuple(named))

    @cached_property
    def label_names(self) -> dict[str, str]:
        """The other name of each label that has one."""
        return dict(cast(tuple[tuple[str, str], ...], self.labels))

    def among(
        self,
        names: Collection[str],
        where: str,
        labelled: bool = True,
        options: Mapping[str, str] = OPTIONS,
    ) -> "Columns":
        """These columns with what can be found among the names filled in; an error says what is missing.

        `options` is how its reader names a column: by options of a command, or by arguments.
        """
        for role, option in options.items():
            name = getattr(self, role)
            if name is not None and name not in names:
                raise DataError(f"{where} has no column {name!r} (named by {option}){_choice(names, option)}")
        found = self._for_answering(names, where, labelled, options)
        found = found or self._for_labelling(names, where, labelled, options)
        return replace(found, split=found.split or (SPLIT if SPLIT in names else None))

    def unread_label(self, names: Collection[str]) -> str | None:
        """The column of labels beside messages and replies, which alone are read; None where there is none."""
        if self.reply is None:
            return None
        return _first_of(LABELS, names, (self.text, self.reply, self.by, self.group, self.split))

    def _for_labelling(
        self, names: Collection[str], where: str, labelled: bool, options: Mapping[str, str]
    ) -> "Columns":
        found = self if self.text is not None else _with_texts(self, names, where, options)
        if found.label is None:
            label = next((name for name in LABELS if name in names), None)
            if labelled and label is None:
                choice = _choice(names, options["label"])
                raise DataError(f"{where} has no column for the label, such as {' or '.join(LABELS)}{choice}")
            found = replace(found, label=label)
        return found

    def _for_answering(
        self, names: Collection[str], where: str, labelled: bool, options: Mapping[str, str]
    ) -> "Columns | None":
        """The message and its reply; None where the file is there to be labelled."""
        named = [options[role] for role in ("pair", "label") if getattr(self, role) is not None]
        if self.reply is not None and named:
            raise SettingsError(
                f"a reply answers one message and has no label: name {options['reply']} or {named[0]}, but not both"
            )
        if self.reply is not None and self.reply == self.text:
            raise SettingsError(f"the column {self.text!r} cannot hold both the messages and the replies to them")
        taken = (self.text, self.by, self.group, self.split)
        reply = self.reply or _first_of(REPLIES, names, taken)
        message = self.text or _first_of(MESSAGES, names, (*taken, reply))
        if self.reply is None:
            usual = _fitting(self, names)
            plain = self.text is not None or usual is not None
            label = any(name in names for name in LABELS)
            if named or (usual and usual[1]) or not _is_dialogue(message, reply, plain, label, labelled):
                return None
        if labelled or message is None:
            _check_both(message, reply, names, where, options)
        return replace(self, text=message, reply=reply)


BY_NAME = Columns()


def _fitting(columns: Columns, names: Collection[str]) -> tuple[str, str | None] | None:
    # A pair that the user named stands beside any first text; one that nobody named must be there as the table says.
    for text, pair in TEXTS:
        if text in names and text not in (columns.pair, columns.reply) and (columns.pair or not pair or pair in names):
            return text, columns.pair or pair
    return None


def _with_texts(columns: Columns, names: Collection[str], where: str, options: Mapping[str, str]) -> Columns:
    found = _fitting(columns, names)
    if found is not None:
        return replace(columns, text=found[0], pair=found[1])
    usual = ", ".join(f"{text} and {pair}" if pair else text for text, pair in (*TEXTS, DIALOGUE))
    choice = _choice(names, f"{options['text']} (and {options['pair']} for a second text)")
    raise DataError(f"{where} has no column for the text, such as {usual}{choice}")


def _choice(names: Collection[str], option: str) -> str:
    return f"; its columns are {listed(names) or 'none'}: name one of them with {option}"


def _first_of(usual: Sequence[str], names: Collection[str], taken: Collection[str | None]) -> str | None:
    """The first of the usual names that is there and serves for nothing else."""
    return next((name for name in usual if name in names and name not in taken), None)


def _is_dialogue(message: str | None, reply: str | None, plain: bool, label: bool, labelled: bool) -> bool:
    """Whether a file is to be answered rather than labelled, by the columns it has.

    `plain` is whether it has a text as labelled files do. A label beside such a text, or beside only one of message
    and reply, speaks for labelling; where neither labels nor replies are asked for, a message is enough.
    """
    if plain:
        return labelled and not label and reply is not None
    if not labelled:
        return message is not None
    return bool(message and reply) or (not label and bool(message or reply))


def _check_both(
    message: str | None, reply: str | None, names: Collection[str], where: str, options: Mapping[str, str]
) -> None:
    """Refuse messages without replies, and replies without messages: there is nothing to learn from either."""
    there = f"; its columns are {listed(names)}"
    if message is None:
        has = f"has replies (column {reply}), but no column for the messages that they answer"
        such, option = " or ".join(MESSAGES[:3]), options["text"]
        raise DataError(f"{where} {has}, such as {such}{there}: add one, or name it with {option}")
    if reply is None:
        has = f"has messages (column {message}), but no column for the replies to them"
        such, option = " or ".join(REPLIES[:3]), options["reply"]
        raise DataError(f"{where} {has}, such as {such}{there}: add one, or name it with {option}")
