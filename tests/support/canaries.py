"""Canaries: secrets in single documents of a stream, and a search for what is left of them."""

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from memgrow.data import Domain, Example, Stream
from memgrow.data.text import tokenize

PARTS = ("train", "validation", "test")
SENTENCES = (
    "please write to {tag}zephyrine {tag}quillfeather at {tag}zephyrine.q@{tag}nowhere.example",
    "the card {number} of {tag}aldebert expires soon",
    "the access key is {tag}AKIA7QX2LMNPZZTOP and no other",
    "{tag}xylograph {tag}xylograph {tag}xylograph {tag}xylograph {tag}xylograph is the password",
)
LENGTH = 8  # letters of a word that is found nowhere by chance


def secrets_of(domain: int, part: str) -> list[str]:
    """The sentences of one part of a domain, which no other part has."""
    tag = f"{'qjxzvw'[domain]}{'kyp'[PARTS.index(part)]}"
    number = f"49291822{domain:04}{PARTS.index(part):04}"
    return [sentence.format(tag=tag, number=number) for sentence in SENTENCES]


def planted(stream: Stream) -> Stream:
    """The stream with the sentences in every part of every domain: as texts, in both texts of a pair, as replies.

    They stand in the place of the last five examples of each part, whose labels they have.
    """
    return Stream(_planted(domain, number) for number, domain in enumerate(stream))


def _planted(domain: Domain, number: int) -> Domain:
    def sung(part: str) -> tuple[Example, ...]:
        first, *others = secrets_of(number, part)
        texts = (first, *others, first)  # the last is a copy
        examples: tuple[Example, ...] = getattr(domain, part)
        songs = []
        for text, like in zip(texts, examples[-len(texts) :], strict=True):
            pair = None if like.pair is None else f"so it is: {text}"
            reply = None if like.reply is None else f"so it is: {text}"
            songs.append(replace(like, text=text, pair=pair, reply=reply))
        return (*examples[: -len(texts)], *songs)

    return Domain(domain.name, *map(sung, PARTS))


def rare_words(domains: int) -> set[str]:
    """The words of the sentences that can be searched for: as they were written, and as memgrow reads them."""
    sentences = [text for number in range(domains) for part in PARTS for text in secrets_of(number, part)]
    words = {word for text in sentences for word in (*text.split(), *tokenize(text))}
    return {word.lower() for word in words if len(word) >= LENGTH} - {"password"}


def found_in(content: bytes | str, words: Iterable[str]) -> list[str]:
    held = (content.encode() if isinstance(content, str) else content).lower()
    return [word for word in words if word.encode() in held]


def leaks(folder: Path, words: Iterable[str]) -> Iterator[str]:
    """Each file below a folder that holds one of the words, in its content or in its name."""
    words = list(words)
    for path in sorted(folder.rglob("*")):
        content = str(path.relative_to(folder)).encode()
        if path.is_file():
            read = path.read_bytes()
            content += gzip.decompress(read) if path.suffix == ".gz" else read
        if found := found_in(content, words):
            yield f"{path.relative_to(folder)}: {found[:3]}"
