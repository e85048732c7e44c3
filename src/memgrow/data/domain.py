"""Domains of examples, streams of domains, and fingerprints of their data.

A fingerprint is the same for the same data and another for any other. Finished stages and runs are found again by
fingerprints, so the bytes that are hashed here must never change.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, overload

from memgrow.data.example import Example, half_of_a_character
from memgrow.data.values import kind_of
from memgrow.errors import DataError
from memgrow.printable import printable

if TYPE_CHECKING:
    from memgrow.data.from_python import RowOptions

LENGTH = 24  # hexadecimal digits of a short fingerprint


def check_name(domain: object) -> None:
    """Refuse a domain's name that is no string, or that no file can hold, as that of a file in another encoding."""
    if not isinstance(domain, str):
        raise DataError(f"the name of a domain is {kind_of(domain)}, but must be a string")
    if (half := half_of_a_character(domain)) is not None:
        raise DataError(
            f"the name of the domain {printable(domain)} holds half a character ({half}), with which no model can be "
            "saved: give it another, or rename the file"
        )


@dataclass(frozen=True)
class Domain:
    """A named set of examples in three parts. `from_rows` makes one of rows, frames and datasets."""

    name: str
    train: Sequence[Example] = ()
    validation: Sequence[Example] = ()
    test: Sequence[Example] = ()

    def __post_init__(self) -> None:
        check_name(self.name)
        for part in ("train", "validation", "test"):
            _check_examples(getattr(self, part), part, self.name)

    @classmethod
    def from_rows(cls, name: str, rows: object, **options: Unpack["RowOptions"]) -> "Domain":
        """A domain of rows: dictionaries, tuples (text, label) or (text, pair, label), examples, or a whole frame.

        Parts that are not given (`validation`, `test`, or a column `split`) are drawn as those of files are: a tenth of
        the rows each, those with the same text together. The options `text`, `label` and so on name the columns where
        they are not called so. `memgrow.data.load_rows` does the same, makes several domains by a column, and says
        what was drawn and left out.
        """
        from memgrow.data.from_python import domain_of_rows

        return domain_of_rows(name, rows, options)

    @classmethod
    def from_pandas(cls, name: str, frame: object, **options: Unpack["RowOptions"]) -> "Domain":
        """A domain of a pandas or polars frame, or any other that has columns; the options are those of `from_rows`."""
        from memgrow.data.from_python import check_frame, domain_of_rows

        check_frame(frame)
        return domain_of_rows(name, frame, options)

    @classmethod
    def from_dataset(cls, name: str, dataset: object, **options: Unpack["RowOptions"]) -> "Domain":
        """A domain of a Hugging Face Dataset, or of a DatasetDict by the names of its splits; options of `from_rows`.

        Labels that are numbers with names (ClassLabel) go by their names.
        """
        from memgrow.data.from_python import check_dataset, domain_of_rows

        check_dataset(dataset)
        return domain_of_rows(name, dataset, options)

    def __repr__(self) -> str:
        """Without the texts: a notebook would print them all."""
        parts = ", ".join(f"{part}: {len(getattr(self, part)):,}" for part in ("train", "validation", "test"))
        return f"Domain({self.name!r}, {parts})"

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the training part, in alphabetical order; none in data with replies."""
        return tuple(sorted({example.label for example in self.train if example.label is not None}))

    @property
    def has_replies(self) -> bool:
        """Whether any of its examples has a reply."""
        return any(example.reply is not None for example in chain(self.train, self.validation, self.test))

    def fingerprint(self) -> str:
        """The fingerprint of the name and of the training and validation examples, by which a stage knows its data."""
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
                    half = half_of_a_character(error.object)
                    raise DataError(
                        f"{place} holds half a character ({half}) that stands for nothing alone; remove it"
                    ) from error
        return digest.hexdigest()


def _check_examples(part: object, called: str, domain: str) -> None:
    """Refuse a part of a domain that is no sequence of examples."""
    advice = "Domain.from_rows takes rows of other kinds, and frames"
    if not isinstance(part, Sequence) or isinstance(part, str | bytes):
        raise DataError(
            f"the {called} part of {domain} is {kind_of(part)}, but must be a list or a tuple of examples; {advice}"
        )
    for one in part:
        if not isinstance(one, Example):
            raise DataError(
                f"the {called} part of {domain} holds a row that is {kind_of(one)}, and no Example: write "
                f"Example(text, label=label); {advice}"
            )


class Stream(Sequence[Domain]):
    """Domains in the order in which they arrive: iterate it, slice it, or ask for a domain by name."""

    def __init__(self, domains: Iterable[Domain]) -> None:
        if isinstance(domains, Domain):
            raise DataError(f"several domains are asked for, and {domains.name} is one: write [{domains.name}]")
        try:
            self._domains = tuple(domains)
        except TypeError:
            raise DataError(f"a stream is made of domains, but this is {kind_of(domains)}") from None
        for one in self._domains:
            if not isinstance(one, Domain):
                raise DataError(
                    f"a stream holds domains, but one is {kind_of(one)}: Domain.from_rows makes one of rows"
                )
        names = self.names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
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


def domain_fingerprint(domain: Domain, beside: str = "") -> str:
    """The fingerprint of all three parts, and of what else (`beside`) decides what is learnt from them."""
    parts = (domain.train, domain.validation, domain.test)
    return _short(domain.name, *map(_digest, parts), beside)


def held_out_fingerprint(domain: Domain) -> str:
    """The fingerprint of the examples that a model is tried on."""
    return _short(_digest(domain.validation), _digest(domain.test))


def file_fingerprint(path: str | Path) -> str:
    """The fingerprint of a file's content, whatever its name."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:LENGTH]
    except OSError as error:
        raise DataError(f"cannot read {path} ({error.strerror}): check the name") from error


def _digest(examples: Iterable[Example]) -> str:
    digest = hashlib.sha256()
    for example in examples:
        answer = example.label if example.reply is None else [example.reply]
        digest.update(json.dumps((example.texts, answer)).encode() + b"\n")
    return digest.hexdigest()


def _short(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:LENGTH]
