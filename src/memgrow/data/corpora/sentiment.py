"""Four sets of sentences that people rated from -4 to +4, as four domains of positive and negative texts."""

import html
import io
import json
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from memgrow.data.corpora.download import Watch, no_progress, open_archive, read_member, unpack_member
from memgrow.data.load import Loaded, load_stream
from memgrow.data.splits import draw
from memgrow.errors import DataError

# The files by domain, in the order of the stream: the largest set first, the one least like print last.
RATINGS = {
    "films": "movieReviewSnippets_GroundTruth.txt",
    "products": "amazonReviewSnippets_GroundTruth.txt",
    "editorials": "nytEditorialSnippets_GroundTruth.txt",
    "tweets": "tweets_GroundTruth.txt",
}
FILES = tuple(f"{domain}.jsonl" for domain in RATINGS)

INNER = "additional_resources/hutto_ICWSM_2014.tar.gz"
CLEAR = 0.5  # a mean rating within this of zero is neither positive nor negative
SHARES = {"train": 0.7, "validation": 0.1, "test": 0.2}

UNCLEAR = f"rated between -{CLEAR} and +{CLEAR}"
TWICE = "the same text again"
TORN = "the same text rated both ways"
UNREADABLE = "without a rating and a text"


@dataclass(frozen=True, slots=True)
class Sentence:
    text: str
    label: str
    group: str  # the review or the article that it is from, where that is known


def unpack_sentiment(archive: Path, folder: Path, watch: Watch = no_progress) -> tuple[str, ...]:
    """Write a file for each domain, with text, label, group and split; says what was kept and what left out."""
    with open_archive(archive) as package:
        ratings = _ratings(read_member(package, INNER))
        unpack_member(package, "LICENSE.txt", folder / "LICENSE.txt")
    notices = []
    for number, (domain, raw) in enumerate(ratings.items(), start=1):
        sentences, left_out = read_ratings(raw)
        _write(folder / f"{domain}.jsonl", sentences)
        watch("unpacking", number, len(ratings))
        notices.append(_told(domain, sentences, left_out))
    return tuple(notices)


def read_ratings(raw: bytes) -> tuple[list[Sentence], Counter[str]]:
    """The sentences of a file of ratings that have a clear label, each once, and how many were left out and why."""
    left_out: Counter[str] = Counter()
    by_text: dict[str, list[Sentence]] = {}
    for line in filter(bytes.strip, raw.splitlines()):
        key, rating, text = _fields(line)
        if rating is None or not text:
            left_out[UNREADABLE] += 1
        elif not abs(rating) > CLEAR:
            left_out[UNCLEAR] += 1
        else:
            sentence = Sentence(text, "positive" if rating > 0 else "negative", key.partition("_")[0])
            by_text.setdefault(text, []).append(sentence)
    kept = []
    for same in by_text.values():
        if len({sentence.label for sentence in same}) > 1:
            left_out[TORN] += len(same)
        else:
            kept.append(same[0])
            left_out[TWICE] += len(same) - 1
    return kept, +left_out


def open_sentiment(folder: str | Path) -> Loaded:
    """The four domains, in parts that were drawn when the corpus was unpacked."""
    loaded = load_stream([Path(folder, name) for name in FILES])
    parts = ", ".join(f"{part} {share:.0%}" for part, share in SHARES.items())
    drawn = f"the parts ({parts}) were drawn so that all sentences of a review or an article are in one"
    return Loaded(loaded.stream, (*loaded.notices, drawn))


def _ratings(raw: bytes) -> dict[str, bytes]:
    try:
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:gz") as archive:
            return {domain: _contents(archive, name) for domain, name in RATINGS.items()}
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{INNER} cannot be unpacked ({error}); fetch the archive again") from None


def _contents(archive: tarfile.TarFile, name: str) -> bytes:
    for info in archive:
        # A link is no file of its own, and could lead anywhere.
        if info.isreg() and Path(info.name).name == name and (file := archive.extractfile(info)):
            return file.read()
    raise DataError(f"{INNER} holds no file {name}; it is another archive: fetch the right one")


def _fields(line: bytes) -> tuple[str, float | None, str]:
    try:
        decoded = line.decode()
    except UnicodeDecodeError:
        decoded = line.decode("latin-1")
    key, _, rest = decoded.partition("\t")
    rating, _, text = rest.partition("\t")
    text = " ".join(html.unescape(text).split())
    try:
        return key.strip(), float(rating), text
    except ValueError:
        return key.strip(), None, text


def _write(path: Path, sentences: list[Sentence]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for part, members in draw(sentences, [sentence.group for sentence in sentences], SHARES).items():
            for one in members:
                row = {"text": one.text, "label": one.label, "group": one.group, "split": part}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _told(domain: str, sentences: list[Sentence], left_out: Counter[str]) -> str:
    labels = Counter(sentence.label for sentence in sentences)
    kept = " and ".join(f"{labels[label]:,} {label}" for label in ("positive", "negative"))
    reasons = "; ".join(f"{count:,} {reason}" for reason, count in left_out.items())
    return f"{domain}: {kept} sentences" + (f" (left out: {reasons})" if reasons else "")
