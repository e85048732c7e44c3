"""The accuracy matrix for the terminal: whole, in blocks that fit side by side, or of many domains a row for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from memgrow.evaluation.history import AccuracyMatrix
from memgrow.report.table import Cell, Column, Table, numbers, percent

STAGE, DOMAIN = 24, 12  # letters of a name in a row and in a column; longer ones are folded
BETWEEN = 3  # spaces between two columns
MANY = 25  # stages or domains, beyond which a matrix is more than one can read
MOST, NEWEST = 30, 10  # domains that have a row of their own then, and how many of them are those learnt last


def is_readable(matrix: AccuracyMatrix) -> bool:
    """Whether anybody could read all fields of a matrix: if not, a row for each domain says more."""
    return max(len(matrix.rows), len(matrix.domains)) <= MANY


@dataclass(frozen=True)
class DomainScores:
    """What became of a domain: its score when it was learnt, the best since then, and that of the last stage."""

    learnt: float | None
    best: float | None
    now: float | None

    @property
    def lost(self) -> float | None:
        return None if self.best is None or self.now is None else self.best - self.now


@dataclass(frozen=True)
class MatrixTable:
    """Rows are stages, columns domains: learnt domains bright, those still to come dim."""

    matrix: AccuracyMatrix
    title: str
    digits: int = 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.title, "bold")
        if not is_readable(self.matrix):
            yield self._summary()
            return
        for domains in self._blocks(options.max_width):
            yield self._block(domains)

    @cached_property
    def _learned_at(self) -> dict[str, int]:
        return self.matrix.learned_at()

    def _summary(self) -> Table:
        """A row for each domain that was learnt; of very many for the newest, and for those that lost most."""
        scores = {name: self._scores(name, stage) for name, stage in self._learned_at.items()}
        order = list(scores)
        newest = set(order[-NEWEST:])
        shown = sorted(order, key=lambda name: (name not in newest, -(scores[name].lost or 0.0)))[:MOST]
        rows: list[Sequence[Cell]] = [(name, *self._figures([scores[name]])) for name in order if name in shown]
        if others := [scores[name] for name in order if name not in shown]:
            rows.append((f"{len(others):,} others, mean", *self._figures(others)))
        lines = [len(rows) - 1] if others else []
        columns = [Column("domain", wrap="letters", width=2 * STAGE), *numbers("learnt", "best", "now", "lost")]
        return Table(None, columns, rows, lines_above=lines)

    def _scores(self, domain: str, stage: int) -> "DomainScores":
        later = [self.matrix.score(at, domain) for at in range(stage, len(self.matrix.rows))]
        known = [score for score in later if score is not None]
        return DomainScores(later[0], max(known, default=None), later[-1])

    def _figures(self, scores: Sequence["DomainScores"]) -> list[str]:
        def mean(values: list[float | None]) -> str:
            known = [value for value in values if value is not None]
            return percent(fmean(known) if known else None, digits=self.digits)

        columns = zip(*((one.learnt, one.best, one.now, one.lost) for one in scores), strict=True)
        return [mean(list(column)) for column in columns]

    def _blocks(self, width: int) -> list[list[str]]:
        """Groups of domains that fit side by side."""
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
        return blocks

    def _block(self, domains: Sequence[str]) -> Table:
        columns = [Column(domain, right=True, wrap="letters", width=DOMAIN) for domain in domains]
        rows: list[list[Cell]] = [
            ["+".join(row.learned), *(self._cell(stage, domain) for domain in domains)]
            for stage, row in enumerate(self.matrix.rows)
        ]
        return Table(None, [Column("after learning", wrap="letters", width=STAGE), *columns], rows)

    def _cell(self, stage: int, domain: str) -> Text:
        learned = self._learned_at.get(domain)
        style = "dim" if learned is None or stage < learned else "bold" if stage == learned else ""
        return Text(percent(self.matrix.score(stage, domain), digits=self.digits), style)
