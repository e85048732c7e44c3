"""Rows that Python holds as domains: dictionaries, tuples, frames of pandas and polars, Hugging Face datasets.

Nothing of these libraries is imported: a frame is known by its columns, a dataset by the names of its columns. What is
read goes the way of the rows of files, so that the same checks hold and missing parts are drawn alike.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from memgrow.data.by_domain import DATA, HELD_OUT
from memgrow.data.columns import ARGUMENTS, BY_NAME, Columns
from memgrow.data.domain import Domain, check_name
from memgrow.data.example import Example
from memgrow.data.formats import Row
from memgrow.data.load import Loaded, check_limit, load_tables
from memgrow.data.records import NO_GOLD_LABEL, TableReader
from memgrow.data.splits import PART_NAMES
from memgrow.data.values import kind_of, plain
from memgrow.errors import DataError, SettingsError, listed
from memgrow.progress import NoProgress, warn

ROLES = ("text", "pair", "label", "reply", "by", "group", "split", "labels")
TUPLES = {2: ("text", "label"), 3: ("text", "pair", "label")}
LOOKS_LIKE = "a row is a dictionary, a tuple (text, label) or (text, pair, label), or an Example"


class RowOptions(TypedDict, total=False):
    """The options of `Domain.from_rows` and its siblings: columns, rows of further parts, and what is kept."""

    text: str
    pair: str
    label: str
    reply: str
    group: str
    split: str
    labels: Mapping[object, str]
    validation: object
    test: object
    held_out: object
    limit: int | None
    seed: int
    skip_empty: bool


def load_rows(
    rows: object,
    name: str = "data",
    *,
    columns: Columns = BY_NAME,
    validation: object = None,
    test: object = None,
    held_out: object = None,
    domains: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    skip_empty: bool = False,
) -> Loaded:
    """Rows, a frame or a dataset as the domain of that name, or as one for each value of the column `columns.by`.

    A mapping of splits (train, validation, test) has its parts; others are drawn, as `load_stream` does for files.
    """
    check_limit(limit)
    check_name(name)
    parts, notices = _splits(rows, name)
    for role, given in (("validation", validation), ("test", test), (HELD_OUT, held_out)):
        parts += [] if given is None else [(role, given)]
    tables = [(_RowsReader(name, role, given, columns, skip_empty), role) for role, given in parts]
    loaded = load_tables(tables, columns, domains, limit, seed)
    return replace(loaded, notices=(*notices, *loaded.notices))


def domain_of_rows(name: str, rows: object, options: RowOptions) -> Domain:
    """The domain that rows make with the options of `Domain.from_rows`."""
    if strange := options.keys() - RowOptions.__annotations__.keys():
        raise SettingsError(
            f"there is no option {listed(sorted(strange))}; there are {', '.join(RowOptions.__annotations__)}"
        )
    named: dict[str, Any] = {role: options[role] for role in ROLES if role in options}  # type: ignore[literal-required]
    others: dict[str, Any] = {option: value for option, value in options.items() if option not in named}
    loaded = load_rows(rows, name, columns=Columns(**named), **others)
    for sentence in loaded.warnings:  # the caller gets the domain alone, and so would see no notice
        warn(NoProgress(), sentence)
    return loaded.stream[name]


def check_frame(frame: object) -> None:
    """Refuse what is no frame."""
    if not is_frame(frame):
        raise DataError(
            f"a pandas or polars frame is asked for, but this is {kind_of(frame)}; Domain.from_rows takes rows"
        )


def check_dataset(dataset: object) -> None:
    """Refuse what is neither a dataset nor a mapping of them by split."""
    every = dataset.values() if isinstance(dataset, Mapping) else [dataset]
    if not all(map(_is_dataset, every)):
        raise DataError(
            f"a Dataset or DatasetDict is asked for, but this is {kind_of(dataset)}; Domain.from_rows takes rows, and "
            "Domain.from_pandas frames"
        )


def rows_of(data: object, what: str) -> Iterator[Mapping[str, object] | Example | tuple[object, ...]]:
    """The rows of a frame, a dataset, a mapping of columns, or of anything that gives one after another."""
    if callable(to_rows := getattr(data, "to_pylist", None)):  # a table of pyarrow
        yield from to_rows()
    elif is_frame(data):
        yield from _of_columns(what, {str(name): _listed(data[name], what, name) for name in data.columns})  # type: ignore[index, attr-defined]
    elif isinstance(data, Mapping):
        yield from _of_columns(what, {str(name): _listed(values, what, name) for name, values in data.items()})
    elif _is_dataset(data):
        yield from _with_names(data)
    elif isinstance(data, str | bytes) or not isinstance(data, Iterable):
        lazy = ": call its collect() first" if hasattr(data, "collect") else f"; {LOOKS_LIKE}"
        raise DataError(f"{what} is {kind_of(data)}, but must be a list of rows, a frame or a dataset{lazy}")
    else:
        yield from data


class _RowsReader(TableReader):
    """Reads rows that Python holds as those of a file are read."""

    options = ARGUMENTS

    def __init__(self, name: str, role: str, rows: object, columns: Columns, skip_empty: bool) -> None:
        called = name if role == DATA else f"the {role} rows of {name}"
        super().__init__(Path(called), columns, skip_empty=skip_empty)
        self._domain, self._called, self._given = name, called, rows
        self._places: dict[int, str] = {}

    @property
    def name(self) -> str:
        return self._called

    @property
    def domain_and_part(self) -> tuple[str, str | None]:
        return self._domain, None

    def place(self, line: int) -> str:
        return self._places.pop(line, f"{self._called}, row {line}")

    def rows(self) -> Iterator[Row]:
        number, shape = 0, None
        for number, given in enumerate(rows_of(self._given, self._called), 1):
            if isinstance(given, Example) and given.where:
                self._places[number] = given.where
            values, roles = self._values(given, number)
            if number == 1 and roles:
                named: dict[str, Any] = {role: role for role in roles}
                self.columns = replace(self.columns, **named)
            if number > 1 and roles != shape:
                raise DataError(
                    f"{self.place(number)} is of another kind than the row before it; give rows of one kind"
                )
            shape = roles
            yield Row(number, values, number)
        if not number:
            raise DataError(f"{self._called} is empty: it has no rows; give at least one")

    def _values(self, given: object, number: int) -> tuple[Mapping[str, object], tuple[str, ...]]:
        """The fields of a row by column; and, where the row has no columns, what the fields are."""
        roles: tuple[str, ...] = ()
        if isinstance(given, Mapping):
            return given, roles
        if isinstance(given, Example):
            second = ("label",) if given.reply is None else ("reply",)
            roles = ("text", *(second if given.pair is None else ("pair", "label")))
            return {role: getattr(given, role) for role in roles}, roles
        if callable(fields := getattr(given, "_asdict", None)):  # a named tuple
            return fields(), roles
        if isinstance(given, tuple | list) and len(given) in TUPLES:
            roles = TUPLES[len(given)]
            return dict(zip(roles, given, strict=True)), roles
        count = f" of {len(given)}" if isinstance(given, tuple | list) else ""
        raise DataError(f"{self.place(number)} is {kind_of(given)}{count}; {LOOKS_LIKE}")


def _splits(rows: object, name: str) -> tuple[list[tuple[str, object]], list[str]]:
    """The rows with their role, or those of a mapping of splits with theirs; and what was left out of it."""
    if not isinstance(rows, Mapping) or not any(_part(key) for key in rows):
        return [(DATA, rows)], []
    called: dict[str, object] = {}
    for key in rows:
        if (part := _part(key)) and called.setdefault(part, key) != key:
            raise DataError(f"{name} has two splits for {part}, {called[part]} and {key}: join them, or leave one out")
    found = {part: rows[key] for part, key in called.items()}
    if "train" not in found:
        raise DataError(f"{name} has no split called train, but {listed(map(str, rows))}; give the rows to learn from")
    others = [str(key) for key in rows if not _part(key)]
    notices = [f"{name}: the split {listed(others)} was left out, as it is called neither train, validation nor test"]
    return [(DATA if part == "train" else part, given) for part, given in found.items()], notices if others else []


def _part(key: object) -> str | None:
    return PART_NAMES.get(str(key).lower())


def is_frame(data: object) -> bool:
    """Whether this is a frame, whoever made it: it has columns by name, and rows that can be counted."""
    # Its length first: a lazy frame has none, and warns whoever asks for its columns.
    counted = hasattr(data, "__len__") and hasattr(data, "__getitem__") and hasattr(data, "columns")
    known = counted and any(hasattr(data, name) for name in ("__dataframe__", "iterrows", "iter_rows"))
    return known and not hasattr(data, "to_pylist")  # a table of pyarrow: its columns are values, not names


def _is_dataset(data: object) -> bool:
    return hasattr(data, "column_names") and hasattr(data, "features") and isinstance(data, Iterable)


def _listed(column: Any, what: str, name: object) -> list[object]:
    """The values of a column as a list."""
    if is_frame(column):
        raise DataError(f"{what} names the column {name} more than once; give each column its own name")
    for method in ("to_list", "tolist"):
        if callable(found := getattr(column, method, None)):
            values: list[object] = found()
            return values
    if isinstance(column, str | bytes) or not isinstance(column, Iterable):
        raise DataError(
            f"the field {name!r} of {what} is {kind_of(column)}; of a single mapping each field must be a list of "
            "values, one for each row"
        )
    return list(column)


def _of_columns(what: str, columns: Mapping[str, list[object]]) -> Iterator[dict[str, object]]:
    sizes = {len(values) for values in columns.values()}
    if len(sizes) > 1:
        raise DataError(f"the columns of {what} are not equally long ({listed(map(str, sorted(sizes)))} values)")
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _with_names(dataset: Any) -> Iterator[Mapping[str, object]]:
    """The rows of a dataset, with the names of labels that are numbers; -1 stands for no label in such a column."""
    names = {column: list(found) for column, feature in (dataset.features or {}).items() if (found := _names(feature))}
    for row in dataset:
        yield {**row, **{column: _name(row[column], known) for column, known in names.items() if column in row}}


def _names(feature: object) -> Sequence[str] | None:
    return getattr(feature, "names", None) if hasattr(feature, "int2str") else None


def _name(value: object, names: Sequence[str]) -> object:
    value = plain(value)  # of a dataset in the format of numpy or torch
    if not isinstance(value, int):
        return value
    return names[value] if 0 <= value < len(names) else NO_GOLD_LABEL if value == -1 else value
