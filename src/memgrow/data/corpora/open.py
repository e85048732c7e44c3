"""A stream by the name of a corpus, by a folder or by files: whatever a user has to name data with."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from memgrow.data.columns import DEFAULT_COLUMNS, Columns
from memgrow.data.corpora.catalogue import CORPORA, Corpus
from memgrow.data.corpora.fetch import check_intact
from memgrow.data.domain import Stream
from memgrow.data.files import READERS
from memgrow.data.load import Loaded, load_stream
from memgrow.data.splits import fair_slice
from memgrow.errors import DataError, SettingsError

# Of a whole folder .json is left out: that is what settings and figures are called as well.
ENDINGS = tuple(f"{suffix}{compressed}" for suffix in READERS if suffix != ".json" for compressed in ("", ".gz"))


def find_corpus(name_or_folder: str | Path) -> Path:
    """The folder of a corpus that has been fetched, or else the folder of that name."""
    corpus = CORPORA.get(str(name_or_folder))
    folder = corpus.folder if corpus else Path(name_or_folder)
    if corpus and not corpus.is_in(folder):
        raise DataError(f"the corpus {corpus.name} is not on this machine yet; run: memgrow data get {corpus.name}")
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; name one that is there, or one of the corpora {', '.join(CORPORA)}")
    check_intact(folder)
    return folder


def open_corpus(
    source: str | Path | Sequence[str | Path],
    *,
    columns: Columns = DEFAULT_COLUMNS,
    domains: Sequence[str] | None = None,
    limit: int | None = None,
) -> Loaded:
    """A stream from the name of a corpus, from a folder of data files, or from data files.

    A folder that holds a corpus is read as that corpus. Corpora of messages and replies make one stream where they are
    in one folder or named together. `columns` is for files of one's own. `domains` are chosen by name, in that order;
    at most `limit` training examples of each are kept, the other parts stay whole.
    """
    if limit is not None and limit < 1:
        raise SettingsError(f"a limit of {limit} leaves no examples to learn from; give 1 or more")
    given = [source] if isinstance(source, str | Path) else list(source)
    named = [str(one) for one in given if str(one) in CORPORA]
    together = len(named) == len(given) and all(CORPORA[name].replies for name in named)
    if named and len(given) > 1 and not together:
        raise SettingsError(
            f"{named[0]} is a corpus and stands alone; for a file or folder of that name write ./{named[0]}"
        )
    if named or (len(given) == 1 and Path(given[0]).is_dir()):
        loaded = _from_folders([find_corpus(one) for one in given], columns, domains)
    else:
        loaded = load_stream(given, columns=columns, domains=domains)
    kept = (replace(domain, train=fair_slice(domain.train, limit)) for domain in loaded.stream)
    return Loaded(Stream(kept), loaded.notices)


def _from_folders(folders: Sequence[Path], columns: Columns, domains: Sequence[str] | None) -> Loaded:
    found = [(corpus, folder) for folder in folders for corpus in _held(folder)]
    if not found:
        (folder,) = folders
        files = sorted(path for path in folder.iterdir() if path.is_file() and path.name.lower().endswith(ENDINGS))
        if not files:
            raise DataError(f"{folder} has no data files; their names end in {', '.join(READERS)}, alone or with .gz")
        return load_stream(files, columns=columns, domains=domains)
    names = " and ".join(corpus.name for corpus, _ in found)
    if columns != DEFAULT_COLUMNS:
        raise SettingsError(f"{found[0][1]} holds the corpus {names}, whose columns are known; name none of them")
    opened = {corpus.name: corpus.open(folder) for corpus, folder in found}
    stream = Stream(domain for loaded in opened.values() for domain in loaded.stream)
    notices = [
        notice if len(opened) == 1 else f"{name}: {notice}" for name, one in opened.items() for notice in one.notices
    ]
    return _choose(Loaded(stream, tuple(notices)), names, domains)


def _held(folder: Path) -> list[Corpus]:
    """The corpora in a folder; several only if they make one stream."""
    there = [corpus for corpus in CORPORA.values() if corpus.is_in(folder)]
    return [corpus for corpus in there if corpus.replies] if there and there[0].replies else there[:1]


def _choose(loaded: Loaded, corpus: str, domains: Sequence[str] | None) -> Loaded:
    unknown = [name for name in domains or () if name not in loaded.stream.names]
    if unknown:
        raise DataError(
            f"the corpus {corpus} has no domain {', '.join(unknown)}; "
            f"there is {', '.join(loaded.stream.names)}: choose among these"
        )
    return Loaded(Stream(loaded.stream[name] for name in domains or loaded.stream.names), loaded.notices)
