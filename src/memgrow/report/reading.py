"""Whose slots a text reads, as a table for the terminal."""

from statistics import fmean

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from memgrow.data import Example
from memgrow.learner import Learner
from memgrow.report.percent import percent

LONGEST = 60  # letters of a text that stand above its table


def reading_shares(learner: Learner, example: Example) -> list[dict[str, float]]:
    """For each bank, how the attention that a text pays divides among the domains' slots."""
    read = [{domain: float(share.sum()) for domain, share in shares.items()} for shares in learner.reading(example)]
    # Nothing is read behind a text's end, so what all domains get together is the number of words.
    return [{domain: amount / (sum(bank.values()) or 1) for domain, amount in bank.items()} for bank in read]


def reading_table(learner: Learner, example: Example) -> RenderableType:
    """How the attention that a text pays divides among the domains' slots, bank by bank and on the mean."""
    banks = reading_shares(learner, example)
    domains = list(dict.fromkeys(domain for shares in banks for domain in shares))
    if not domains:
        return "This model has no slots that a text could read."
    text = Text(" | ".join(example.texts), "bold")
    text.truncate(LONGEST, overflow="ellipsis")
    table = Table(title=text, title_justify="left", title_style="", box=box.SIMPLE_HEAD, min_width=LONGEST)
    table.add_column("reads slots of", overflow="fold")
    for name in (*(f"bank {number}, %" for number in range(1, len(banks) + 1)), "mean, %"):
        table.add_column(name, justify="right")
    for domain in domains:
        cells = [shares[domain] for shares in banks]
        table.add_row(Text(domain), *map(percent, cells), percent(fmean(cells)))
    return table
