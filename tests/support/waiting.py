"""Rows of a table that wait, and whether any has: where every batch needs every row, nothing of that is tested."""

from dataclasses import replace

import pytest
from torch import Tensor

from memgrow.data import Domain
from memgrow.training.lazy_adam import ActiveRows, LazyAdam


def count_waiting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each batch by at least how many rows it leaves to wait."""
    waiting = []
    activate = LazyAdam.activate

    def counted(self: LazyAdam, numbers: Tensor) -> ActiveRows:
        active = activate(self, numbers)
        waiting.append(self.table.shape[:-1].numel() - len(active.numbers))
        return active

    monkeypatch.setattr(LazyAdam, "activate", counted)
    return waiting


def with_rare_words(domain: Domain) -> Domain:
    """Pairs of texts so short, of so many words in all, that a batch has few of them, repeats and padding included."""

    def short(text: str, number: int, kinds: str) -> str:
        letters = str(number).translate(str.maketrans("0123456789", "abcdefghij"))  # digits would be words of their own
        return " ".join([text.split()[0], *(kind + letters for kind in kinds)])

    train = [
        replace(example, text=short(example.text, number, "wx"), pair=short(str(example.pair), number, "yz"))
        for number, example in enumerate(domain.train)
    ]
    return replace(domain, train=train)
