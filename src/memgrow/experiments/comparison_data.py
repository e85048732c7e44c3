"""The stream of a comparison: a corpus by name, a folder, or files; refused before hours are spent on it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from memgrow.admission import admit
from memgrow.data import Columns, Loaded, Stream, load_stream
from memgrow.data.corpora import CORPORA, open_corpus
from memgrow.data.splits import fair_slice
from memgrow.errors import DataError, SettingsError
from memgrow.methods import find_method
from memgrow.methods.distilling import Distilling
from memgrow.namesakes import refuse_namesakes


def open_stream(
    given: Sequence[str],
    *,
    columns: Columns,
    validation: Sequence[Path] = (),
    test: Sequence[Path] = (),
    held_out: Sequence[Path] = (),
    domains: Sequence[str] | None = None,
    limit: int | None = None,
    skip_empty: bool = False,
) -> Loaded:
    """What was named, as `adapt` would read it: with a `limit`, at most so many examples of each part."""
    if any(name in CORPORA or Path(name).is_dir() for name in given):
        if validation or test or held_out or skip_empty:
            raise SettingsError(
                f"{given[0]} is a corpus or a folder, and has its parts: leave out --validation, --test, --held-out "
                "and --skip-empty, or give files"
            )
        loaded = open_corpus(given, columns=columns, domains=domains, limit=limit)
        return Loaded(Stream(_limited(loaded.stream, limit)), loaded.notices)
    paths = [Path(name) for name in given]
    loaded = load_stream(
        paths,
        columns=columns,
        validation=validation,
        test=test,
        held_out=held_out,
        domains=domains,
        limit=limit,
        skip_empty=skip_empty,
    )
    refuse_namesakes(paths, columns.by)
    return loaded


def refuse_incomparable(stream: Stream) -> None:
    """Refuse what one of the methods would refuse in the end: all of a comparison or nothing."""
    if len(stream) < 2:
        raise DataError(
            f"a comparison needs at least two domains, and there is only {', '.join(stream.names) or 'none'}: "
            "give more files, or name the column of the domain with --by"
        )
    first = admit(stream[:1], None, None)
    for domain in stream[1:]:
        admit([domain], first.task, first.labels)
    for domain in stream:
        if not domain.test:
            raise DataError(f"{domain.name} has no test examples: give more rows, or that part's own file")


def suitable(names: Sequence[str], stream: Stream, chosen: Sequence[str]) -> list[str]:
    """The methods that this stream can be learnt by; of those that somebody has `chosen`, others are refused."""
    if not any(domain.has_replies for domain in stream):
        return list(names)
    fits = [name for name in names if Distilling not in find_method(name).remembers]
    if lost := [name for name in chosen if name not in fits]:
        raise SettingsError(f"{lost[0]}: D holds on to labels, and replies have none; leave D out")
    return fits


def _limited(stream: Stream, limit: int | None) -> Stream:
    return Stream(
        replace(domain, validation=fair_slice(domain.validation, limit), test=fair_slice(domain.test, limit))
        for domain in stream
    )
