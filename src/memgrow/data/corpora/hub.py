"""MultiNLI from the Hugging Face hub, written in the corpus's own layout. Needs the extra `hub`."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from memgrow.data.corpora.checksum import Watch, unseen
from memgrow.data.corpora.multinli import HELD_OUT, MISMATCHED, TRAIN
from memgrow.errors import DataError, SettingsError

DATASET = "nyu-mll/multi_nli"
# The hub's name of each part, our file, and how many rows a whole copy has. Pairs without a gold label are not in it.
PARTS = (
    ("train", TRAIN, 392_702),
    ("validation_matched", HELD_OUT, 9_815),
    ("validation_mismatched", MISMATCHED, 9_832),
)
LABELS = ("entailment", "neutral", "contradiction")  # the hub has their numbers


def multinli_from_hub(folder: Path, watch: Watch = unseen) -> tuple[str, ...]:
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
    for part, name, rows in PARTS:
        if part not in parts or len(parts[part]) != rows:
            found = len(parts[part]) if part in parts else 0
            raise DataError(
                f"the hub's {DATASET} has {found:,} rows in its part {part} and not {rows:,}; try without --from hub"
            )
        _write(folder / name, parts[part], rows, watch)
    return tuple(f"{name}: {rows:,} rows" for _, name, rows in PARTS)


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
