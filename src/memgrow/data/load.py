"""From files or rows in memory to a stream of domains: `load_stream`, `load_for_evaluation` and `load_rows`."""

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memgrow.data.disk import sha256_of
from memgrow.data.domain import PARTS, Domain, Example, Stream
from memgrow.data.files import check_file
from memgrow.data.remembered import read_test_files
from memgrow.data.rows import DEFAULT_COLUMNS, Columns, Record, Table, option, read_file, read_python_rows, splits_of
from memgrow.errors import DataError, SettingsError, counted, listed, was_or_were

T = TypeVar("T")
TEXT, PIECE = ".txt", 600  # a file of plain text, and the characters of it that are read together


def draw(
    examples: Sequence[T],
    groups: Sequence[str],
    fractions: Mapping[str, float] | Sequence[float] = (0.8, 0.1, 0.1),
    seed: int = 0,
) -> dict[str, tuple[T, ...]]:
    """Draw parts of about the sizes asked for, whole group by whole group; the order of the rows is irrelevant."""
    shares = dict(fractions) if isinstance(fractions, Mapping) else dict(zip(PARTS, fractions, strict=False))
    if len(shares) != len(fractions) or min(shares.values(), default=-1.0) < 0 or abs(sum(shares.values()) - 1) > 1e-9:
        raise SettingsError(f"cannot draw parts of {fractions}; give fractions for {', '.join(PARTS)} that add up to 1")
    drawn = {part: list[T]() for part in shares}
    for example, part in zip(examples, draw_groups(groups, shares, seed), strict=True):
        drawn[part].append(example)
    return {part: tuple(members) for part, members in drawn.items()}


def draw_groups(groups: Sequence[str], shares: Mapping[str, float], seed: int = 0) -> list[str]:
    """The part that each row is drawn for; rows of one group stay together."""
    if not groups:
        return []
    counts = Counter(groups)
    ordered = sorted(counts, key=lambda name: rank(seed, name))
    sizes = np.array([counts[name] for name in ordered])
    parts = [part for part, share in shares.items() if share]
    # The groups laid end to end, the parts along them: a group goes to the part that its middle lies in.
    borders = np.cumsum(np.array([shares[part] for part in parts]) * sizes.sum())[:-1]
    chosen = _fill_empty_parts(np.searchsorted(borders, np.cumsum(sizes) - sizes + sizes / 2), sizes, len(parts))
    part_of = {name: parts[number] for name, number in zip(ordered, chosen.tolist(), strict=True)}
    return [part_of[name] for name in groups]


def _fill_empty_parts(chosen: NDArray[np.int64], sizes: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """Give each empty part the smallest group of the part with most groups, as long as any has two."""
    for part in range(parts):
        counts = np.bincount(chosen, minlength=parts)
        giver = counts.argmax()
        if not counts[part] and counts[giver] > 1:
            members = np.flatnonzero(chosen == giver)
            chosen[members[sizes[members].argmin()]] = part
    return chosen


def rank(seed: int, name: str) -> bytes:
    """The place of a name in an order that looks random but is the same on every machine."""
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()


def fair_slice(examples: Sequence[Example], limit: int | None, seed: int = 0) -> tuple[Example, ...]:
    """At most `limit` of the examples, in their old order; which ones does not depend on that order."""
    if limit is not None and limit < 1:
        raise SettingsError(f"a limit of {limit} leaves no examples; give 1 or more")
    if limit is None or len(examples) <= limit:
        return tuple(examples)

    def place(index: int) -> bytes:
        one = examples[index]
        fields = (*one.texts, one.label or "", *(() if one.reply is None else (one.reply,)))
        return rank(seed, "\x1f".join(fields))

    kept = sorted(range(len(examples)), key=place)[:limit]
    return tuple(examples[index] for index in sorted(kept))


Paths = str | Path | Iterable[str | Path]

SHARE = 0.1  # of the training rows, for each part that is drawn from them
# What a file can be given as, and the parts that its split column may name then; other rows are left out.
ROLES = {"data": PARTS, "validation": ("validation",), "test": ("test",)}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A stream, and notices on how it was made for the user to see."""

    stream: Stream
    notices: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # the notices that must not be missed
    tests: Mapping[Path, bool] = field(default_factory=dict)  # files with test rows, and whether these were drawn


def load_stream(
    paths: Paths,
    *,
    columns: Columns = DEFAULT_COLUMNS,
    validation: Paths = (),
    test: Paths = (),
    domains: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    skip_empty: bool = False,
) -> Loaded:
    """Files as domains in three parts, one domain a file or by the column `columns.by`; missing parts are drawn."""
    roles = {"data": paths, "validation": validation, "test": test}
    given = [(path, role) for role, some in roles.items() for path in _each(some)]
    _check_files([path for path, _ in given])
    tables = [(read_file(path, columns, skip_empty), role) for path, role in given]
    return load_tables(tables, columns, domains=domains, limit=limit, seed=seed)


def load_rows(
    rows: object,
    name: str = "data",
    *,
    columns: Columns = DEFAULT_COLUMNS,
    validation: object = None,
    test: object = None,
    domains: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    skip_empty: bool = False,
) -> Loaded:
    """Rows, a frame, a dataset or a mapping of splits as the domain of that name, or by the column `columns.by`."""
    given = [*splits_of(rows, name).items(), ("validation", validation), ("test", test)]
    given = [(role, some) for role, some in given if some is not None]
    tables = [(read_python_rows(name, role, some, columns, skip_empty), role) for role, some in given]
    return load_tables(tables, columns, domains=domains, limit=limit, seed=seed)


def load_for_evaluation(
    paths: Paths,
    columns: Columns = DEFAULT_COLUMNS,
    domains: Sequence[str] | None = None,
    *,
    skip_empty: bool = False,
    limit: int | None = None,
    model: Path | None = None,
) -> Loaded:
    """Files as test parts, whatever their names say; of a file with a split column its test rows.

    A .txt file is a text without messages, which causal language models are watched on.

    Of a file that the model in the folder `model` has learned, the test rows that were drawn then; if it has changed
    since, these cannot be told from the others.
    """
    every = _each(paths)
    files, texts = [[path for path in every if (path.suffix == TEXT) == is_text] for is_text in (False, True)]
    if texts:
        rest = Loaded(Stream(()))
        if files:
            rest = load_for_evaluation(files, columns, domains, skip_empty=skip_empty, limit=limit, model=model)
        read = [Domain(path.stem, test=read_plain_text(path)[:limit]) for path in texts]
        return replace(rest, stream=Stream([*rest.stream, *read]))
    _check_files(files)
    noted = {path: one for path, one in (read_test_files(model) if model else {}).items() if one.drawn}
    known = {one.sha256: one for one in noted.values()}
    learned = {path: known[digest] for path in files if known and (digest := sha256_of(path)) in known}
    if changed := [path.name for path in files if path not in learned and path.absolute() in noted]:
        raise DataError(
            f"{listed(changed)} has changed since the model learned it, and may hold rows that the model was trained "
            "on: give a file of test rows under another name"
        )
    tables = [(read_file(path, columns, skip_empty), "test") for path in files if path not in learned]
    found = load_tables(tables, columns, domains=None if learned else domains, limit=limit, only_test=True)
    if not learned:
        return found
    stream, notices = list(found.stream), list(found.notices)
    for path, one in learned.items():
        again = load_stream(path, columns=one.columns, limit=one.limit, skip_empty=skip_empty)
        stream += [Domain(domain.name, test=domain.test) for domain in again.stream]
        notices.append(f"{path.name}: only its test rows are read, as the model has learned the others")
    whole = Stream(stream)
    return Loaded(Stream(whole[name] for name in _choose(whole.names, domains)), tuple(notices), found.warnings)


def read_plain_text(path: Path) -> tuple[Example, ...]:
    """A text in pieces of whole lines, of about `PIECE` characters: examples without a message."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as UTF-8 text ({error}): give another file") from error
    pieces = [""]
    for line in lines:
        if len(pieces[-1]) + len(line) > PIECE and pieces[-1]:
            pieces.append("")
        pieces[-1] += f"{line}\n"
    found = tuple(Example("", reply=piece) for piece in pieces if piece.strip())
    if not found:
        raise DataError(f"{path} is empty; give a text")
    return found


Groups = dict[tuple[str, str], list[Record]]  # by domain and part


def load_tables(
    tables: Sequence[tuple[Table, str]],
    columns: Columns,
    *,
    domains: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    only_test: bool = False,
) -> Loaded:
    """Tables, each with its role, as domains in three parts; missing parts are drawn unless `only_test`."""
    _refuse_two_kinds([table for table, _ in tables])
    warnings = [table.warning for table, _ in tables if table.warning is not None]
    notices = list(warnings)
    grouped = [(table, role, _group(table, role, notices)) for table, role in tables]
    own = [(table, groups) for table, role, groups in grouped if role == "data" or only_test]
    if columns.by is None:
        _refuse_same_part(own)
    names = dict.fromkeys(name for _, groups in own for name, _ in groups)
    merged: Groups = {}
    files: dict[tuple[str, str], dict[str, None]] = {}
    for number, (table, role, groups) in enumerate(grouped):
        if role != "data" and not only_test:
            groups = _match(table.name, groups, names, bool(columns.by), notices)
            grouped[number] = table, role, groups
        for key, records in groups.items():
            merged.setdefault(key, []).extend(records)
            files.setdefault(key, {})[table.name] = None
    made, drawn, drawn_tests = [], dict[str, list[str]](), set[str]()  # `drawn`: files by what was drawn from them
    for name in (chosen := _choose(names, domains)):
        parts = {part: merged.get((name, part), []) for part in PARTS}
        if not only_test:
            drawn_tests |= set() if parts["test"] else {name}
            for what, file in _draw_missing(name, parts, " and ".join(files.get((name, "train"), ())), columns, seed):
                drawn.setdefault(what, []).append(file)
        examples = {part: [one.example for one in records] for part, records in parts.items()}
        made.append(Domain(name, **{part: fair_slice(some, limit, seed) for part, some in examples.items()}))
    notices += [f"{what} {listed(dict.fromkeys(some))}" for what, some in drawn.items()]
    tests: dict[Path, bool] = {}
    for table, _, groups in grouped:
        trained = {name for name, part in groups if part == "train" and name in chosen}
        has_tests = any(part == "test" and name in chosen for name, part in groups)
        # What was drawn from several files cannot be drawn again from one.
        again = [name in drawn_tests and len(files[name, "train"]) == 1 for name in trained]
        is_drawn = not has_tests and again != [] and all(again)
        if table.path and (is_drawn or (has_tests and not trained & drawn_tests)):
            tests[table.path] = is_drawn
    return Loaded(Stream(made), tuple(dict.fromkeys(notices)), tuple(warnings), tests)


def _choose(names: Collection[str], wanted: Sequence[str] | None) -> list[str]:
    """The domains that are wanted, in that order; all of `names` if none are."""
    if unknown := [name for name in wanted or () if name not in names]:
        raise DataError(f"the data has no domain {listed(unknown)}; it has {listed(names)}")
    return [*(wanted or names)]


def _group(table: Table, role: str, notices: list[str]) -> Groups:
    """The records of a table by domain and part; a split column goes before the file's role and name."""
    usual = (table.part or "train") if role == "data" else role
    groups: Groups = {}
    for record in table.records:
        if record.part is None or record.part in ROLES[role]:
            groups.setdefault((record.by or table.domain, record.part or usual), []).append(record)
    notices += [f"{_left_out(count, reason)} of {table.name}" for reason, count in table.left_out.items()]
    parts, column = " and ".join(ROLES[role]), table.columns.split
    if not groups:
        raise DataError(f"{table.name} has no {parts} rows by its column {column!r}; see {option('split')}")
    if unused := len(table.records) - sum(map(len, groups.values())):
        notices.append(f"{_left_out(unused, f'of {table.name}')}: only its {parts} rows are used (column {column})")
    return groups


def _match(file: str, groups: Groups, names: Collection[str], by: bool, notices: list[str]) -> Groups:
    """A further file's groups under the names of the domains that there are; rows of other domains are left out."""
    if len(names) == 1 and not by:
        return {(name, part): records for name in names for (_, part), records in groups.items()}
    others = dict.fromkeys(name for name, _ in groups if name not in names)
    known = {key: records for key, records in groups.items() if key[0] in names}
    if not known:
        raise DataError(f"{file} is of the domain {listed(others)}, but the data has {listed(names)}; rename the file")
    if others:
        count = sum(map(len, groups.values())) - sum(map(len, known.values()))
        notices.append(f"{_left_out(count, f'of {file}')}, as the data has no domain {listed(others)}")
    return known


def _draw_missing(
    name: str, parts: dict[str, list[Record]], files: str, columns: Columns, seed: int
) -> Iterator[tuple[str, str]]:
    """Draw parts that are not given from the training rows; yields notices, each with what it is about."""
    records, missing = parts["train"], [part for part in ("validation", "test") if not parts[part]]
    if not (records and missing):
        return
    shares = {"train": 1 - SHARE * len(missing)} | dict.fromkeys(missing, SHARE)
    part_of = draw_groups([one.group for one in records], shares, seed)
    drawn = list(zip(records, part_of, strict=True))
    # A label's only rows stay in training, unless a part would be empty without them.
    known = {one.example.label for one, part in drawn if part == "train"}
    for part in missing:
        groups = {one.group for one, own in drawn if own == part}
        rare = {one.group for one, own in drawn if own == part and one.example.label not in known}
        if rare != groups:
            drawn = [(one, "train" if own == part and one.group in rare else own) for one, own in drawn]
    parts |= {part: [one for one, own in drawn if own == part] for part in shares}
    named = " and ".join(f"{part} ({SHARE:.0%})" for part in missing)
    by = f"by group {columns.group}" if columns.group else "by text"
    yield f"{named} {was_or_were(len(missing))} drawn {by} from", files
    if empty := [part for part in missing if not parts[part]]:
        yield f"too few different rows for {' and '.join(empty)} in", name


def _left_out(count: int, what: str) -> str:
    return f"{counted(count, 'row')} {what} {was_or_were(count)} left out"


def _each(paths: Paths) -> list[Path]:
    return [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]


def _check_files(paths: Sequence[Path]) -> None:
    """Refuse what cannot be read or is given twice, before anything is read."""
    if not paths:
        raise DataError("there is no file to read; give at least one")
    for path in paths:
        check_file(path)
    for real, count in Counter(map(os.path.realpath, paths)).items():
        if count > 1:
            raise DataError(f"{real} is given twice; give each file once")


def _refuse_same_part(several: Iterable[tuple[Table, Groups]]) -> None:
    """Refuse files with rows of the same part of one domain: often one is a copy, perhaps of test rows too."""
    first: dict[tuple[str, str], Table] = {}
    for table, groups in several:
        for name, part in groups:
            if (other := first.setdefault((name, part), table)) is not table:
                both = f"{other.name} and {table.name} both have {part} rows of the domain {name}"
                raise DataError(f"{both}: leave one out, rename it, or join them in one file")


def _refuse_two_kinds(tables: Sequence[Table]) -> None:
    """Refuse files of labels with files of replies, and of pairs with single texts."""
    for table in tables:
        if table.columns.kind != tables[0].columns.kind:
            one, other = (f"{each.name} has {each.columns.kind}" for each in (tables[0], table))
            raise DataError(f"{one}, but {other}; give files of one kind")
