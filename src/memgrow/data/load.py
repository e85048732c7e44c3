"""From files to a stream of domains, with a sentence for everything that was decided on the way."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from memgrow.data.columns import BY_NAME, Columns
from memgrow.data.domain import Domain, Stream
from memgrow.data.files import domain_and_part
from memgrow.data.records import Record, Table, read_table
from memgrow.data.splits import PARTS, draw, fair_slice
from memgrow.errors import DataError, SettingsError


def refuse_namesakes(paths: Sequence[Path], by: str | None) -> None:
    """A domain is called after its file, unless a column names it: then files may well be called the same."""
    first: dict[tuple[str, str | None], Path] = {}
    for path in paths:
        called = domain_and_part(path)
        if by is None and called in first:
            raise DataError(
                f"{first[called]} and {path} would both be the domain {called[0]}: rename one of them, "
                "or join them in one file if they are one domain"
            )
        first[called] = path


DATA = "data"
HELD_OUT = "held-out"  # to be halved into validation and test

# What a file can be given as, and for which parts its rows may then be used where it has a split column.
ROLES: dict[str, tuple[str, ...]] = {
    DATA: PARTS,
    "validation": ("validation",),
    "test": ("test",),
    HELD_OUT: ("validation", "test"),
}


@dataclass(slots=True)
class Pool:
    """What is known of one domain: its records by part, and for each part the names of the files they came from."""

    records: dict[str, list[Record]] = field(default_factory=lambda: {part: [] for part in (*PARTS, HELD_OUT)})
    files: dict[str, list[str]] = field(default_factory=lambda: {part: [] for part in (*PARTS, HELD_OUT)})

    def add(self, part: str, records: Iterable[Record], files: Iterable[str]) -> None:
        self.records[part].extend(records)
        self.files[part].extend(file for file in files if file not in self.files[part])


Pools = Mapping[str, Pool]


@dataclass(frozen=True, slots=True)
class Gathered:
    """The pools of one file by domain, in order of appearance, and what its user should know of it."""

    file: str
    pools: Pools
    notices: tuple[str, ...]


def gather(table: Table, role: str) -> Gathered:
    """Lay out one file by domain and part; a split column goes before the file's role and name."""
    domain, part = domain_and_part(table.path)
    usual = (part or "train") if role == DATA else role
    file = table.path.name
    notices = [f"{_rows(count, reason)} of {file}" for reason, count in table.left_out.items()]
    pools: dict[str, Pool] = {}
    unfit = 0
    for record in table.records:
        if record.part is None or record.part in ROLES[role]:
            pools.setdefault(record.by or domain, Pool()).add(record.part or usual, [record], [file])
        else:
            unfit += 1
    parts = " and ".join(ROLES[role])
    if unfit == len(table.records):
        raise DataError(
            f"{file} has no rows for {parts}: the field {table.columns.split!r} of all its {unfit:,} rows says "
            "otherwise; give another file, or name another column with --split-column"
        )
    if unfit:
        notices.append(
            f"{_rows(unfit, f'of {file}')}, as only its {parts} rows are wanted (by its column {table.columns.split})"
        )
    return Gathered(file, pools, tuple(notices))


def merge(several: Iterable[Pools]) -> dict[str, Pool]:
    """One new pool for each domain, in order of first appearance."""
    merged: dict[str, Pool] = {}
    for pools in several:
        for name, pool in pools.items():
            for part, records in pool.records.items():
                merged.setdefault(name, Pool()).add(part, records, pool.files[part])
    return merged


def choose(pools: Pools, names: Sequence[str] | None) -> dict[str, Pool]:
    """The domains named, in that order; all if none are named."""
    unknown = [name for name in names or () if name not in pools]
    if unknown:
        raise DataError(
            f"there is no domain {', '.join(unknown)} in the data; there is {', '.join(pools)}: choose among these"
        )
    return {name: pools[name] for name in names or pools}


def match(gathered: Gathered, pools: Pools, by: bool) -> Gathered:
    """A further file's pools under the names of the domains that there are; rows of other domains are left out."""
    if len(pools) == 1 and not by:
        (pool,) = gathered.pools.values()
        return replace(gathered, pools=dict.fromkeys(pools, pool))
    known = {name: pool for name, pool in gathered.pools.items() if name in pools}
    strange = {name: pool for name, pool in gathered.pools.items() if name not in pools}
    if not known:
        advice = "give a file of one of these" if by else "call the file after its domain, as in DOMAIN_test.jsonl"
        raise DataError(
            f"{gathered.file} is of the domain {', '.join(strange)}, but the data has {', '.join(pools)}; {advice}"
        )
    rows = sum(len(records) for pool in strange.values() for records in pool.records.values())
    notice = f"{_rows(rows, f'of {gathered.file}')}, as the data has no domain {', '.join(strange)}"
    return replace(gathered, pools=known, notices=(*gathered.notices, *([notice] if strange else [])))


def _rows(count: int, what: str) -> str:
    """A count that agrees with its verb: 1 row of ... was left out, 12 rows of ... were left out."""
    return f"{count:,} {'row' if count == 1 else 'rows'} {what} {'was' if count == 1 else 'were'} left out"


SHARE = 0.1  # of the rows for training, for each part that has to be drawn from them


def complete(
    name: str, pool: Pool, group: str | None = None, limit: int | None = None, seed: int = 0
) -> tuple[Domain, tuple[str, ...]]:
    """The domain in three parts, each of at most `limit` examples, and what its user should know of the drawing."""
    parts = {part: list(pool.records[part]) for part in PARTS}
    notices = []
    by = f"by group {group}" if group else "by text"
    if pool.records[HELD_OUT]:
        halves = _draw(pool.records[HELD_OUT], {"validation": 0.5, "test": 0.5}, seed)
        for part, records in halves.items():
            parts[part] += records
        notices.append(f"validation and test are each half of {_list(pool.files[HELD_OUT])}, drawn {by}")
    missing = [part for part in PARTS if not parts[part] and part != "train"]
    if parts["train"] and missing:
        shares = {"train": 1 - SHARE * len(missing)} | dict.fromkeys(missing, SHARE)
        parts |= _draw(parts["train"], shares, seed)
        drawn = " and ".join(f"{part} ({SHARE:.0%})" for part in missing)
        were = "were" if len(missing) > 1 else "was"
        notices.append(f"{drawn} {were} drawn from {_list(pool.files['train'])} {by}")
        empty = [part for part in missing if not parts[part]]
        if empty:
            notices.append(
                f"{name} has no {' and no '.join(empty)} part, as there are too few different rows to draw from"
            )
    kept = {part: fair_slice([record.example for record in records], limit, seed) for part, records in parts.items()}
    return Domain(name, **kept), tuple(notices)


def _draw(records: Sequence[Record], shares: dict[str, float], seed: int) -> dict[str, list[Record]]:
    drawn = draw(records, [record.group for record in records], shares, seed)
    return {part: list(members) for part, members in drawn.items()}


def _list(files: Sequence[str]) -> str:
    return " and ".join(files)


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
