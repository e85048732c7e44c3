"""Whose slots a text reads: shares of attention by bank and domain, and as a table for the terminal."""

from collections.abc import Sequence
from statistics import fmean

import torch
from rich.console import Group, RenderableType
from rich.text import Text

from memgrow.data import Example
from memgrow.data.batches import collate
from memgrow.errors import listed
from memgrow.learner import Answer, Learner
from memgrow.models import REPLY, PretrainedEncoder
from memgrow.report.table import Column, Table, percent

LONGEST = 60  # letters of a text that stand above its table
MOST = 30  # rows of a table that has one for each domain


def reading_shares(learner: Learner, example: Example) -> list[dict[str, float]]:
    """For each bank, how the attention that a text pays divides among the domains' slots.

    In a pretrained encoder each domain has a query of its own: there it is the share, out of 1, that its slots get
    beside nothing.
    """
    read = [{domain: float(share.sum()) for domain, share in shares.items()} for shares in learner.reading(example)]
    if learner.settings.kind.is_pretrained:  # each domain is asked apart, and may have nothing to say
        pieces = sum(map(len, learner.tokens(example)))
        return [{domain: amount / pieces for domain, amount in bank.items()} for bank in read]
    # Nothing is read after a text's end, so what all domains get together is the number of words.
    return [{domain: amount / (sum(bank.values()) or 1) for domain, amount in bank.items()} for bank in read]


def added_shares(learner: Learner, example: Example) -> list[dict[str, float]]:
    """For each bank of a pretrained encoder, how much each domain's slots add to a state, as a share of its length."""
    encoder = learner.trained().eval().encoder
    if not isinstance(encoder, PretrainedEncoder):
        return []
    batch = collate(learner.encode([example], labelled=False), [0], learner.device)
    return encoder.additions(batch.words, batch.lengths)


@torch.no_grad()
def reply_shares(learner: Learner, message: str, answer: Answer) -> dict[str, float]:
    """How the attention that a message and its reply pay to the memory divides among the domains' slots."""
    model = learner.responder().eval()
    batch = collate(learner.encode([Example(message)], labelled=False), [0], learner.device)
    words = torch.tensor([answer.words or (0,)], device=learner.device)
    shares = model.reading(batch.words, batch.lengths, words, torch.tensor([len(answer.words)]))
    totals: dict[str, float] = {}
    for bank in (*shares.encoder, *shares.decoder):
        for domain, share in bank.items():
            totals[domain] = totals.get(domain, 0.0) + float(share.sum())
    whole = sum(totals.values())
    return {domain: total / whole for domain, total in totals.items()} if whole else {}


def reading_table(learner: Learner, example: Example) -> RenderableType:
    """A table of how the attention that a text pays divides among the domains' slots, by bank and on the mean."""
    banks = reading_shares(learner, example)
    domains = list(dict.fromkeys(domain for shares in banks for domain in shares))
    if not domains:
        return Group(Text("This model has no slots that a text could read."), *map(Text, _about_text(learner, example)))
    text = Text(" | ".join(example.texts), "bold")
    text.truncate(LONGEST, overflow="ellipsis")
    encoder = learner.trained().encoder
    layers = encoder.memory_layers if isinstance(encoder, PretrainedEncoder) else ()
    places = [f"layer {layer}" for layer in layers] or [f"bank {number}" for number in range(1, len(banks) + 1)]
    names = [f"{place}, %" for place in (*places, "mean")]
    adds = added_shares(learner, example)
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


def unknown_words(learner: Learner, example: Example) -> list[str]:
    """Words of a text that the model takes all for the same, as it has not stored them."""
    if learner.settings.kind.is_pretrained:
        return []
    words = (word for row in learner.tokens(example) for word in row)
    return list(dict.fromkeys(word for word in words if word not in learner.vocabulary))
