"""The paper's corpora as streams, the splits that they are cut by, and the fingerprints by which records know them.

MultiNLI, the Cornell Movie-Dialogs Corpus and the Ubuntu Dialogue Corpus, as published or prepared (one row a pair).
"""

import csv
import gzip
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

from memgrow import Domain, Example, Stream
from memgrow.data import Columns, draw
from memgrow.data.rows import Record, read_file
from memgrow.errors import DataError

PARTS = ("train", "validation", "test")
FIVE = ("fiction", "government", "slate", "telephone", "travel")  # the genres with training pairs, in the paper's order
MULTINLI = ("multinli_1.0_train.jsonl", "multinli_1.0_dev_matched.jsonl")
CORNELL = ("movie_lines.txt", "movie_conversations.txt")
CORNELL_PREPARED = "cornell.tsv"
UBUNTU = ("train.csv", "valid.csv", "test.csv")
UBUNTU_PREPARED = ("ubuntu_train.tsv", "ubuntu_dev.tsv", "ubuntu_test.tsv")
INNER = ("", "multinli_1.0", "cornell movie-dialogs corpus")  # folders that archives unpack to
HALVES = {"validation": 0.5, "test": 0.5}
LENGTH = 24  # hexadecimal digits of a fingerprint
SURE = 0.9  # a guessed genre below it is not taken


class Loaded(NamedTuple):
    """A stream, and what there is to say about how it was read."""

    stream: Stream
    notices: tuple[str, ...] = ()


# Fingerprints: what a record says it was made from. They must stay as they are.


def domain_fingerprint(domain: Domain, beside: str = "") -> str:
    """All three parts, and what else (`beside`) decides what is learned from them."""
    return _short(domain.name, *(_digest(getattr(domain, part)) for part in PARTS), beside)


def held_out_fingerprint(domain: Domain) -> str:
    """The examples that a model is evaluated on."""
    return _short(_digest(domain.validation), _digest(domain.test))


def file_fingerprint(path: Path) -> str:
    """A file's content, whatever its name."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:LENGTH]
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error


def _digest(examples: Iterable[Example]) -> str:
    digest = hashlib.sha256()
    for example in examples:
        answer = example.label if example.reply is None else [example.reply]
        digest.update(json.dumps((example.texts, answer)).encode() + b"\n")
    return digest.hexdigest()


def _short(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:LENGTH]


def sizes_of(stream: Stream) -> dict[str, dict[str, int]]:
    """The numbers of examples in each part of each domain."""
    return {domain.name: {part: len(getattr(domain, part)) for part in PARTS} for domain in stream}


# Splits: drawn by the hash of a seed and a text, so that neither the order of rows nor the machine decides.


def rank(seed: int, name: str) -> bytes:
    """The place of something in an order that looks random but is the same on every machine."""
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()


def fair_slice(examples: Sequence[Example], limit: int | None) -> tuple[Example, ...]:
    """At most `limit` of the examples, in their old order; those of a smaller limit are among those of a larger one."""
    if limit is None or len(examples) <= limit:
        return tuple(examples)
    ranks = [rank(0, "\x1f".join(_fields(example)))[:16] for example in examples]
    kept = sorted(range(len(examples)), key=lambda number: ranks[number])[:limit]
    return tuple(examples[number] for number in sorted(kept))


def limited(domain: Domain, **limits: int | None) -> Domain:
    """A domain with at most so many examples of the named parts."""
    parts: dict[str, Any] = {part: fair_slice(getattr(domain, part), limit) for part, limit in limits.items()}
    return replace(domain, **parts)


def _fields(example: Example) -> tuple[str, ...]:
    fields = (*example.texts, example.label or "")
    return fields if example.reply is None else (*fields, example.reply)


def _plain(text: str | None) -> str:
    """Lower case, and one space for any white space."""
    return " ".join((text or "").casefold().split())


def _exchange(example: Example) -> tuple[str, str]:
    return _plain(example.text), _plain(example.reply)


# MultiNLI


def open_multinli(
    folder: Path, genres: Sequence[str] = FIVE, limit: int | None = None, extra: Path | None = None
) -> Loaded:
    """The genres as domains; the matched held-out pairs are halved by premise into validation and test.

    `extra` is a further file of training pairs with a guessed genre. At most `limit` training pairs of each genre are
    kept, the corpus's own before extra ones. No training pair comes twice in its genre or is held out.
    """
    train, held_out = (_find(folder, name, "multinli") for name in MULTINLI)
    trained, others = map(_by_genre, (train, held_out))
    drawn = {genre: draw([one.example for one in rows], [one.group for one in rows], HALVES) for genre, rows in others}
    everything = Stream(
        Domain(genre, train=[one.example for one in rows], **drawn.get(genre, {})) for genre, rows in trained
    )
    if missing := [genre for genre in genres if genre not in everything.names]:
        raise DataError(f"{folder} has no training pairs of {', '.join(missing)}")
    guessed = _guessed(extra) if extra else {}
    held = {example.texts for domain in everything for example in (*domain.validation, *domain.test)}
    known = {example for domain in everything for example in domain.train} if guessed else set()
    left_out: Counter[str] = Counter()
    domains = []
    for name in genres:
        own = _sift(everything[name].train, held, left_out)
        more = [example for example in guessed.get(name, ()) if example not in known]
        kept = fair_slice(own, limit)
        rest = fair_slice(_sift(more, held, left_out), None if limit is None else limit - len(kept))
        domains.append(replace(everything[name], train=(*kept, *rest)))
    return Loaded(
        Stream(domains), tuple(f"{count:,} training pairs left out: {why}" for why, count in left_out.items())
    )


def _by_genre(path: Path) -> Iterable[tuple[str, list[Record]]]:
    found: dict[str, list[Record]] = {}
    for one in read_file(path, Columns(by="genre", group="promptID"), skip_empty=True).records:
        found.setdefault(one.by or "", []).append(one)
    return found.items()


def _sift(examples: Iterable[Example], held_out: set[Any], left_out: Counter[str]) -> list[Example]:
    seen: set[Example] = set()
    kept = []
    for example in examples:
        if example.texts in held_out:
            left_out["held out too"] += 1
        elif example in seen:
            left_out["duplicates"] += 1
        else:
            seen.add(example)
            kept.append(example)
    return kept


def _guessed(path: Path) -> dict[str, list[Example]]:
    """Training pairs by guessed genre, where the guess is sure enough."""
    taken: dict[str, list[Example]] = {}
    with _opened(path) as lines:
        for row in map(json.loads, lines):
            texts, label = (row["sentence1"], row["sentence2"]), row["gold_label"]
            if row["genre_conf"] >= SURE and all(text.strip() for text in texts) and label != "-":
                taken.setdefault(row["genre"], []).append(Example(*texts, label))
    return taken


# Dialogue


def open_cornell(folder: Path, validation: int = 10_000, test: int = 10_000) -> Loaded:
    """Every line of a conversation but the last is a message, and the line after it the reply.

    The last pairs are the test part, those before them the validation part; films stay whole where they are known. A
    pair that is in a later part too is left out of the earlier ones.
    """
    prepared = _found(folder, CORNELL_PREPARED)
    pairs, films = (list(_prepared(prepared)), None) if prepared else _films(folder)
    if len(pairs) <= validation + test:
        raise DataError(f"{folder} has {len(pairs):,} pairs: too few to hold out {validation:,} and {test:,}")
    ends = [len(pairs) - validation - test, len(pairs) - test]
    if films is not None:
        starts = [0, *(index for index, (one, other) in enumerate(pairwise(films), 1) if one != other), len(films)]
        ends = [min(starts, key=lambda start: (abs(start - end), start)) for end in ends]
    train, held, last = pairs[: ends[0]], pairs[ends[0] : ends[1]], pairs[ends[1] :]
    return Loaded(Stream([Domain("cornell", _without(train, [*held, *last]), _without(held, last), tuple(last))]))


def _without(examples: Iterable[Example], others: Iterable[Example]) -> tuple[Example, ...]:
    known = {_exchange(other) for other in others}
    return tuple(example for example in examples if _exchange(example) not in known)


def _films(folder: Path) -> tuple[list[Example], list[str]]:
    """The pairs as published, and the film of each."""
    lines, conversations = (_find(folder, name, "cornell") for name in CORNELL)
    texts = {fields[0]: fields[4] for fields in _separated(lines, 5)}
    pairs, films = [], []
    for _, _, film, named in _separated(conversations, 4):
        for message, reply in pairwise(re.findall(r"L\d+", named)):
            if texts[message] and texts[reply]:
                pairs.append(Example(texts[message], reply=texts[reply]))
                films.append(film)
    return pairs, films


def _separated(path: Path, count: int) -> Iterator[list[str]]:
    with _opened(path, encoding="cp1252", errors="ignore") as lines:
        for line in lines:
            if line.strip():
                yield [" ".join(field.split()) for field in line.split("+++$+++", count - 1)]


def open_ubuntu(folder: Path, sizes: tuple[int, int, int] = (9000, 3000, 3000)) -> Loaded:
    """The last turn of a context is the message, the right utterance the reply; parts of these sizes.

    Each part is drawn from its own file if that has enough, otherwise from all files; no message is in two parts.
    """
    prepared = [path for name in UBUNTU_PREPARED if (path := _found(folder, name))]
    if len(prepared) == len(UBUNTU_PREPARED):
        read = [list(_prepared(path)) for path in prepared]
    else:
        read = [list(_help_channel(_find(folder, name, "ubuntu"))) for name in UBUNTU]
    once = [_each_once(pairs) for pairs in read]
    parts = _draw_parts(once, sizes) or _draw_parts([_each_once(pair for pairs in once for pair in pairs)] * 3, sizes)
    if parts is None:
        raise DataError(f"{folder} has too few different pairs for parts of {', '.join(map(str, sizes))}")
    return Loaded(Stream([Domain("ubuntu", *parts)]))


def _each_once(examples: Iterable[Example]) -> list[Example]:
    first: dict[tuple[str, str], Example] = {}
    for example in examples:
        first.setdefault(_exchange(example), example)
    return list(first.values())


def _draw_parts(pools: Sequence[Sequence[Example]], sizes: Sequence[int]) -> list[tuple[Example, ...]] | None:
    """Train, validation and test of exactly these sizes, each from its pool; test is drawn first."""
    taken: set[str] = set()
    drawn: list[tuple[Example, ...]] = []
    for pool, size in reversed(list(zip(pools, sizes, strict=True))):
        by_message: dict[str, list[int]] = {}
        for index, example in enumerate(pool):
            by_message.setdefault(_plain(example.text), []).append(index)
        chosen: list[int] = []
        for message in sorted(by_message.keys() - taken, key=lambda message: rank(0, message)):
            answers = sorted(by_message[message], key=lambda index: rank(0, _plain(pool[index].reply)))
            chosen += answers[: size - len(chosen)]
        if len(chosen) < size:
            return None
        drawn.append(tuple(pool[index] for index in sorted(chosen)))
        taken |= {_plain(example.text) for example in drawn[-1]}
    return drawn[::-1]


def _help_channel(path: Path) -> Iterator[Example]:
    """The right pairs of a published file, whose marks end utterances and turns."""
    csv.field_size_limit(sys.maxsize)
    with _opened(path, newline="") as lines:
        for row in csv.DictReader(lines):
            if float(row.get("Label") or 1):
                turns = [turn for turn in row["Context"].split("__eot__") if turn.strip()]
                answer = row.get("Ground Truth Utterance") or row.get("Utterance") or ""
                message, reply = (_unmarked(text) for text in (turns[-1] if turns else "", answer))
                if message and reply:
                    yield Example(message, reply=reply)


def _unmarked(turn: str) -> str:
    return " ".join(turn.replace("__eot__", " ").replace("__eou__", " ").split())


def _prepared(path: Path) -> Iterator[Example]:
    """Rows of a message and a response, without those of which one is empty."""
    with _opened(path, newline="") as lines:
        for row in csv.DictReader(lines, dialect="excel-tab", quoting=csv.QUOTE_NONE):
            if row["message"].strip() and row["response"].strip():
                yield Example(row["message"], reply=row["response"])


# Files


def holds(folder: Path, corpus: str) -> bool:
    """Whether a folder has the files of a corpus."""
    layouts = {"multinli": (MULTINLI,), "cornell": (CORNELL, (CORNELL_PREPARED,)), "ubuntu": (UBUNTU, UBUNTU_PREPARED)}
    return any(all(_found(folder, name) for name in layout) for layout in layouts[corpus])


def _find(folder: Path, name: str, corpus: str) -> Path:
    if (path := _found(folder, name)) is None:
        raise DataError(f"{folder} has no {name}: name another folder, or run `python -m research.data get {corpus}`")
    return path


def _found(folder: Path, name: str) -> Path | None:
    """A file, plain or with .gz, in a folder or in the one that its archive unpacks to."""
    places = (folder / inner / called for inner in INNER for called in (name, f"{name}.gz"))
    return next((place for place in places if place.is_file()), None)


def _opened(path: Path, **how: Any) -> IO[str]:
    opened: IO[str] = (gzip.open if path.suffix == ".gz" else open)(path, "rt", **{"encoding": "utf-8", **how})
    return opened


def labels_of(stream: Iterable[Domain]) -> tuple[str, ...]:
    return tuple(sorted({label for domain in stream for label in domain.labels}))


def fingerprints_of(stream: Stream, vectors: Path | None = None) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """By domain, of the data that is learned from (with the vectors that words start with), and of what is held out."""
    beside = f"{labels_of(stream)} {file_fingerprint(vectors) if vectors else ''}"
    data = {domain.name: domain_fingerprint(domain, beside) for domain in stream}
    return data, {domain.name: held_out_fingerprint(domain) for domain in stream}
