"""What several commands write, and how they read a list of names."""

import json
import sys
from collections.abc import Iterable
from typing import Any

from memgrow.cli.errors import whisper
from memgrow.data import Example
from memgrow.data.records import count_cut
from memgrow.errors import counted
from memgrow.learner import Learner
from memgrow.storage import finite


def names(listed: str | None) -> list[str] | None:
    return [name.strip() for name in listed.split(",") if name.strip()] if listed else None


def write_json(value: Any, indent: int | None = None) -> None:
    """A line of JSON in UTF-8, whatever the terminal's own encoding is."""
    sys.stdout.buffer.write((json.dumps(finite(value), ensure_ascii=False, indent=indent) + "\n").encode())


def tell_of_cuts(examples: Iterable[Example], learner: Learner) -> None:
    limit = learner.training.max_words
    if cut := count_cut(examples, limit):
        whisper(f"{counted(cut, 'text')} longer than {limit} words: only the beginning is read")
