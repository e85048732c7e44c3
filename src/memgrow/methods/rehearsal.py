"""Rehearsal (experience replay): a few rows of each domain are kept and trained on again with every later one.

Rehearsal and the other methods with an episodic memory are the only ones that keep data of earlier domains, as plain
text with the model. They are marked wherever methods are listed, and are never a default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, ClassVar

import torch

from memgrow.data import Example
from memgrow.methods.base import FinishedDomain, Method, option
from memgrow.nn.device import derive


@dataclass(frozen=True)
class EpisodicOptions:
    rehearse: int = option(100, least=1)  # rows of each domain that are kept with the model


@dataclass(frozen=True)
class RehearsalOptions(EpisodicOptions):
    rehearsal_share: float = option(0.25, least=0, most=0.9)  # about the share of an epoch with old rows


class EpisodicMemory(Method):
    """Keeps `rehearse` rows of each domain. Subclasses say by `extra_rows` what they are for."""

    Options: ClassVar[type] = EpisodicOptions
    finish_order = 2

    @property
    def kept(self) -> list[Example]:
        """The rows of all domains."""
        return [example for examples in self.rows.values() for example in examples]

    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        for one in domain.domains:
            labels = [example.label for example in one.train]
            chosen = draw_balanced(labels, self.options.rehearse, derive(domain.seed, "rehearsal"))
            self.rows[one.name] = tuple(replace(one.train[index], where="") for index in chosen)
        return {"rows_kept": len(self.rows[domain.domains[-1].name])}


class Rehearsal(EpisodicMemory):
    """Repeats the rows until they are about `rehearsal_share` of an epoch."""

    about = "fine-tune on the new domain and a few rows of each earlier one: KEEPS these rows, as text, with the model"
    Options: ClassVar[type] = RehearsalOptions
    options: RehearsalOptions

    def extra_rows(self, count: int) -> Sequence[Example]:
        share = self.options.rehearsal_share
        return self.kept * max(1, round(share / (1 - share) * count / max(1, len(self.kept))))


def draw_balanced(labels: Sequence[str | None], count: int, seed: int) -> list[int]:
    """Indices of `count` examples, drawn at random and balanced over labels as far as possible."""
    generator, by_label = torch.Generator().manual_seed(seed), dict[str | None, list[int]]()
    for index in torch.randperm(len(labels), generator=generator).tolist():
        by_label.setdefault(labels[index], []).append(index)
    rounds = zip_longest(*by_label.values())  # one of each label per round; the last round may be cut off
    return [index for drawn in rounds for index in drawn if index is not None][:count]


COLUMNS = ("text", "pair", "label", "reply")


def pack_rows(rows: Mapping[str, Sequence[Example]]) -> dict[str, Any]:
    """Rows by domain as JSON: a list for each column that the rows have."""
    packed = {}
    for domain, examples in rows.items():
        columns = {name: [getattr(example, name) for example in examples] for name in COLUMNS}
        packed[domain] = {name: values for name, values in columns.items() if None not in values}
    return {Rehearsal.__name__: packed}


def unpack_rows(value: Mapping[str, Any]) -> dict[str, tuple[Example, ...]]:
    """What `pack_rows` was given; raises what wrong values raise."""
    rows = {}
    for domain, columns in value.get(Rehearsal.__name__, {}).items():
        if set(columns) - set(COLUMNS) or "text" not in columns:
            raise ValueError(f"the rows of {domain} have other columns than {', '.join(COLUMNS)}")
        if not all(isinstance(value, str) for column in columns.values() for value in column):
            raise ValueError(f"a value of {domain} is not a text")
        records = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        rows[domain] = tuple(Example(**record) for record in records)
    return rows
