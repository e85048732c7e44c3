"""Records of finished stages in a folder, and which of them serve for a run on some data."""

import gzip
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from memgrow.errors import DataError, SettingsError
from research.common.files import atomic_write
from research.common.runs import Record, Run

BUNDLE = "records.jsonl.gz"


class Store:
    """A folder. A record is a file until `bundle` puts all of them into one, which can be committed."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._bundled: dict[str, Record] | None = None

    def get(self, key: str) -> Record | None:
        path = self._path(key)
        if not path.is_file():
            return self._bundle().get(key)
        try:
            return Record.from_json(json.loads(path.read_bytes()))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged: remove it to make its stage again") from error

    def put(self, record: Record) -> None:
        """Keep a record, in place of an older one of its key."""
        atomic_write(self._path(record.key), _line(record))

    def model(self, key: str) -> Path:
        """The folder of a learner that other runs go on from."""
        return self.folder / "models" / key

    def records(self) -> dict[str, Record]:
        """All records by their keys."""
        single = (self.get(path.stem) for path in sorted(self._path("").parent.glob("*.json")))
        return self._bundle() | {record.key: record for record in single if record is not None}

    def bundle(self) -> Path:
        """Put all records into one file, the same bytes for the same records, and remove the files of single ones."""
        records, packed = self.records(), io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file:
            for key in sorted(records):
                file.write(_line(records[key]))
        atomic_write(self.folder / BUNDLE, packed.getvalue())
        self._bundled = records
        for path in self._path("").parent.glob("*.json"):
            path.unlink()
        return self.folder / BUNDLE

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Refuse a second process that would make stages here at the same time."""
        from filelock import FileLock, Timeout

        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise SettingsError(f"another process makes runs in {self.folder}: wait, or use another folder") from error
        try:
            yield
        finally:
            lock.release()

    def _bundle(self) -> dict[str, Record]:
        if self._bundled is None:
            self._bundled = _read_bundle(self.folder / BUNDLE)
        return self._bundled

    def _path(self, key: str) -> Path:
        return self.folder / "records" / f"{key}.json"


@dataclass(frozen=True)
class Ledger:
    """The stages that a store has of runs on some data, which is known by its fingerprints."""

    store: Store
    data: Mapping[str, str]  # fingerprints by domain
    held_out: Mapping[str, str]  # fingerprints of what models are evaluated on, and how
    only_learned: bool = False  # a model is evaluated on the domains that it has learned, not on all of the stream
    _found: dict[str, Record] = field(default_factory=dict)

    def key(self, run: Run) -> str:
        return run.key(self.data)

    def evaluated(self, run: Run) -> dict[str, str]:
        """The fingerprints that the record of a run must have."""
        learned = not self.only_learned or set(run.learns)
        return {name: value for name, value in self.held_out.items() if learned is True or name in learned}

    def record(self, run: Run) -> Record | None:
        """The record of a stage, if there is one that can serve."""
        key = self.key(run)
        if key not in self._found:
            record = self.store.get(key)
            if record is None or not record.stands_for(run, self.evaluated(run)):
                return None
            self._found[key] = record
        return self._found[key]

    def records(self, run: Run) -> list[Record]:
        """The records of a run's stages, up to the first that is missing."""
        found: list[Record] = []
        for stage in run.stages():
            if (record := self.record(stage)) is None:
                break
            found.append(record)
        return found


def _read_bundle(path: Path) -> dict[str, Record]:
    if not path.exists():
        return {}
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            records = [Record.from_json(json.loads(line)) for line in lines]
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: put a whole copy in its place, or remove it to run all again") from error
    return {record.key: record for record in records}


def _line(record: Record) -> bytes:
    return (json.dumps(record.to_json(), sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
