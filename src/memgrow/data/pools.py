"""Records gathered by domain and part from as many files as there are, before missing parts are drawn."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memgrow.data.filenames import domain_and_part
from memgrow.data.records import Record, Table
from memgrow.data.splits import PARTS
from memgrow.errors import DataError

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
