"""The store of finished stages: a record each, and the learner itself for as long as later stages need it."""

import gzip
import io
import json
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from memgrow.checkpoint import checkpoint_files
from memgrow.errors import DataError, ModelError, SettingsError
from memgrow.experiments.run import Record
from memgrow.folder_writer import write_file
from memgrow.folders import atomic_folder, contents
from memgrow.storage import atomic_write

BUNDLE, RECORDS, MODELS = "records.jsonl.gz", "records", "models"
KEPT = "kept"  # a file in the folder of a model that is to stay


class Store:
    """A folder. A record is a file of its own until `bundle` puts all of them into one, which can be committed."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.notices: list[str] = []  # what was found damaged, in sentences
        self._bundled: dict[str, Record] | None = None

    def get(self, key: str) -> Record | None:
        """The record of that key. A damaged one counts as none, with a notice."""
        path = self._path(key)
        try:
            return Record.from_json(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return self._bundle().get(key)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.notices.append(f"{path} is damaged and not used; its stage is made again")
            return self._bundle().get(key)

    def put(self, record: Record) -> None:
        """Keep a record, in place of an older one of its key."""
        atomic_write(self._path(record.key), _line(record))

    def model(self, key: str) -> Path:
        """The folder of that stage's learner, which is kept while later stages need it."""
        return self.folder / MODELS / key

    def has_model(self, key: str) -> bool:
        """Whether the learner is there and whole; what is left of a damaged one is removed."""
        try:
            return bool(checkpoint_files(self.model(key)))
        except ModelError:
            shutil.rmtree(self.model(key), ignore_errors=True)
            return False

    def model_files(self, key: str) -> dict[str, bytes]:
        """The files of that stage's learner by name, to be sent to where there is no such folder."""
        folder = self.model(key)
        return {name: (folder / name).read_bytes() for name in sorted(contents(folder) - {KEPT})}

    def put_model(self, key: str, files: Mapping[str, bytes]) -> None:
        """Keep a learner that was sent, whole or not at all, in place of an older one."""
        with atomic_folder(self.model(key)) as folder:
            for name, content in files.items():
                write_file(folder / name, content)

    def keep_model(self, key: str) -> None:
        (self.model(key) / KEPT).touch()

    def drop_model(self, key: str) -> None:
        """Remove a learner, unless it is to be kept."""
        path = self.model(key)
        if path.is_dir() and not (path / KEPT).exists():
            shutil.rmtree(path, ignore_errors=True)

    def records(self) -> dict[str, Record]:
        """All records by their keys."""
        single = sorted(self._path("").parent.glob("*.json"))
        return self._bundle() | {path.stem: record for path in single if (record := self.get(path.stem)) is not None}

    def bundle(self) -> Path:
        """Put all records into one file, the same bytes for the same records, and remove the files of single ones."""
        single, records = sorted(self._path("").parent.glob("*.json")), self.records()
        packed = io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file:
            for key in sorted(records):
                file.write(_line(records[key]))
        atomic_write(self.folder / BUNDLE, packed.getvalue())
        self._bundled = records
        for path in single:
            path.unlink()
        return self.folder / BUNDLE

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Refuse a second process that would make stages here at the same time."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as file:
            try:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except ImportError:  # not a Unix: there the user has to see to it
                pass
            except OSError as error:
                raise SettingsError(
                    f"another memgrow is at work in {self.folder}: wait until it has ended, or choose another folder"
                ) from error
            yield

    def _bundle(self) -> dict[str, Record]:
        if self._bundled is None:
            self._bundled = _read_bundle(self.folder / BUNDLE)
        return self._bundled

    def _path(self, key: str) -> Path:
        return self.folder / RECORDS / f"{key}.json"


def _read_bundle(path: Path) -> dict[str, Record]:
    if not path.exists():
        return {}
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            records = [Record.from_json(json.loads(line)) for line in lines]
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error) as error:
        raise DataError(f"{path} is damaged: put a whole copy in its place, or remove it to run all anew") from error
    return {record.key: record for record in records}


def _line(record: Record) -> bytes:
    return (json.dumps(record.to_json(), sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
