"""Rows of files grouped by domain and part, and files of further parts matched with the domains that there are."""

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from memgrow.data.records import TableReader
from memgrow.data.rows import Positions, Rows
from memgrow.data.splits import PARTS
from memgrow.errors import DataError, counted, listed, was_or_were

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
    """The positions of one domain's rows by part, and for each part the names of the files they came from."""

    rows: dict[str, "array[int]"] = field(default_factory=lambda: {part: array("q") for part in (*PARTS, HELD_OUT)})
    files: dict[str, list[str]] = field(default_factory=lambda: {part: [] for part in (*PARTS, HELD_OUT)})

    def add(self, part: str, rows: Iterable[int], files: Iterable[str]) -> None:
        self.rows[part].extend(rows)
        self.files[part].extend(file for file in files if file not in self.files[part])

    def positions(self, part: str) -> Positions:
        return np.array(self.rows[part], dtype=np.int64)


Pools = Mapping[str, Pool]


@dataclass(frozen=True, slots=True)
class Grouped:
    """The pools of one file by domain, in order of appearance, and what its user should know of it."""

    file: str
    role: str
    pools: Pools
    notices: tuple[str, ...]
    warnings: tuple[str, ...] = ()  # those of the notices that nobody should miss


def read_by_domain(table: TableReader, role: str, rows: Rows) -> tuple[dict[str, Pool], int]:
    """Read a file and group its rows by domain and part; a split column goes before the file's role and name.

    Also returns the number of rows that the role has no use for.
    """
    domain, part = table.domain_and_part
    usual = (part or "train") if role == DATA else role
    pools: dict[str, Pool] = {}
    unfit = 0
    for record in table:
        if record.part is None or record.part in ROLES[role]:
            pool = pools.get(name := record.by or domain) or pools.setdefault(name, Pool())
            pool.rows[record.part or usual].append(rows.append(record))
        else:
            unfit += 1
    for pool in pools.values():
        for part, some in pool.rows.items():
            pool.files[part] += [table.name] if some else []
    return pools, unfit


def told(table: TableReader, role: str, pools: Pools, unfit: int) -> Grouped:
    """The pools of a file with notices of what was left out of it; a file of which nothing is left is refused."""
    file, parts = table.name, " and ".join(ROLES[role])
    warnings = _unread_labels(table)
    notices = [*warnings, *(f"{_left_out(count, reason)} of {file}" for reason, count in table.left_out.items())]
    if not pools:
        raise DataError(
            f"{file} has no rows for {parts}: the field {table.columns.split!r} of all its {unfit:,} rows says "
            f"otherwise; give other rows, or name another column with {table.options['split']}"
        )
    if unfit:
        reason = f"as only its {parts} rows are wanted (by its column {table.columns.split})"
        notices.append(f"{_left_out(unfit, f'of {file}')}, {reason}")
    return Grouped(file, role, pools, tuple(notices), warnings)


def refuse_same_part(several: Iterable[Grouped]) -> None:
    """Refuse files that have rows of the same part of one domain, such as books.jsonl beside books_train.jsonl.

    Often one of them is a copy, whole or in part, of the other, and perhaps of the rows for testing too.
    """
    first: dict[tuple[str, str], str] = {}
    for file in several:
        for name, pool in file.pools.items():
            for part in (part for part, rows in pool.rows.items() if rows):
                if (other := first.setdefault((name, part), file.file)) != file.file:
                    raise DataError(
                        f"{other} and {file.file} both have {part} rows of the domain {name}: leave one of them out, "
                        "rename it, or join them in one file if no row is in both"
                    )


def merge(several: Iterable[Pools]) -> dict[str, Pool]:
    """One new pool for each domain, in order of first appearance."""
    merged: dict[str, Pool] = {}
    for pools in several:
        for name, pool in pools.items():
            for part, rows in pool.rows.items():
                merged.setdefault(name, Pool()).add(part, rows, pool.files[part])
    return merged


def choose(pools: Pools, names: Sequence[str] | None) -> dict[str, Pool]:
    """The domains named, in that order; all if none are named."""
    unknown = [name for name in names or () if name not in pools]
    if unknown:
        raise DataError(
            f"there is no domain {listed(unknown)} in the data; there is {listed(pools)}: choose among these"
        )
    return {name: pools[name] for name in names or pools}


def match_domains(grouped: Grouped, names: Collection[str], by: bool) -> Grouped:
    """A further file's pools under the names of the domains that there are; rows of other domains are left out."""
    if len(names) == 1 and not by:
        (pool,) = grouped.pools.values()
        return replace(grouped, pools=dict.fromkeys(names, pool))
    known = {name: pool for name, pool in grouped.pools.items() if name in names}
    strange = {name: pool for name, pool in grouped.pools.items() if name not in names}
    if not known:
        advice = "give a file of one of these" if by else "call the file after its domain, as in DOMAIN_test.jsonl"
        raise DataError(
            f"{grouped.file} is of the domain {listed(strange)}, but the data has {listed(names)}; {advice}"
        )
    rows = sum(len(some) for pool in strange.values() for some in pool.rows.values())
    notice = f"{_left_out(rows, f'of {grouped.file}')}, as the data has no domain {listed(strange)}"
    return replace(grouped, pools=known, notices=(*grouped.notices, *([notice] if strange else [])))


def _unread_labels(table: TableReader) -> tuple[str, ...]:
    """What to say of labels beside messages and replies that nobody has named: they may be what is to be learnt."""
    if table.unread_label is None:
        return ()
    columns, options = table.columns, table.options
    return (
        f"the labels of {table.name} (column {table.unread_label}) are not read, as its columns {columns.text} and "
        f"{columns.reply} are taken for messages and replies: to learn the labels, name them with {options['label']} "
        f"and their text with {options['text']} (and {options['pair']} for a second text)",
    )


def _left_out(count: int, what: str) -> str:
    """1 row of ... was left out, 12 rows of ... were left out."""
    return f"{counted(count, 'row')} {what} {was_or_were(count)} left out"
