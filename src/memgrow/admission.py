"""What a stage learns from, and whether it fits the learner. Each refusal is a sentence."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memgrow.data import Domain, Example
from memgrow.errors import DataError
from memgrow.models import REPLY

KINDS = {1: "text", 2: "pair"}
READS = {"text": 1, "pair": 2, REPLY: 1}  # texts
ASKS = {"text": "one text", "pair": "two texts", REPLY: "one message"}


@dataclass(frozen=True)
class Lesson:
    """The data of one stage: one domain, or several for a method that sees them together."""

    domains: tuple[Domain, ...]
    task: str
    labels: tuple[str, ...]

    @property
    def learned(self) -> tuple[str, ...]:
        return tuple(domain.name for domain in self.domains)

    @property
    def name(self) -> str:
        return "+".join(self.learned)

    @property
    def train(self) -> list[Example]:
        return [example for domain in self.domains for example in domain.train]

    @property
    def validation(self) -> list[Example]:
        return [example for domain in self.domains for example in domain.validation]

    @property
    def fingerprint(self) -> str:
        return "+".join(domain.fingerprint() for domain in self.domains)


def admit(domains: Sequence[Domain], task: str | None, labels: Sequence[str] | None) -> Lesson:
    """A lesson of domains that can be learnt; task and labels, where not settled yet, are theirs."""
    for domain in domains:
        for part in ("train", "validation"):
            if not getattr(domain, part):
                raise DataError(f"{domain.name} has no {part} examples: give more rows, or that part's own file")
        if len(domain.labels) < 2 and not domain.has_replies:
            only = ", ".join(domain.labels) or "no label"
            raise DataError(f"all training examples of {domain.name} have one class ({only}): two are needed")
    first = domains[0].train[0]
    task = task or (KINDS[len(first.texts)] if first.reply is None else REPLY)
    known = tuple(labels or sorted({label for domain in domains for label in domain.labels}))
    for domain in domains:
        check_examples((*domain.train, *domain.validation, *domain.test), task, known)
    return Lesson(tuple(domains), task, known)


def check_examples(examples: Iterable[Example], task: str, labels: Sequence[str] | None) -> None:
    """Every example has as many texts as the task asks for and, where labels are given, one of them, or a reply."""
    for number, example in enumerate(examples, 1):
        where = example.where or f"example {number}"
        if len(example.texts) != READS[task]:
            raise DataError(f"{where}: this model reads {ASKS[task]}, but the example has {len(example.texts)}")
        if (task == REPLY) != (example.reply is not None) and labels is not None:
            has = "no reply" if task == REPLY else "a reply and no label"
            raise DataError(
                f"{where}: this model answers with {'words' if task == REPLY else 'labels'}, but there is {has}"
            )
        if task != REPLY and labels is not None and example.label not in labels:
            raise DataError(f"{where}: unknown label {example.label!r}; this model knows {', '.join(labels)}")


def most_frequent_share(examples: Sequence[Example]) -> float:
    """What one gets right without reading: the share of the most frequent label; of replies, nothing."""
    if any(example.reply is not None for example in examples):
        return 0.0
    return max(Counter(example.label for example in examples).values()) / len(examples)
