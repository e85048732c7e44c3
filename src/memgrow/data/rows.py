"""Rows as examples: those of files, those that Python holds in dicts, frames and datasets, and texts to predict on."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar, cast

from memgrow.data.disk import is_missing, kind_of, lone_surrogate, name_of, plain
from memgrow.data.domain import Example, check_name
from memgrow.data.files import (
    PART_NAMES,
    UTF8,
    check_encoding,
    decode_lines,
    domain_and_part,
    parse_json,
    read_rows,
    where,
)
from memgrow.errors import DataError, SettingsError, listed

MESSAGES = ("message", "text", "prompt", "question", "query", "post", "context", "input")  # first match wins
REPLIES = ("response", "reply", "answer", "completion", "output")
TEXTS: tuple[tuple[str, str | None], ...] = (("text", None), ("premise", "hypothesis"), ("sentence1", "sentence2"))
LABELS = ("label", "gold_label")
SPLIT = "split"
Item = TypeVar("Item")
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
    encoding: str = UTF8

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
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
        return dict(cast(tuple[tuple[str, str], ...], self.labels))

    def resolve(self, names: Collection[str], where: str, labelled: bool = True) -> "Columns":
        """These columns with the missing ones found among `names`; unless `labelled`, only texts are required."""
        for role in ROLES:
            name = getattr(self, role)
            if name is not None and name not in names:
                lacks = f"{where} has no column {name!r} (named by {option(role)}); its columns are {listed(names)}"
                raise DataError(f"{lacks}: name one of them, or leave it out")
        named = [role for role in ("pair", "label") if getattr(self, role) is not None]
        if self.reply is not None and named:
            raise SettingsError(f"a reply has no {named[0]}: give --reply or --{named[0]}, not both")
        taken = (self.text, self.by, self.group, self.split)
        reply = self.reply or _first_of(REPLIES, names, taken)
        message = self.text or _first_of(MESSAGES, names, (*taken, reply))
        label, (text, pair) = self.label or _first_of(LABELS, names), self._usual_texts(names)
        # Labels win beside a text, and beside half a dialogue.
        found = message if not labelled else (message and reply) if label else (message or reply)
        if self.text is not None or text is not None:
            found = reply if labelled and not label else None
        split, there = self.split or (SPLIT if SPLIT in names else None), f"its columns are {listed(names) or 'none'}"
        if self.reply is not None or (found and not named and not pair):
            if message is None or (labelled and reply is None):
                missing, role = ("messages", "text") if message is None else ("replies", "reply")
                raise DataError(f"{where} has no column for the {missing}; {there}: name one with --{role}")
            return replace(self, text=message, reply=reply, split=split)
        if self.text is not None:
            text, pair = self.text, self.pair
        if text is None:
            is_headed = where.removesuffix(".gz").endswith((".csv", ".tsv"))
            header = ", or if the first line is data, add a header line" if is_headed else ""
            raise DataError(f"{where} has no column for the text; {there}: name it with --text{header}")
        if labelled and label is None:
            raise DataError(f"{where} has no column for the label; {there}: name one with --label")
        return replace(self, text=text, pair=pair, label=label, split=split)

    def _usual_texts(self, names: Collection[str]) -> tuple[str | None, str | None]:
        for text, pair in TEXTS:
            if text in names and text not in (self.pair, self.reply) and (self.pair or not pair or pair in names):
                return text, self.pair or pair
        return None, None


DEFAULT_COLUMNS = Columns()


def option(role: str) -> str:
    """The option of a command that names a column; in Python it is the argument of that name."""
    return "--split-column" if role == "split" else f"--{role}"


def _first_of(usual: Sequence[str], names: Collection[str], taken: Collection[str | None] = ()) -> str | None:
    return next((name for name in usual if name in names and name not in taken), None)


NO_GOLD_LABEL = "-"  # MultiNLI and SNLI mark pairs without an agreed label by it
ROW_KINDS = "a row is a dict, a tuple (text, label) or (text, pair, label), or an Example"
TUPLES: dict[int, tuple[str, ...]] = {2: ("text", "label"), 3: ("text", "pair", "label")}


@dataclass(frozen=True, slots=True)
class Record:
    """An example, and the group, domain and part that its row names."""

    example: Example
    group: str
    by: str | None = None
    part: str | None = None


@dataclass
class Table:
    """The records of one file or of rows in memory, and what was left out."""

    name: str
    domain: str  # of rows that do not name one
    part: str | None  # likewise
    columns: Columns
    records: list[Record] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)  # rows by reason
    warning: str | None = None  # of a label column that is not read
    path: Path | None = None


def read_file(path: Path, columns: Columns, skip_empty: bool = False) -> Table:
    """Read a file as a table. Rows without a gold label, and with `skip_empty` those without a text, are counted."""
    table = Table(path.name, *domain_and_part(path), columns, path=path)
    rows = ((where(path, line), values) for line, values in read_rows(path, columns.encoding))
    return _fill(table, rows, skip_empty)


def _fill(table: Table, rows: Iterator[tuple[str, Mapping[str, object]]], skip_empty: bool) -> Table:
    columns = None
    for place, values in rows:
        if columns is None:
            columns, given = table.columns.resolve(values, table.name), table.columns
            taken = (columns.text, columns.reply, columns.by, columns.group, columns.split)
            if columns.reply and not given.reply and (unread := _first_of(LABELS, values, taken)):
                read = f"{columns.text} and {columns.reply} are taken for messages and replies"
                table.warning = f"{table.name}: the labels (column {unread}) are not read: {read}; or give --label"
            table.columns = columns
        if columns.split is None and SPLIT in values:
            raise DataError(f"{place} has a field {SPLIT!r}, but the rows before it have none; give it to all or none")
        if columns.labels:
            values = _rename_label(values, columns)
        if columns.label and _stripped(values, columns.label) == NO_GOLD_LABEL:
            table.left_out["without a gold label"] += 1
        elif skip_empty and "" in (_stripped(values, one) for one in columns.texts):
            table.left_out["with an empty text"] += 1
        else:
            table.records.append(_record(values, columns, place))
    if not table.records:
        raise DataError(f"every row of {table.name} is {' or '.join(table.left_out)}; give rows that can be used")
    return table


def _rename_label(values: Mapping[str, object], columns: Columns) -> Mapping[str, object]:
    name = name_of(values.get(columns.label)) if columns.label else None
    new = columns.label_names.get(name.strip()) if name else None
    return values if new is None else {**values, str(columns.label): new}


def _stripped(values: Mapping[str, object], column: str) -> str:
    """A string without the space around it; a missing value is empty, any other its type."""
    value = values.get(column)
    return value.strip() if isinstance(value, str) else "" if is_missing(value) else type(value).__name__


def _record(values: Mapping[str, object], columns: Columns, place: str) -> Record:
    example, part = example_of(values, columns, place), None
    if columns.split:
        name = _field(values, columns.split, place, is_name=True)
        if (part := PART_NAMES.get(name.lower())) is None:
            wrong = f"{place}: the field {columns.split!r} is {name!r}, not one of {', '.join(PART_NAMES)}"
            raise DataError(f"{wrong}; correct it, or give {option('split')}")
    group = _field(values, columns.group, place, is_name=True) if columns.group else example.text
    by = _field(values, columns.by, place, is_name=True) if columns.by else None
    return Record(example, group, by, part)


def example_of(values: Mapping[str, object], columns: Columns, place: str, labelled: bool = True) -> Example:
    """The example in a row; unless `labelled`, a label or reply that is missing or unusable is left out."""
    assert columns.text is not None
    label = reply = None
    if columns.label and (labelled or _is_usable(name_of(values.get(columns.label)), NO_GOLD_LABEL)):
        label = _field(values, columns.label, place, is_name=True)
    if columns.reply and (labelled or _is_usable(values.get(columns.reply))):
        reply = _field(values, columns.reply, place)
    pair = _field(values, columns.pair, place) if columns.pair else None
    return Example(_field(values, columns.text, place), pair, label, place, reply)


def _is_usable(value: object, no_value: str = "") -> bool:
    return isinstance(value, str) and value.strip() not in ("", no_value) and lone_surrogate(value) is None


def _field(values: Mapping[str, object], column: str, place: str, is_name: bool = False) -> str:
    """A text, or the name of a label, domain, group or part, which may be a number."""
    value = values.get(column)
    if value is None or (type(value) is not str and is_missing(value)):
        raise DataError(f"{place} has no value for the field {column!r}; fill it in or remove the row")
    found = name_of(value) if is_name else value
    if not isinstance(found, str):
        wanted = "a string, an int or a bool" if is_name else "a string"
        raise DataError(f"{place}: the field {column!r} is {kind_of(value)}, but must be {wanted}")
    return check_text(found.strip() if is_name else found, f"{place}: the field {column!r}")


def check_text(value: str, place: str) -> str:
    """The text, if it is not empty and can be saved."""
    if not value or value.isspace():
        raise DataError(f"{place} is empty; give it at least one word, or remove the row")
    if (found := lone_surrogate(value)) is not None:
        raise DataError(f"{place} holds a lone surrogate ({found}); remove it")
    return value


def read_python_rows(name: str, role: str, rows: object, columns: Columns, skip_empty: bool = False) -> Table:
    """Rows in memory as a table, by the same rules as those of a file."""
    check_name(name)
    called = name if role == "data" else f"the {role} rows of {name}"
    given = iter(iterate_rows(rows, called))
    if (first := next(given, None)) is None:
        raise DataError(f"{called} is empty: it has no rows; give at least one")
    known: dict[str, Any] = {role: role for role in _values(first, f"{called}, row 1")[1]}
    numbered = enumerate(chain([first], given), 1)
    placed = ((getattr(row, "where", "") or f"{called}, row {number}", row) for number, row in numbered)
    fields = ((place, _values(row, place)[0]) for place, row in placed)
    return _fill(Table(called, name, None, replace(columns, **known)), fields, skip_empty)


def _values(row: object, place: str) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """The fields of a row by column and, of a row without column names, their roles."""
    if isinstance(row, Mapping):
        return row, ()
    if isinstance(row, Example):
        roles = ("text", "reply") if row.reply is not None else TUPLES[len(row.texts) + 1]
        return {role: getattr(row, role) for role in roles}, roles
    if hasattr(row, "_asdict"):  # a named tuple, as of pandas
        return row._asdict(), ()
    if isinstance(row, tuple | list) and len(row) in TUPLES:
        return dict(zip(TUPLES[len(row)], row, strict=True)), TUPLES[len(row)]
    raise DataError(f"{place} is {kind_of(row)}; {ROW_KINDS}")


def iterate_rows(data: object, name: str) -> Iterable[object]:
    """The rows of a pandas or polars frame, a pyarrow table, a Hugging Face dataset, a dict of columns, or a list."""
    source: Any = data
    if hasattr(data, "to_pylist"):  # pyarrow
        return cast(Iterable[object], source.to_pylist())
    if is_frame(data):
        if len(set(source.columns)) < len(source.columns):
            raise DataError(f"{name} names a column more than once; give each column its own name")
        source = {str(column): source[column].to_list() for column in source.columns}
    elif hasattr(data, "column_names") and hasattr(data, "features"):  # a Hugging Face dataset
        return _dataset_rows(data)
    elif isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise DataError(f"{name} is {kind_of(data)}, but must be a list of rows, a frame or a dataset; {ROW_KINDS}")
    return _rows_of_columns(name, source) if isinstance(source, Mapping) else cast(Iterable[object], source)


def is_frame(data: object) -> bool:
    """Whether this is a pandas or polars frame."""
    # The length first: a lazy frame of polars has none, and warns when asked for its columns.
    return hasattr(data, "__len__") and hasattr(data, "columns") and hasattr(data, "to_dict")


def _rows_of_columns(name: str, columns: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    if any(isinstance(values, str | bytes) or not hasattr(values, "__len__") for values in columns.values()):
        raise DataError(f"{name}: the values of a dict must be columns, each a list of values")
    if len({len(values) for values in columns.values()}) > 1:
        raise DataError(f"the columns of {name} are not equally long")
    return (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))


def _dataset_rows(dataset: Any) -> Iterator[Mapping[str, object]]:
    """Rows with the names of ClassLabel columns in place of their numbers; -1 stands for no label."""
    names = {name: kind.names for name, kind in (dataset.features or {}).items() if hasattr(kind, "int2str")}
    for row in dataset:
        numbers: dict[str, Any] = {name: plain(row[name]) for name in names if isinstance(plain(row.get(name)), int)}
        labels = {name: NO_GOLD_LABEL if number < 0 else names[name][number] for name, number in numbers.items()}
        yield {**row, **labels}


def splits_of(rows: object, name: str) -> dict[str, object]:
    """The rows by role (data, validation, test) of a mapping of splits; those of other names are left out."""
    if not isinstance(rows, Mapping) or not any(str(key).lower() in PART_NAMES for key in rows):
        return {"data": rows}
    found: dict[str, object] = {}
    for key, given in rows.items():
        if part := PART_NAMES.get(str(key).lower()):
            if part in found:
                raise DataError(f"{name} has two splits for {part}: join them, or leave one out")
            found[part] = given
    if "train" not in found:
        raise DataError(f"{name} has no split called train, but {listed(map(str, rows))}; give the rows to learn from")
    return {"data": found.pop("train"), **found}


# Texts to predict on


@dataclass(frozen=True, slots=True)
class Input:
    """An example to predict on, all fields of its row, and which of these hold its texts."""

    example: Example
    fields: Mapping[str, object]  # none of a plain text
    text_columns: tuple[str | None, ...] = ()


def inputs_from_file(path: str | Path, columns: Columns = DEFAULT_COLUMNS) -> Iterator[Input]:
    """One input for each row of a file; a label or a reply is read where there is one."""
    path, found = Path(path), None
    columns = replace(columns, by=None, group=None, split=None)
    for line, values in read_rows(path, columns.encoding):
        found = found or columns.resolve(values, path.name, labelled=False)
        yield Input(example_of(values, found, where(path, line), labelled=False), values, (found.text, found.pair))


def inputs_from_arguments(texts: Sequence[str], task: str | None) -> list[Input]:
    """One input for each text, or for each two of them for a model of pairs."""
    checked = [check_text(text, f"text {number}") for number, text in enumerate(texts, 1)]
    if task != "pair":
        return [Input(Example(text), {}) for text in checked]
    if len(texts) % 2:
        raise SettingsError(f"this model reads pairs: give two texts for each answer, not {len(texts)} in all")
    return [Input(Example(first, second), {}) for first, second in zip(checked[::2], checked[1::2], strict=True)]


def inputs_from_lines(chunks: Iterable[list[bytes]], columns: Columns, task: str | None) -> Iterator[list[Input]]:
    """One input for each line of `line_chunks`: a JSON object, or a plain text (of a pair, two with a tab between)."""
    first = 1
    for lines in chunks:
        inputs = []
        for place, line in decode_lines(lines, columns.encoding, first):
            # Skipping an empty line would misalign the answers.
            check_text(line, place)
            value = parse_json(line, place) if line.startswith("{") else line
            inputs.append(input_of(value, task, place, columns))
        first += len(lines)
        yield inputs


def input_of(
    value: str | Mapping[str, object], task: str | None, place: str, columns: Columns = DEFAULT_COLUMNS
) -> Input:
    """The input in a plain text (of a pair, two with a tab between), or in an object with the usual fields."""
    if not isinstance(value, str):
        try:
            found = _resolve(columns, tuple(value))
        except DataError as error:
            raise DataError(f"{place}: {error}") from None
        return Input(example_of(value, found, place, labelled=False), value, (found.text, found.pair))
    check_text(value, place)
    if task != "pair":
        return Input(Example(value, where=place), {})
    first, _, second = value.partition("\t")
    if not (first.strip() and second.strip()):
        raise DataError(f"{place}: this model reads pairs; put a tab between the two texts")
    return Input(Example(first, second, where=place), {})


@lru_cache(maxsize=64)  # clients of a service send the same columns each time
def _resolve(columns: Columns, names: tuple[str, ...]) -> Columns:
    return replace(columns.resolve(names, "this row", labelled=False), label=None, reply=None)


def in_chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of at most `size` items, each as soon as it is full."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
