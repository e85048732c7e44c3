"""MultiNLI: genres as domains, each pair once, and no pair for training whose two texts are held out.

It comes from its own archive, from the Hugging Face hub (with the extra `hub`) or from a folder of the user's. A
further file may hold training pairs whose genre somebody guessed; those with a sure enough guess are taken.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from memgrow.data.columns import Columns
from memgrow.data.corpora.download import Watch, find_file, find_member, no_progress, open_archive, unpack_member
from memgrow.data.domain import Domain, Example, Stream
from memgrow.data.files import read_rows, where
from memgrow.data.load import Loaded, load_stream
from memgrow.data.rows import read_file
from memgrow.data.splits import fair_slice
from memgrow.errors import DataError, SettingsError, counted, was_or_were

Examples = Mapping[str, list[Example]]
Pair = tuple[str, ...]

FIVE = ("fiction", "government", "slate", "telephone", "travel")  # those with training pairs, in the paper's order

INNER = "multinli_1.0"
TRAIN, HELD_OUT = "multinli_1.0_train.jsonl", "multinli_1.0_dev_matched.jsonl"
FILES = (TRAIN, HELD_OUT)
MISMATCHED = "multinli_1.0_dev_mismatched.jsonl"
README = "README.txt"  # with the licences
COLUMNS = Columns(by="genre", group="promptID")

CONFIDENCE = "genre_conf"  # the field that says how sure a guessed genre is

TWICE = "as the same pair with the same label comes before"
HELD = "as the same two texts are among the held-out pairs"

DATASET = "nyu-mll/multi_nli"
# The hub's name of each part, our file, and how many rows a whole copy has. Pairs without a gold label are not in it.
HUB_PARTS = (
    ("train", TRAIN, 392_702),
    ("validation_matched", HELD_OUT, 9_815),
    ("validation_mismatched", MISMATCHED, 9_832),
)
LABELS = ("entailment", "neutral", "contradiction")  # the hub has their numbers


def unpack_multinli(archive: Path, folder: Path, watch: Watch = no_progress) -> tuple[str, ...]:
    """Write the files in the corpus's own layout; the archive's other files are the same pairs in other formats."""
    with open_archive(archive) as zipped:
        rows = {name: unpack_member(zipped, name, folder / name, watch) for name in (*FILES, MISMATCHED)}
        if find_member(zipped, README):
            unpack_member(zipped, README, folder / README, watch)
    return tuple(f"{name}: {count:,} rows" for name, count in rows.items())


def multinli_from_hub(folder: Path, watch: Watch = no_progress) -> tuple[str, ...]:
    """Write the three parts; a copy that is not whole is refused."""
    try:
        datasets = import_module("datasets")
    except ImportError:
        raise SettingsError("the hub is read with the package datasets; run: pip install 'memgrow[hub]'") from None
    watch(f"fetching {DATASET}", 0, None)
    try:
        parts = datasets.load_dataset(DATASET)
    except Exception as error:  # what can go wrong there is of many kinds, none of them ours
        raise DataError(
            f"{DATASET} cannot be had from the hub ({_first_line(error)}); try without --from hub"
        ) from None
    for part, name, rows in HUB_PARTS:
        if part not in parts or len(parts[part]) != rows:
            found = len(parts[part]) if part in parts else 0
            raise DataError(
                f"the hub's {DATASET} has {found:,} rows in its part {part} and not {rows:,}; try without --from hub"
            )
        _write(folder / name, parts[part], rows, watch)
    return tuple(f"{name}: {rows:,} rows" for _, name, rows in HUB_PARTS)


def open_multinli(
    folder: str | Path,
    genres: Sequence[str] = FIVE,
    limit: int | None = None,
    extra: str | Path | None = None,
    confidence: float = 0.9,
) -> Loaded:
    """The genres as domains, in that order; the matched held-out pairs are halved by premise into validation and test.

    `extra` is a further file of training pairs whose `genre_conf` says how sure their genre is; those below
    `confidence` are left out. At most `limit` training pairs of each genre are kept, those of a smaller limit always
    among those of a larger one and the corpus's own before extra ones; validation and test stay whole.
    """
    if limit is not None and limit < 1:
        raise SettingsError(f"a limit of {limit} leaves no pairs to learn from; give 1 or more")
    folder = Path(folder)
    loaded = load_stream(_file(folder, TRAIN), columns=COLUMNS, held_out=_file(folder, HELD_OUT), skip_empty=True)
    everything = loaded.stream
    _refuse_unknown(genres, everything, folder)
    guessed, guesses = read_guessed(Path(extra), COLUMNS, confidence) if extra else ({}, ())
    held_out = {example.texts for domain in everything for example in (*domain.validation, *domain.test)}
    # Pairs of the corpus's own are compared within their genre alone, so that a genre is the same in any company.
    known = {example for domain in everything for example in domain.train} if guessed else set()
    left_out: Counter[str] = Counter()
    domains: list[Domain] = []
    for name in genres:
        own = _sift(everything[name].train, held_out, left_out)
        more = [example for example in guessed.get(name, ()) if example not in known]
        left_out[TWICE] += len(guessed.get(name, ())) - len(more)
        kept = fair_slice(own, limit)
        rest = fair_slice(_sift(more, held_out, left_out), None if limit is None else limit - len(kept))
        domains.append(replace(everything[name], train=(*kept, *rest)))
    told = [
        f"{counted(count, 'training pair')} {was_or_were(count)} left out, {reason}"
        for reason, count in left_out.items()
        if count
    ]
    return Loaded(Stream(domains), (*loaded.notices, *guesses, *told))


def _file(folder: Path, name: str) -> Path:
    found = find_file(folder, name, INNER)
    if found is None:
        raise DataError(
            f"{folder} has no {name}, plain or with .gz, nor has a folder {INNER} in it; "
            "name the folder to which the corpus was unpacked, or run `memgrow data get multinli`"
        )
    return found


def _refuse_unknown(genres: Sequence[str], stream: Stream, folder: Path) -> None:
    missing = [genre for genre in genres if genre not in stream.names]
    if missing or not genres:
        what = f"no training pairs of the genre {', '.join(missing)}" if missing else "no genre to choose"
        raise DataError(f"{folder} has {what}; there is {', '.join(sorted(stream.names))}: choose among these")


def _sift(examples: Iterable[Example], held_out: AbstractSet[Pair], left_out: Counter[str]) -> list[Example]:
    """Each pair once and none that is held out; what is left out is counted."""
    seen: set[Example] = set()
    kept = []
    for example in examples:
        reason = HELD if example.texts in held_out else TWICE if example in seen else None
        if reason is None:
            seen.add(example)
            kept.append(example)
        else:
            left_out[reason] += 1
    return kept


def read_guessed(path: Path, columns: Columns, confidence: float) -> tuple[Examples, tuple[str, ...]]:
    """The training pairs by guessed genre, in the order of the file, and how many were left out and why."""
    unsure = {where(path, line) for line, values in read_rows(path) if _confidence(values, path, line) < confidence}
    table = read_file(path, columns, skip_empty=True)
    taken: dict[str, list[Example]] = {}
    for record in table.records:
        if record.by is not None and record.example.where not in unsure:
            taken.setdefault(record.by, []).append(record.example)
    left_out = {**table.left_out, f"with a {CONFIDENCE} below {confidence}": len(unsure)}
    told = (
        f"{counted(count, 'pair')} {was_or_were(count)} left out of {path.name}, {why}"
        for why, count in left_out.items()
        if count
    )
    return taken, tuple(told)


def _confidence(values: Mapping[str, object], path: Path, line: int) -> float:
    value = values.get(CONFIDENCE)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(
            f"{where(path, line)} has no number for the field {CONFIDENCE!r}; "
            "give a file whose rows say how sure their genre is"
        )
    return value


def _write(path: Path, rows: Any, total: int, watch: Watch) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for number, row in enumerate(rows, start=1):
            fields = {
                "gold_label": LABELS[row["label"]],
                "genre": row["genre"],
                "sentence1": row["premise"],
                "sentence2": row["hypothesis"],
                "promptID": str(row["promptID"]),
                "pairID": row["pairID"],
            }
            file.write(json.dumps(fields, ensure_ascii=False) + "\n")
            if number % 1000 == 0 or number == total:
                watch(f"writing {path.name}", number, total)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
