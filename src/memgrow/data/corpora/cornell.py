"""The Cornell Movie-Dialogs Corpus, as published or prepared: a line of a film and what is said to it, film by film."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from memgrow.data.columns import DEFAULT_COLUMNS
from memgrow.data.corpora.dialogue_splits import blocks, sizes_told, without
from memgrow.data.corpora.download import Watch, find_file, find_member, no_progress, open_archive, unpack_member
from memgrow.data.domain import Domain, Example, Stream
from memgrow.data.files import FileFormat, text_lines, where
from memgrow.data.load import Loaded
from memgrow.data.rows import read_file
from memgrow.errors import DataError, SettingsError, counted, was_or_were

INNER = "cornell movie-dialogs corpus"
LINES, CONVERSATIONS = "movie_lines.txt", "movie_conversations.txt"
FILES = (LINES, CONVERSATIONS)
PREPARED = "cornell.tsv"  # a message and a response in each row, in the corpus's order
README = "README.txt"

SEPARATOR = "+++$+++"  # with a space on either side; the one after it is missing where nothing follows
LINE_FIELDS, CONVERSATION_FIELDS = 5, 4
LINE_NAME = re.compile(r"L\d+")
ENCODING = "cp1252"  # but for a few bytes that stand for nothing in it, and are passed over


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs in the corpus's order, the film of each where that is known, and how many were left out."""

    pairs: list[Example]
    films: list[str] | None
    empty: int


def holds_cornell(folder: Path) -> bool:
    """Whether a folder has the corpus, as published or as prepared."""
    return bool(find_file(folder, PREPARED)) or all(find_file(folder, name, INNER) for name in FILES)


def unpack_cornell(archive: Path, folder: Path, watch: Watch = no_progress) -> tuple[str, ...]:
    """Write the two files of which pairs are made, and the corpus's own words on them."""
    with open_archive(archive) as zipped:
        rows = {name: unpack_member(zipped, name, folder / name, watch) for name in FILES}
        if find_member(zipped, README):
            unpack_member(zipped, README, folder / README, watch)
    return tuple(f"{name}: {count:,} lines" for name, count in rows.items())


def open_cornell(folder: str | Path, validation: int = 10_000, test: int = 10_000) -> Loaded:
    """One domain: every line of a conversation but the last is a message, and the line after it the reply.

    The last pairs are the test part, those before them the validation part, so that films stay apart. A pair that is
    in a later part too is left out of the earlier ones.
    """
    if validation < 1 or test < 1:
        raise SettingsError(f"{validation} pairs for validation and {test} for test cannot be held out; give 1 or more")
    folder = Path(folder)
    said = _prepared(folder) or _published(folder)
    if len(said.pairs) <= validation + test:
        raise DataError(
            f"{folder} has {len(said.pairs):,} pairs, of which {validation:,} are to be held out for validation and "
            f"{test:,} for test; give the whole corpus, or hold out fewer"
        )
    train, held_out, last = blocks(said.pairs, said.films, validation, test)
    kept = without(train, (*held_out, *last)), without(held_out, last), last
    if not all(kept):
        raise DataError(f"{folder} has too few different pairs or films for three parts; give the whole corpus")
    left_out = len(said.pairs) - sum(map(len, kept))
    films = "whole films" if said.films else "cut anywhere, as the films are not named"
    notices = [f"the last pairs are held out in two blocks ({films}): {sizes_told(kept)}"]
    notices += (
        [f"{counted(said.empty, 'pair')} {was_or_were(said.empty)} left out, with an empty message or reply"]
        if said.empty
        else []
    )
    notices += (
        [f"{counted(left_out, 'pair')} {was_or_were(left_out)} left out, as a later part has the same"]
        if left_out
        else []
    )
    return Loaded(Stream([Domain("cornell", *kept)]), tuple(notices))


def _prepared(folder: Path) -> Pairs | None:
    path = find_file(folder, PREPARED)
    if path is None:
        return None
    table = read_file(path, DEFAULT_COLUMNS, skip_empty=True)
    if table.columns.reply is None:
        raise DataError(f"{path} has labelled texts and not messages with replies; give another file")
    return Pairs([record.example for record in table.records], None, sum(table.left_out.values()))


def _published(folder: Path) -> Pairs:
    lines, conversations = (find_file(folder, name, INNER) for name in FILES)
    if lines is None or conversations is None:
        raise DataError(
            f"{folder} has no {LINES} with {CONVERSATIONS}, and no {PREPARED}, plain or with .gz; name the folder to "
            "which the corpus was unpacked, or run `memgrow data get cornell`"
        )
    texts = {fields[0]: fields[4] for _, fields in _fields(lines, LINE_FIELDS)}
    pairs: list[Example] = []
    films: list[str] = []
    empty = 0
    for number, (_, _, film, named) in _fields(conversations, CONVERSATION_FIELDS):
        place = where(conversations, number)
        names = LINE_NAME.findall(named)
        unknown = next((name for name in names if name not in texts), None)
        if unknown is not None:
            raise DataError(f"{place} speaks of the line {unknown}, which {lines.name} does not have; fetch both again")
        for message, reply in pairwise(names):
            if texts[message] and texts[reply]:
                pairs.append(Example(texts[message], where=place, reply=texts[reply]))
                films.append(film)
            else:
                empty += 1
    return Pairs(pairs, films, empty)


def _fields(path: Path, count: int) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line, with its number; in a text any white space is one space."""
    for number, raw in text_lines(path, FileFormat(encoding="latin-1")):
        if not raw.strip():
            continue
        text = raw.encode("latin-1").decode(ENCODING, errors="ignore")
        fields = [" ".join(field.split()) for field in text.split(SEPARATOR, count - 1)]
        if len(fields) != count:
            raise DataError(
                f"{where(path, number)} has {len(fields)} fields between {SEPARATOR} and not {count}; "
                "fetch the corpus again"
            )
        yield number, fields
