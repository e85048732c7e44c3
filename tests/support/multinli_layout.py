"""Made-up sentence pairs in MultiNLI's own layout: five genres that a small model can learn."""

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from memgrow.data import Example, synthetic_stream
from research.common.corpora import FIVE, MULTINLI

TRAIN, HELD_OUT = MULTINLI


def write_multinli(
    folder: Path, pairs_per_genre: int = 60, seed: int = 0, held_out: int = 40, compressed: bool = False
) -> Path:
    """Write training pairs and matched held-out pairs of the five genres to the folder; it is returned."""
    stream = synthetic_stream(domains=len(FIVE), train=pairs_per_genre, validation=0, test=held_out, seed=seed)
    named = list(zip(FIVE, stream, strict=True))
    ending = ".gz" if compressed else ""
    write_rows(folder / f"{TRAIN}{ending}", (as_row(genre, one) for genre, domain in named for one in domain.train))
    write_rows(folder / f"{HELD_OUT}{ending}", (as_row(genre, one) for genre, domain in named for one in domain.test))
    return folder


def as_row(genre: str, example: Example, **further: Any) -> dict[str, Any]:
    """A pair with the corpus's fields; pairs with the same premise have the same promptID."""
    prompt = hashlib.sha256(f"{genre}: {example.text}".encode()).hexdigest()[:10]
    return {
        "annotator_labels": [example.label],
        "genre": genre,
        "gold_label": example.label,
        "pairID": f"{prompt}{(example.label or '-')[0]}",
        "promptID": prompt,
        "sentence1": example.text,
        "sentence2": example.pair,
        **further,
    }


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """JSON lines, compressed if the name ends in .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(raw) if path.name.endswith(".gz") else raw)
    return path
