"""MultiNLI, fetched or in a folder of the user's: genres as domains, each pair once, nothing held out in training."""

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path

from memgrow.data.columns import Columns
from memgrow.data.corpora.archive import find_member, opened, unpack
from memgrow.data.corpora.checksum import Watch, unseen
from memgrow.data.corpora.guessed import read_guessed, were
from memgrow.data.corpora.where import find_file
from memgrow.data.domain import Domain, Example, Stream
from memgrow.data.load import Loaded, load_stream
from memgrow.data.splits import fair_slice
from memgrow.errors import DataError, SettingsError

FIVE = ("fiction", "government", "slate", "telephone", "travel")  # those with training pairs, in the paper's order

INNER = "multinli_1.0"
TRAIN, HELD_OUT = "multinli_1.0_train.jsonl", "multinli_1.0_dev_matched.jsonl"
FILES = (TRAIN, HELD_OUT)
MISMATCHED = "multinli_1.0_dev_mismatched.jsonl"
README = "README.txt"  # with the licences
COLUMNS = Columns(by="genre", group="promptID")

TWICE = "as the same pair with the same label comes before"
HELD = "as the same two texts are among the held-out pairs"

Pair = tuple[str, ...]


def unpack_multinli(archive: Path, folder: Path, watch: Watch = unseen) -> tuple[str, ...]:
    """Write the files in the corpus's own layout; the archive's other files are the same pairs in other formats."""
    with opened(archive) as zipped:
        rows = {name: unpack(zipped, name, folder / name, watch) for name in (*FILES, MISMATCHED)}
        if find_member(zipped, README):
            unpack(zipped, README, folder / README, watch)
    return tuple(f"{name}: {count:,} rows" for name, count in rows.items())


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
        kept += fair_slice(_sift(more, held_out, left_out), None if limit is None else limit - len(kept))
        domains.append(replace(everything[name], train=kept))
    told = [f"{were(count, 'training pair')} left out, {reason}" for reason, count in left_out.items() if count]
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
