"""What a learner has been through, as lines and tables for the terminal. Names are a user's, and never markup."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from memgrow.data import Example
from memgrow.data.batches import collate
from memgrow.errors import counted
from memgrow.experiments.reply_records import ReplyFigures
from memgrow.history import History, Stage
from memgrow.learner import Answer, Learner
from memgrow.methods import LETTERS, METHODS, Grew
from memgrow.metrics import AccuracyMatrix
from memgrow.nn import MemoryBank, count_parameters
from memgrow.report.table import percent


def about(learner: Learner) -> dict[str, Any]:
    model = learner.trained()
    slots: dict[str, int] = {}
    for segment in model.banks[0].segments if model.banks else ():
        slots[segment.domain] = slots.get(segment.domain, 0) + segment.stop - segment.start
    return {
        "task": learner.task,
        "labels": list(learner.labels or ()),
        "method": learner.method.name,
        "domains": list(learner.history.domains),
        "slots_in_each_bank": slots,
        "banks": sum(isinstance(part, MemoryBank) and len(part) > 0 for part in model.modules()),
        "words": len(learner.vocabulary) - 2,
        "hidden_units": model.encoder.hidden_units,
        "parameters": count_parameters(model),
    }


def about_table(learner: Learner) -> Table:
    """The same for the terminal."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in about(learner).items():
        table.add_row(name.replace("_", " "), Text(_in_words(value)))
    return table


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_in_words(part)}" for name, part in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_in_words, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


TITLES = {"reply": "test: 100 / perplexity"}
ACCURACY = "test accuracy, %"
STAGE, DOMAIN = 24, 12  # letters of a name in a row and in a column; longer ones are folded
BETWEEN = 3  # spaces between two columns


def matrix_title(task: str | None) -> str:
    """What the matrix of a model for that task holds."""
    return TITLES.get(task or "", ACCURACY)


@dataclass(frozen=True)
class MatrixTable:
    """Rows are stages, columns domains: learnt domains bright, those still to come dim."""

    matrix: AccuracyMatrix
    title: str
    digits: int = 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.title, "bold")
        for domains in self._blocks(options.max_width):
            yield self._block(domains)

    def _blocks(self, width: int) -> list[Sequence[str]]:
        """Runs of domains that fit side by side."""
        names = ["after learning", *("+".join(row.learned) for row in self.matrix.rows)]
        room = width - min(max(map(len, names)), STAGE) - BETWEEN
        blocks: list[list[str]] = [[]]
        left = room
        for domain in self.matrix.domains:
            wide = min(max(len(domain), len("100.0")), DOMAIN) + BETWEEN
            if wide > left and blocks[-1]:
                blocks.append([])
                left = room
            blocks[-1].append(domain)
            left -= wide
        return list(blocks)

    def _block(self, domains: Sequence[str]) -> Table:
        table = Table(box=box.SIMPLE_HEAD)
        table.add_column("after learning", overflow="fold", max_width=STAGE)
        for domain in domains:
            table.add_column(Text(domain), justify="right", overflow="fold", max_width=DOMAIN)
        learned_at = self.matrix.learned_at()
        for stage, row in enumerate(self.matrix.rows):
            cells = [
                Text(
                    percent(self.matrix.score(stage, domain), digits=self.digits),
                    _style(stage, learned_at.get(domain)),
                )
                for domain in domains
            ]
            table.add_row(Text("+".join(row.learned)), *cells)
        return table


def _style(stage: int, learned: int | None) -> str:
    return "dim" if learned is None or stage < learned else "bold" if stage == learned else ""


LONGEST = 60  # letters of a text that stand above its table


def reading_shares(learner: Learner, example: Example) -> list[dict[str, float]]:
    """For each bank, how the attention that a text pays divides among the domains' slots."""
    read = [{domain: float(share.sum()) for domain, share in shares.items()} for shares in learner.reading(example)]
    # Nothing is read behind a text's end, so what all domains get together is the number of words.
    return [{domain: amount / (sum(bank.values()) or 1) for domain, amount in bank.items()} for bank in read]


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


HEADS = {"bleu2": "BLEU-2", "distinct1": "dist-1", "distinct2": "dist-2", "w2v_similarity": "W2V-Sim"}
NAMES = {
    "average": "average accuracy at the end",
    "forgetting": "forgetting (best minus last)",
    "backward_transfer": "backward transfer",
    "forward_transfer": "forward transfer",
}
GROWN = {"slots": "slot", "hidden": "hidden unit", "words": "word", "columns": "column"}


def summary_line(history: History) -> str:
    """Average, forgetting and transfer in one line, as far as they are known."""
    parts = [
        f"{NAMES[name]} {percent(value, name != 'average')}"
        for name, value in history.summary().items()
        if value is not None
    ]
    untested = [name for name in history.domains if history.matrix.score(-1, name) is None]
    if parts and untested:
        parts.append(f"not tested at the end: {', '.join(untested)} (--watch FILE tests earlier domains)")
    return "; ".join(parts)


def growth(grew: Grew) -> str:
    """What a stage added to a model, in words."""
    # A new model is a column itself: that goes without saying.
    added = {what: count for what, count in vars(grew).items() if count and not (what == "columns" and grew.hidden)}
    return ", ".join(counted(count, GROWN[what]) for what, count in added.items()) or "nothing"


def stage_line(stage: Stage) -> Text:
    return Text.assemble(
        ("+".join(stage.learned), "bold"),
        f": {counted(stage.examples, 'example')}, {counted(stage.epochs, 'epoch')}, {stage.seconds:.0f} s; "
        f"validation {percent(stage.validation)}%; grew {growth(stage.grew)}",
    )


def stages_table(history: History) -> Table:
    table = _table("stages")
    for name in ("domain", "method", "grew", "parameters", "epochs", "valid.", "seconds"):
        table.add_column(name, overflow="fold", justify="left" if name in ("domain", "method", "grew") else "right")
    for stage in history.stages:
        table.add_row(
            Text("+".join(stage.learned)),
            stage.method,
            growth(stage.grew),
            f"{stage.parameters:,}",
            f"{stage.best_epoch}/{stage.epochs}",
            percent(stage.validation),
            f"{stage.seconds:.1f}",
        )
    for column in table.columns[3:]:
        column.no_wrap = True
    return table


def scores_table(scores: Mapping[str, float], examples: Mapping[str, int]) -> Table:
    table = _table()
    table.add_column("domain", overflow="fold")
    table.add_column("examples", justify="right", no_wrap=True)
    table.add_column("accuracy, %", justify="right", no_wrap=True)
    for name, score in scores.items():
        table.add_row(Text(name), f"{examples[name]:,}", percent(score))
    return table


def replies_table(figures: Mapping[str, ReplyFigures]) -> Table:
    table = _table()
    table.add_column("domain", overflow="fold")
    kinds = {"examples": ",.0f", "perplexity": ".1f", "bleu2": ".2f", "distinct1": ".3f", "distinct2": ".3f"}
    kinds |= {"length": ".1f", "w2v_similarity": ".3f"}
    found = {name: one.to_json() for name, one in figures.items()}
    shown = [kind for kind in kinds if any(kind in one for one in found.values())]
    for kind in shown:
        table.add_column(HEADS.get(kind, kind), justify="right", no_wrap=True)
    for name, one in found.items():
        table.add_row(Text(name), *(format(one[kind], kinds[kind]) for kind in shown))
    return table


def methods_table() -> Table:
    table = _table()
    for name in ("method", "grows", "sees", "what it does"):
        table.add_column(name, overflow="fold", no_wrap=name in ("method", "sees"))
    for method in METHODS.values():
        sees = "all data" if method.together else "new data"
        table.add_row(method.name, ", ".join(method.grows) or "nothing", sees, method.about)
    return table


def letters_table() -> Table:
    table = _table("letters behind a name, as in F+V+A")
    table.add_column("letter")
    table.add_column("what it does", overflow="fold")
    for name, letter in LETTERS.items():
        table.add_row(name, letter.about)
    return table


def _table(title: str | None = None) -> Table:
    return Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
