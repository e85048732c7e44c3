"""Rehearsal (experience replay): a few rows of each domain are kept, and are learnt again with every later one.

The only method that keeps data of earlier domains, as plain text beside the model's weights. So it is marked wherever
methods are named, and nothing takes it unless somebody names it.
"""

import copy
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, zip_longest
from typing import Any

import torch

from memgrow.data import Example
from memgrow.methods.plugin import KeptExamples, MethodSettings, Plugin
from memgrow.models import REPLY
from memgrow.seeding import derive

MOST_BYTES = 2**28  # of all rows that are kept: half of what a file of a model's folder may have
COLUMNS = ("text", "pair", "label", "reply")  # of a row that is kept; of where it came from nothing is


class Rehearsal(Plugin):
    """Of each domain `rehearse` rows are kept, and an epoch of a later one has all of them beside its own.

    They are repeated, each equally often, until they are about `rehearsal_share` of the epoch: a hundred rows among ten
    thousand others would hardly count. Batches are then drawn from all alike.
    """

    keeps_examples = True
    reads = ("rehearse", "rehearsal_share")

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__(settings)
        self.kept: dict[str, tuple[Example, ...]] = {}  # by domain

    def keep_examples(self, domain: str, examples: Sequence[Example], seed: int) -> dict[str, Any]:
        labels = [example.label for example in examples]
        chosen = draw_balanced(labels, self.settings.rehearse, derive(seed, "rehearsal"))
        others = sum(map(size_of, (row for name, rows in self.kept.items() if name != domain for row in rows)))
        rows = [plain(examples[index]) for index in chosen]
        sizes = accumulate(map(size_of, rows), initial=others)
        next(sizes)
        self.kept[domain] = tuple(row for row, size in zip(rows, sizes, strict=True) if size <= MOST_BYTES)
        return {"rows_kept": len(self.kept[domain])}

    def kept_examples(self) -> KeptExamples:
        return self.kept

    def take_examples(self, kept: KeptExamples) -> None:
        self.kept = {domain: tuple(examples) for domain, examples in kept.items()}

    def mixed_in(self, count: int) -> tuple[Sequence[Example], int]:
        rows = [example for examples in self.kept.values() for example in examples]
        share = self.settings.rehearsal_share
        return rows, max(1, round(share / (1 - share) * count / max(1, len(rows))))

    def stacked(self, others: Sequence[Plugin]) -> "Rehearsal":
        return copy.copy(self)  # nothing that it holds is needed while a stack trains: the rows are in its data


def plain(example: Example) -> Example:
    """The same without the file and the line that it came from."""
    return replace(example, where="")


def size_of(example: Example) -> int:
    """The bytes of a row in the file, about."""
    return sum(len(json.dumps(getattr(example, name), ensure_ascii=False).encode()) for name in COLUMNS)


def draw_balanced(labels: Sequence[str | None], count: int, seed: int) -> list[int]:
    """The numbers of so many examples, drawn at random, equally many of each label as far as there are."""
    generator, by_label = torch.Generator().manual_seed(seed), dict[str | None, list[int]]()
    for index in torch.randperm(len(labels), generator=generator).tolist():
        by_label.setdefault(labels[index], []).append(index)
    # Round by round, one of each label: the last round, which may be cut off, begins with the label drawn first.
    rounds = zip_longest(*by_label.values())
    return [index for drawn in rounds for index in drawn if index is not None][:count]


def fits_task(example: Example, task: str, labels: Collection[str]) -> bool:
    """Whether a model for that task can learn the example: so many texts, and one of the labels or a reply."""
    paired, replied = example.pair is not None, example.reply is not None
    answered = example.label is None if task == REPLY else example.label in labels
    return answered and paired == (task == "pair") and replied == (task == REPLY)


def pack_examples(kept: Mapping[str, KeptExamples]) -> dict[str, Any]:
    """What each plugin keeps, by its name and by domain, as JSON: a list for each column, as long as there are rows."""
    return {
        part: {domain: _columns(examples) for domain, examples in domains.items()} for part, domains in kept.items()
    }


def unpack_examples(value: Mapping[str, Any]) -> dict[str, KeptExamples]:
    """What `pack_examples` was given; where it does not make sense, an error of those that any value may raise."""
    return {
        part: {domain: tuple(_rows(columns)) for domain, columns in domains.items()} for part, domains in value.items()
    }


def _columns(examples: Sequence[Example]) -> dict[str, list[str]]:
    """Only those that are not empty: all rows of a domain are of one kind."""
    found = {name: [getattr(example, name) for example in examples] for name in COLUMNS}
    return {name: values for name, values in found.items() if None not in values}


def _rows(columns: Mapping[str, Sequence[str]]) -> list[Example]:
    if set(columns) - set(COLUMNS) or "text" not in columns or not all(isinstance(c, list) for c in columns.values()):
        raise ValueError("the columns are others than those of rows")
    if not all(isinstance(value, str) for column in columns.values() for value in column):
        raise ValueError("a value is no text")
    return [
        Example(row["text"], row.get("pair"), row.get("label"), reply=row.get("reply"))
        for row in (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    ]
