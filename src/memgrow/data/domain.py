"""Examples, domains and streams. Work is found again by fingerprints: the bytes that are hashed must never change."""

import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, overload

from memgrow.data.disk import kind_of, lone_surrogate, name_of
from memgrow.errors import DataError, printable

PARTS = ("train", "validation", "test")
SHORT = 24  # hexadecimal digits of a short fingerprint
STRING_OR_NONE = {str, type(None)}


@dataclass(frozen=True, slots=True)
class Example:
    """One text, or two for a pair task, with its label (kept as a string) or its reply where known."""

    text: str
    pair: str | None = None
    label: str | None = None
    where: str = field(default="", compare=False)  # "reviews.jsonl, line 7", for error messages
    reply: str | None = None  # the target of a dialogue model

    def __post_init__(self) -> None:
        if type(self.text) is not str or {type(self.pair), type(self.label), type(self.reply)} - STRING_OR_NONE:
            for role in ("text", "pair", "reply"):
                if role == "text" or getattr(self, role) is not None:
                    object.__setattr__(self, role, _as_text(getattr(self, role), role, self.where))
            if self.label is not None:
                object.__setattr__(self, "label", as_label(self.label, self.where))

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that a model reads."""
        return (self.text,) if self.pair is None else (self.text, self.pair)


def _as_text(value: object, role: str, where: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{where or 'an example'}: the {role} is {kind_of(value)}; give a string")
    return str(value)


def as_label(value: object, where: str = "") -> str:
    """A label as the string it is kept as."""
    if (name := name_of(value)) is None:
        raise DataError(f"{where or 'an example'}: the label is {kind_of(value)}; give a string or an int")
    return name


@dataclass(frozen=True)
class Domain:
    """A named set of examples in three parts. `from_rows` makes one of rows, frames and datasets."""

    name: str
    train: Sequence[Example] = ()
    validation: Sequence[Example] = ()
    test: Sequence[Example] = ()

    def __post_init__(self) -> None:
        check_name(self.name)
        for part in PARTS:
            examples = getattr(self, part)
            if not isinstance(examples, Sequence) or not all(isinstance(one, Example) for one in examples):
                raise DataError(f"the {part} part of {self.name} is not a list of Examples; see Domain.from_rows")

    @classmethod
    def from_rows(cls, name: str, rows: object, **options: Any) -> "Domain":
        """A domain of dicts, tuples, examples, a frame or columns; options as for `Columns` and `load_rows`."""
        from memgrow.data.load import load_rows
        from memgrow.data.rows import Columns

        columns = {role: options.pop(role) for role in Columns.__dataclass_fields__ if role in options}
        loaded = load_rows(rows, name, columns=Columns(**columns), **options)
        for sentence in loaded.warnings:
            warnings.warn(sentence, stacklevel=2)
        return loaded.stream[name]

    @classmethod
    def from_pandas(cls, name: str, frame: object, **options: Any) -> "Domain":
        """A domain of a pandas or polars frame; options as for `from_rows`."""
        return cls.from_rows(name, frame, **options)

    @classmethod
    def from_dataset(cls, name: str, dataset: object, **options: Any) -> "Domain":
        """A domain of a Hugging Face Dataset, or of a DatasetDict by its splits; options as for `from_rows`."""
        return cls.from_rows(name, dataset, **options)

    def __repr__(self) -> str:
        parts = ", ".join(f"{part}: {len(getattr(self, part)):,}" for part in PARTS)
        return f"Domain({self.name!r}, {parts})"

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the training part, sorted; none in data with replies."""
        return tuple(sorted({example.label for example in self.train if example.label is not None}))

    @property
    def has_replies(self) -> bool:
        return any(example.reply is not None for example in chain(self.train, self.validation, self.test))

    def fingerprint(self) -> str:
        """The SHA-256 of name, training and validation examples, by which a stage knows its data."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256(self.name.encode(errors="surrogateescape"))
        for part in (self.train, self.validation):
            digest.update(b"\x1d")
            for example in part:
                fields = [example.text, example.pair or "", example.label or ""]
                fields += [] if example.reply is None else [example.reply]
                try:
                    digest.update("\x1f".join(fields).encode() + b"\x1e")
                except UnicodeEncodeError as error:
                    place = example.where or f"an example of {self.name}"
                    raise DataError(f"{place} holds a lone surrogate; remove it") from error
        return digest.hexdigest()


def check_name(domain: object) -> None:
    """Refuse a domain's name that is not a string, or that cannot be saved."""
    if not isinstance(domain, str):
        raise DataError(f"the name of a domain is {kind_of(domain)}, not a string")
    if lone_surrogate(domain) is not None:
        raise DataError(f"the domain name {printable(domain)} cannot be saved as UTF-8; rename the file or domain")


class Stream(Sequence[Domain]):
    """Domains in the order in which they arrive: iterate it, slice it, or get a domain by name."""

    def __init__(self, domains: Iterable[Domain]) -> None:
        self._domains = tuple(domains) if isinstance(domains, Iterable) else ()
        if not isinstance(domains, Iterable) or not all(isinstance(one, Domain) for one in self._domains):
            raise DataError("a stream is made of a list of domains; Domain.from_rows makes a domain")
        names = self.names
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise DataError(f"a stream names each domain once, but {', '.join(twice)} comes more than once")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(domain.name for domain in self._domains)

    @overload
    def __getitem__(self, key: int | str) -> Domain: ...
    @overload
    def __getitem__(self, key: slice) -> "Stream": ...
    def __getitem__(self, key: int | str | slice) -> "Domain | Stream":
        if isinstance(key, slice):
            return Stream(self._domains[key])
        if isinstance(key, int):
            return self._domains[key]
        for domain in self._domains:
            if domain.name == key:
                return domain
        raise DataError(f"no domain {key!r} in this stream; it has {', '.join(self.names) or 'none'}")

    def __iter__(self) -> Iterator[Domain]:
        return iter(self._domains)

    def __len__(self) -> int:
        return len(self._domains)

    def __repr__(self) -> str:
        return f"Stream({' -> '.join(self.names)})"


def domain_fingerprint(domain: Domain) -> str:
    """The fingerprint of all three parts."""
    parts = (domain.name, *map(_digest, (domain.train, domain.validation, domain.test)), "")
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:SHORT]


def _digest(examples: Iterable[Example]) -> str:
    digest = hashlib.sha256()
    for example in examples:
        answer = example.label if example.reply is None else [example.reply]
        digest.update(json.dumps((example.texts, answer)).encode() + b"\n")
    return digest.hexdigest()
