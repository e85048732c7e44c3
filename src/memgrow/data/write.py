"""A stream as files, one for each domain, as a user would have brought them."""

import json
from pathlib import Path

from memgrow.data.domain import Domain, Example, Stream
from memgrow.data.splits import PARTS
from memgrow.errors import DataError


def write_jsonl(stream: Stream, folder: str | Path) -> list[Path]:
    """Write each domain to DOMAIN.jsonl in the folder, with a split column; load_stream reads them back."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(domain, folder) for domain in stream]


def _write(domain: Domain, folder: Path) -> Path:
    path = folder / f"{domain.name}.jsonl"
    if path.name != f"{domain.name}.jsonl":
        raise DataError(f"the domain {domain.name!r} cannot name a file in {folder}; rename it without slashes")
    # Written beside and renamed, so that a reader never sees half a file.
    unfinished = path.with_name(path.name + ".part")
    with unfinished.open("w", encoding="utf-8", newline="\n") as file:
        for part in PARTS:
            for example in getattr(domain, part):
                file.write(json.dumps(_fields(example) | {"split": part}, ensure_ascii=False) + "\n")
    return unfinished.replace(path)


def _fields(example: Example) -> dict[str, str]:
    if example.reply is not None:
        return {"message": example.text, "response": example.reply}
    texts = {"text": example.text} if example.pair is None else {"premise": example.text, "hypothesis": example.pair}
    return texts if example.label is None else texts | {"label": example.label}
