"""From files to a stream of domains, with a sentence for everything that was decided on the way.

The names of the files are checked first, so that no long file is read for a mistake in a name. Then the rows of each
file are grouped by domain, files that hold a further part are matched with the domains there are, and the parts that
nobody gave are drawn.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from memgrow.data.by_domain import (
    DATA,
    HELD_OUT,
    Grouped,
    Pool,
    choose,
    match_domains,
    merge,
    read_by_domain,
    refuse_same_part,
    told,
)
from memgrow.data.columns import BY_NAME, Columns
from memgrow.data.domain import Domain, Stream
from memgrow.data.files import check_file, domain_and_part, formats_of
from memgrow.data.records import TableReader
from memgrow.data.rows import Positions, Rows
from memgrow.data.splits import PARTS, draw_by_rank, fair_slice
from memgrow.errors import DataError, SettingsError, listed, was_or_were

Paths = str | Path | Iterable[str | Path]

SHARE = 0.1  # of the rows for training, for each part that has to be drawn from them


@dataclass(frozen=True, slots=True)
class Loaded:
    """A stream, and sentences on how it came about that its user should see."""

    stream: Stream
    notices: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # those of the notices that nobody should miss


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
    beside: Paths = (),
) -> Loaded:
    """Files as domains in three parts, one domain a file or by a column; parts that are not given are drawn.

    Files with a column of replies make domains to be answered, others domains to be labelled. At most `limit` examples
    of each part are kept. A row with an empty text is an error, or left out if `skip_empty`. A delimiter or an encoding
    is for those files that have a use for it; there must be one, here or among those that are read `beside`.
    """
    check_limit(limit)
    given = {DATA: _each(paths), "validation": _each(validation), "test": _each(test), HELD_OUT: _each(held_out)}
    files = [(path, role) for role, some in given.items() for path in some]
    _check_files([path for path, _ in files])
    check_duplicate_domains(given[DATA], columns.by)
    each = _columns_of_each([path for path, _ in files], columns, beside)
    tables = [(TableReader(path, each[path], labelled, skip_empty), role) for path, role in files]
    return load_tables(tables, columns, domains, limit, seed)


def load_tables(
    tables: Sequence[tuple[TableReader, str]],
    columns: Columns,
    domains: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> Loaded:
    """Tables of rows, each with its role, as domains in three parts: those that are not given are drawn."""
    rows = Rows(seed)
    grouped = _read(tables, rows)
    if columns.by is None:
        refuse_same_part([file for file in grouped if file.role == DATA])
    names = dict.fromkeys(name for file in grouped if file.role == DATA for name in file.pools)
    matched = [file if file.role == DATA else match_domains(file, names, bool(columns.by)) for file in grouped]
    pools = choose(merge(file.pools for file in matched), domains)
    filled = [fill_missing_splits(name, pool, rows, columns.group, limit, seed) for name, pool in pools.items()]
    notices = chain(
        _unused_names(columns, [table for table, _ in tables]),
        *(file.notices for file in matched),
        *(notices for _, notices in filled),
    )
    return Loaded(Stream(domain for domain, _ in filled), tuple(dict.fromkeys(notices)), _warnings(matched))


def load_for_evaluation(
    paths: Paths,
    columns: Columns = BY_NAME,
    domains: Sequence[str] | None = None,
    *,
    skip_empty: bool = False,
    beside: Paths = (),
) -> Loaded:
    """Files as test parts, whatever they are called; of a file with a split column its test rows.

    `beside` is as for `load_stream`.
    """
    files = _each(paths)
    _check_files(files)
    check_duplicate_domains(files, columns.by, part="test")
    rows = Rows()
    each = _columns_of_each(files, columns, beside)
    grouped = _read([(TableReader(path, each[path], True, skip_empty), "test") for path in files], rows)
    pools = choose(merge(file.pools for file in grouped), domains)
    stream = Stream(Domain(name, test=rows.take(pool.positions("test"))) for name, pool in pools.items())
    return Loaded(stream, tuple(chain(*(file.notices for file in grouped))), _warnings(grouped))


def _warnings(several: Iterable[Grouped]) -> tuple[str, ...]:
    return tuple(chain(*(file.warnings for file in several)))


def _unused_names(columns: Columns, tables: Sequence[TableReader]) -> list[str]:
    """What to say of labels that were to have another name, and that no row has."""
    unused = [name for name in columns.label_names if not any(name in table.renamed for table in tables)]
    return [f"no row has the label {listed(unused)}, for which there is another name"] if unused else []


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise SettingsError(f"a limit of {limit} leaves no examples to learn from; give 1 or more")


def check_duplicate_domains(paths: Iterable[Path], by: str | None, part: str | None = None) -> None:
    """Refuse files of one name in different folders, which would become one domain without a word.

    With a `part`, all are of that one, whatever their names say: then also files of other parts of one domain.
    Where a column (`by`) names the domains, files may well be called the same.
    """
    first: dict[tuple[str, str | None], Path] = {}
    for path in paths:
        domain, own = domain_and_part(path)
        called = domain, part or own
        if by is None and called in first:
            raise DataError(
                f"{first[called]} and {path} would both be the domain {called[0]}: rename one of them, "
                "or join them in one file if they are one domain"
            )
        first[called] = path


def fill_missing_splits(
    name: str, pool: Pool, rows: Rows, group: str | None = None, limit: int | None = None, seed: int = 0
) -> tuple[Domain, tuple[str, ...]]:
    """The domain in three parts, each of at most `limit` examples, and what its user should know of the drawing.

    Held-out rows are halved into validation and test; a part that nobody gave is drawn from the rows for training.
    """
    parts = {part: pool.positions(part) for part in PARTS}
    notices = []
    by = f"by group {group}" if group else "by text"
    if pool.rows[HELD_OUT]:
        for part, drawn in _draw(pool.positions(HELD_OUT), {"validation": 0.5, "test": 0.5}, rows).items():
            parts[part] = np.concatenate((parts[part], drawn))
        notices.append(f"validation and test are each half of {' and '.join(pool.files[HELD_OUT])}, drawn {by}")
    missing = [part for part in PARTS if not len(parts[part]) and part != "train"]
    if len(parts["train"]) and missing:
        shares = {"train": 1 - SHARE * len(missing)} | dict.fromkeys(missing, SHARE)
        parts |= _draw(parts["train"], shares, rows)
        drawn_parts = " and ".join(f"{part} ({SHARE:.0%})" for part in missing)
        source = " and ".join(pool.files["train"])
        notices.append(f"{drawn_parts} {was_or_were(len(missing))} drawn from {source} {by}")
        empty = [part for part in missing if not len(parts[part])]
        if empty:
            notices.append(
                f"{name} has no {' and no '.join(empty)} part, as there are too few different rows to draw from"
            )
    kept = {part: fair_slice(rows.take(positions), limit, seed) for part, positions in parts.items()}
    return Domain(name, **kept), tuple(notices)


def _draw(positions: Positions, shares: dict[str, float], rows: Rows) -> dict[str, Positions]:
    drawn = draw_by_rank(rows.ranks(positions), shares)
    return {part: positions[drawn == number] for number, part in enumerate(shares)}


def _each(paths: Paths) -> list[Path]:
    return [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]


def _columns_of_each(files: Sequence[Path], columns: Columns, beside: Paths) -> dict[Path, Columns]:
    """The columns of each file with what is said of its format, as far as that is for such a file."""
    formats = formats_of([*files, *_each(beside)], columns.file_format)[: len(files)]
    return {path: replace(columns, file_format=one) for path, one in zip(files, formats, strict=True)}


def _check_files(paths: Sequence[Path]) -> None:
    """Refuse what cannot be read or is given twice, before anything is read."""
    if not paths:
        raise DataError("there is no file to read; give at least one")
    resolved = []
    for path in paths:
        check_file(path)
        resolved.append(os.path.realpath(path))
    for path, real in zip(paths, resolved, strict=True):
        if resolved.count(real) > 1:
            raise DataError(f"{path} is given twice; give each file once, as one thing only")


def _read(given: Sequence[tuple[TableReader, str]], rows: Rows) -> list[Grouped]:
    tables, roles = [table for table, _ in given], [role for _, role in given]
    found = [read_by_domain(table, role, rows) for table, role in given]
    for table in tables[1:]:
        _refuse_two_kinds(tables[0], table)
    return [told(table, role, *pools) for table, role, pools in zip(tables, roles, found, strict=True)]


def _refuse_two_kinds(one: TableReader, other: TableReader) -> None:
    if _kind(one.columns)[0] != _kind(other.columns)[0]:
        simple, more = sorted((one, other), key=lambda table: _kind(table.columns)[0])
        described = ", but ".join(f"{table.name} has {_kind(table.columns)[1]}" for table in (simple, more))
        raise DataError(f"{described}; give files of one kind")


def _kind(columns: Columns) -> tuple[int, str]:
    """The kind of a file's rows: a rank by which kinds are told apart, and words."""
    if columns.reply is not None:
        return 2, f"messages and replies (columns {columns.text} and {columns.reply})"
    if columns.pair is not None:
        return 1, f"pairs (columns {columns.text} and {columns.pair})"
    return 0, f"single texts (column {columns.text})"
