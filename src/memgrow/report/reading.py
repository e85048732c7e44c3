"""Whose slots a text reads: shares of attention by bank and domain, and as a table for the terminal."""

from collections.abc import Sequence
from statistics import fmean

from rich.console import Group, RenderableType
from rich.text import Text

from memgrow.data import Example
from memgrow.errors import listed
from memgrow.evaluation.attention import additions_by_bank, attention_by_bank, unknown_words
from memgrow.learner import Learner
from memgrow.models import REPLY, PretrainedEncoder
from memgrow.report.table import Column, Table, percent

LONGEST = 60  # letters of a text that stand above its table
MOST = 30  # rows of a table that has one for each domain


def reading_table(learner: Learner, example: Example) -> RenderableType:
    """A table of how the attention that a text pays divides among the domains' slots, by bank and on the mean."""
    banks = attention_by_bank(learner, example)
    domains = list(dict.fromkeys(domain for shares in banks for domain in shares))
    if not domains:
        return Group(Text("This model has no slots that a text could read."), *map(Text, _about_text(learner, example)))
    text = Text(" | ".join(example.texts), "bold")
    text.truncate(LONGEST, overflow="ellipsis")
    encoder = learner.trained().encoder
    layers = encoder.memory_layers if isinstance(encoder, PretrainedEncoder) else ()
    places = [f"layer {layer}" for layer in layers] or [f"bank {number}" for number in range(1, len(banks) + 1)]
    names = [f"{place}, %" for place in (*places, "mean")]
    adds = additions_by_bank(learner, example)
    names += ["adds, %"] if adds else []

    def figures(some: Sequence[str]) -> list[str]:
        shares = [fmean(bank[domain] for domain in some) for bank in banks]
        added = [fmean(bank[domain] for bank in adds for domain in some)] if adds else []
        return [percent(value) for value in (*shares, fmean(shares), *added)]

    most = set(sorted(domains, key=lambda domain: -sum(bank[domain] for bank in banks))[:MOST])
    rows = [(domain, *figures([domain])) for domain in domains if domain in most]
    if others := [domain for domain in domains if domain not in most]:
        rows.append((f"{len(others):,} others, mean", *figures(others)))
    columns = [Column("reads slots of", wrap="letters"), *(Column(name, right=True) for name in names)]
    table = Table(text, columns, rows, min_width=LONGEST)
    if len(domains) == 1:
        return Group(table, Text(_only(domains[0], learner)), *map(Text, _about_text(learner, example)))
    return Group(table, *map(Text, _about_text(learner, example)))


def _only(domain: str, learner: Learner) -> str:
    """Why all slots are of one domain, and what to do for those who would like to see more."""
    if len(learner.history.domains) < 2:
        return f"All slots are of {domain}, the only domain so far."
    return (
        f"All slots are of {domain}, as {learner.method.name} adds none for later domains, so that the shares say "
        "nothing; a method with M, such as F+M+V, adds some for each."
    )


def _about_text(learner: Learner, example: Example) -> list[str]:
    """What the model answers to a text, and which of its words it does not know."""
    lines = []
    if learner.task == REPLY:
        (reply,) = learner.reply([example])
        lines.append(f"Its reply: {reply.text}")
    else:
        (answer,) = learner.predict([example])
        lines.append(f"Its answer: {answer.label} ({percent(answer.confidence)}%)")
    if unknown := unknown_words(learner, example):
        lines.append(f"Words that it does not know: {listed(unknown)}")
    return lines
