"""Short names for data: the same for the same examples, another for any others."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from memgrow.data import Domain, Example
from memgrow.errors import DataError

LENGTH = 24  # hexadecimal digits


def of_domain(domain: Domain, beside: str = "") -> str:
    """Of all three parts, and of what else decides what is learnt from them."""
    parts = (domain.train, domain.validation, domain.test)
    return _short(domain.name, *map(_examples, parts), beside)


def of_held_out(domain: Domain) -> str:
    """Of the examples that a model is tried on."""
    return _short(_examples(domain.validation), _examples(domain.test))


def of_file(path: str | Path) -> str:
    """Of a file's content, whatever its name."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:LENGTH]
    except OSError as error:
        raise DataError(f"cannot read {path} ({error.strerror}): check the name") from error


def _examples(examples: Iterable[Example]) -> str:
    digest = hashlib.sha256()
    for example in examples:
        answer = example.label if example.reply is None else [example.reply]
        digest.update(json.dumps((example.texts, answer)).encode() + b"\n")
    return digest.hexdigest()


def _short(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:LENGTH]
