"""The rows of Parquet and Arrow files (also called Feather), read by pyarrow, an extra, a batch of rows at a time."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memgrow.errors import DataError, SettingsError, brief, listed

COLUMNAR = (".parquet", ".arrow", ".feather")  # files of rows that are no lines
AT_ONCE = 256  # rows that are held in memory
BUFFER = 1 << 20  # bytes of a column that are read ahead


class ArrowRow(Mapping[str, object]):
    """One row of a batch; only the columns that somebody asks for become Python's objects."""

    __slots__ = ("_columns", "_index")

    def __init__(self, columns: "_Columns", index: int) -> None:
        self._columns, self._index = columns, index

    def __getitem__(self, name: str) -> object:
        if name not in self._columns.names:
            raise KeyError(name)
        return self._columns[name][self._index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns.names)

    def __len__(self) -> int:
        return len(self._columns.names)


class _Columns(dict[str, list[object]]):
    """The columns of a batch by name, each made into a list when it is first asked for."""

    def __init__(self, batch: Any) -> None:
        super().__init__()
        self._batch, self.names = batch, list[str](batch.schema.names)

    def __missing__(self, name: str) -> list[object]:
        found: list[object] = self._batch.column(self.names.index(name)).to_pylist()
        self[name] = found
        return found


def parquet_values(path: Path) -> Iterator[ArrowRow]:
    """The fields of each row of a Parquet file."""
    with _reading(path):
        from pyarrow.parquet import ParquetFile

        # Not all of a row group at once: it may be as large as the file.
        with ParquetFile(path, pre_buffer=False, buffer_size=BUFFER) as file:
            yield from _values(path, file.iter_batches(AT_ONCE, use_threads=False))


def arrow_values(path: Path) -> Iterator[ArrowRow]:
    """The fields of each row of an Arrow file or stream; the first bytes tell which it is."""
    with _reading(path):
        import pyarrow

        with pyarrow.OSFile(str(path)) as file:
            is_file = file.read(6) == b"ARROW1"
            file.seek(0)
            if is_file:
                reader = pyarrow.ipc.open_file(file)
                batches = map(reader.get_batch, range(reader.num_record_batches))
            else:
                batches = iter(pyarrow.ipc.open_stream(file))
            yield from _values(path, batches)


def _values(path: Path, batches: Iterator[Any]) -> Iterator[ArrowRow]:
    for whole in batches:
        names = whole.schema.names
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise DataError(f"{path} names the column {listed(twice)} more than once; give each column its own name")
        for start in range(0, whole.num_rows, AT_ONCE):
            batch = whole.slice(start, AT_ONCE)
            columns = _Columns(batch)
            yield from (ArrowRow(columns, index) for index in range(batch.num_rows))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Around all that pyarrow does: what it finds wrong becomes a sentence, as does that it is not there."""
    try:
        import pyarrow
    except ImportError:
        raise SettingsError(
            f"{path} is read by the package pyarrow, which is not installed: run `pip install 'memgrow[arrow]'`, or "
            "save the data as JSON lines or CSV"
        ) from None
    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} cannot be read by pyarrow ({brief(error)}); it is damaged, cut short or of another format than "
            "its name says: save it again"
        ) from None
