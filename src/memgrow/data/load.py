"""From files to a stream of domains, with a sentence for everything that was decided on the way."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from memgrow.data.columns import BY_NAME, Columns
from memgrow.data.complete import complete
from memgrow.data.domain import Domain, Stream
from memgrow.data.pools import DATA, HELD_OUT, choose, gather, match, merge
from memgrow.data.records import Table, read_table
from memgrow.errors import DataError, SettingsError

Paths = str | Path | Iterable[str | Path]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A stream, and sentences on how it came about that its user should see."""

    stream: Stream
    notices: tuple[str, ...] = ()


def load_stream(
    paths: Paths,
    *,
    columns: Columns = BY_NAME,
    validation: Paths = (),
    test: Paths = (),
    held_out: Paths = (),
    domains: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    labelled: bool = True,
    skip_empty: bool = False,
) -> Loaded:
    """Files as domains in three parts, one domain a file or by a column; parts that are not given are drawn.

    Files with a column of replies make domains to be answered, others domains to be labelled. At most `limit` examples
    of each part are kept. A row with an empty text is an error, or left out if `skip_empty`.
    """
    if limit is not None and limit < 1:
        raise SettingsError(f"a limit of {limit} leaves no examples to learn from; give 1 or more")
    files = [(path, DATA) for path in _each(paths)]
    files += [(path, "validation") for path in _each(validation)]
    files += [(path, "test") for path in _each(test)]
    files += [(path, HELD_OUT) for path in _each(held_out)]
    tables = _read([path for path, _ in files], columns, labelled, skip_empty)
    gathered = [(gather(table, role), role) for table, (_, role) in zip(tables, files, strict=True)]
    data = merge(file.pools for file, role in gathered if role == DATA)
    matched = [file if role == DATA else match(file, data, bool(columns.by)) for file, role in gathered]
    pools = choose(merge(file.pools for file in matched), domains)
    completed = [complete(name, pool, columns.group, limit, seed) for name, pool in pools.items()]
    if labelled:
        for domain, _ in completed:
            _refuse_single_label(domain)
    notices = chain(*(file.notices for file in matched), *(notices for _, notices in completed))
    return Loaded(Stream(domain for domain, _ in completed), tuple(dict.fromkeys(notices)))


def load_for_evaluation(
    paths: Paths,
    columns: Columns = BY_NAME,
    domains: Sequence[str] | None = None,
    *,
    skip_empty: bool = False,
) -> Loaded:
    """Files as test parts, whatever they are called; of a file with a split column its test rows."""
    tables = _read(list(_each(paths)), columns, labelled=True, skip_empty=skip_empty)
    gathered = [gather(table, "test") for table in tables]
    pools = choose(merge(file.pools for file in gathered), domains)
    stream = Stream(
        Domain(name, test=tuple(record.example for record in pool.records["test"])) for name, pool in pools.items()
    )
    return Loaded(stream, tuple(chain(*(file.notices for file in gathered))))


def _each(paths: Paths) -> Iterable[Path]:
    return [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]


def _read(paths: Sequence[Path], columns: Columns, labelled: bool, skip_empty: bool) -> list[Table]:
    if not paths:
        raise DataError("there is no file to read; give at least one")
    resolved = [path.resolve() for path in paths]
    for path, real in zip(paths, resolved, strict=True):
        if resolved.count(real) > 1:
            raise DataError(f"{path} is given twice; give each file once, as one thing only")
    tables = [read_table(path, columns, labelled, skip_empty) for path in paths]
    for table in tables[1:]:
        _refuse_two_kinds(tables[0], table)
    return tables


def _refuse_two_kinds(one: Table, other: Table) -> None:
    if _kind(one.columns)[0] != _kind(other.columns)[0]:
        simple, more = sorted((one, other), key=lambda table: _kind(table.columns)[0])
        described = ", but ".join(f"{table.path.name} has {_kind(table.columns)[1]}" for table in (simple, more))
        raise DataError(f"{described}; give files of one kind")


def _kind(columns: Columns) -> tuple[int, str]:
    """What a file's rows are: a rank by which kinds are told apart, and words."""
    if columns.reply is not None:
        return 2, f"messages and replies (columns {columns.text} and {columns.reply})"
    if columns.pair is not None:
        return 1, f"pairs (columns {columns.text} and {columns.pair})"
    return 0, f"single texts (column {columns.text})"


def _refuse_single_label(domain: Domain) -> None:
    if domain.train and len(domain.labels) == 1:
        raise DataError(
            f"all {len(domain.train):,} training examples of the domain {domain.name} have the label "
            f"{domain.labels[0]} (the first is {domain.train[0].where}); give examples of at least two labels"
        )
