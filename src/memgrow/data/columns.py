"""Which column holds what: named by the user, or found by the names that people commonly give."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from memgrow.errors import DataError

TEXTS: tuple[tuple[str, str | None], ...] = (  # a text alone, or a text and its pair; the first that fits is taken
    ("text", None),
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
)
LABELS = ("label", "gold_label")
SPLIT = "split"

OPTIONS = {
    "text": "--text",
    "pair": "--pair",
    "label": "--label",
    "by": "--by",
    "group": "--group",
    "split": "--split-column",
}


@dataclass(frozen=True)
class Columns:
    """The names of columns; None for text, pair, label and split means: find it by its usual name."""

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    by: str | None = None
    group: str | None = None
    split: str | None = None

    def among(self, names: Collection[str], where: str, labelled: bool = True) -> "Columns":
        """The same with what can be found filled in; an error says what is missing among the names."""
        for role, option in OPTIONS.items():
            name = getattr(self, role)
            if name is not None and name not in names:
                raise DataError(f"{where} has no column {name!r} (named by {option}){_choice(names, option)}")
        found = self
        if found.text is None:
            found = _with_texts(found, names, where)
        if found.label is None:
            label = next((name for name in LABELS if name in names), None)
            if labelled and label is None:
                raise DataError(
                    f"{where} has no column for the label, such as {' or '.join(LABELS)}{_choice(names, '--label')}"
                )
            found = replace(found, label=label)
        return replace(found, split=found.split or (SPLIT if SPLIT in names else None))


BY_NAME = Columns()


def _with_texts(columns: Columns, names: Collection[str], where: str) -> Columns:
    # A pair that the user named stands beside any first text; one that nobody named must be there as the table says.
    for text, pair in TEXTS:
        if text in names and text != columns.pair and (columns.pair or pair is None or pair in names):
            return replace(columns, text=text, pair=columns.pair or pair)
    usual = ", ".join(f"{text} and {pair}" if pair else text for text, pair in TEXTS)
    raise DataError(
        f"{where} has no column for the text, such as {usual}{_choice(names, '--text (and --pair for a second text)')}"
    )


def _choice(names: Collection[str], option: str) -> str:
    return f"; its columns are {', '.join(names) or 'none'}: name one of them with {option}"
