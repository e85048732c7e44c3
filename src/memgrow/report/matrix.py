"""The accuracy matrix in the terminal, in as many blocks as its width asks for."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from memgrow.metrics import AccuracyMatrix
from memgrow.report.percent import percent

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
