"""The stages of a model and the versions of it that are still there, as a table for the terminal."""

from collections.abc import Sequence
from statistics import fmean

from memgrow.evaluation.history import AccuracyMatrix, History, Stage
from memgrow.models import REPLY
from memgrow.report.table import MISSING, Column, Table, numbers, percent, score_cell
from memgrow.storage.versions import SavedVersion

DAY = len("2026-01-31")  # letters of a date


def history_table(history: History, versions: Sequence[SavedVersion], task: str | None = None) -> Table:
    """A row for each stage: how it went, what it cost of earlier domains, and whether one can go back to it."""
    replies = task == REPLY  # of which scores are perplexities, and forgetting has no unit that anybody knows
    scores = ("valid. ppl", "test ppl") if replies else ("valid.", "test", "forgot")
    there = {one.number: "damaged" if one.history is None else in_bytes(one.own) for one in versions}
    names = [Column("domain", wrap="letters"), Column("method", wrap="letters"), Column("date", wrap="never")]
    columns = [*numbers("#"), *names, *numbers("examples", *scores, "kept", "rows", "on disk")]
    rows: list[tuple[str, ...]] = [
        (
            str(number),
            "+".join(stage.learned),
            stage.method,
            (stage.date or MISSING)[:DAY],
            f"{stage.examples:,}",
            score_cell(stage.validation, replies),
            score_cell(_tested(history.matrix, number - 1, stage), replies),
            *(() if replies else (percent(AccuracyMatrix(history.matrix.rows[:number]).forgetting(), sign=True),)),
            percent(share_kept(stage, number), digits=0),
            str(rows_kept(stage) or MISSING),
            there.get(number, MISSING),
        )
        for number, stage in enumerate(history.stages, 1)
    ]
    stages = list(enumerate(history.stages, 1))
    unsaid = {"kept": all(share_kept(stage, number) is None for number, stage in stages)}
    unsaid |= {"rows": all(rows_kept(stage) is None for _, stage in stages)}
    shown = [at for at, column in enumerate(columns) if not unsaid.get(column.name, False)]
    columns, rows = [columns[at] for at in shown], [tuple(row[at] for at in shown) for row in rows]
    return Table(None, columns, rows, layout="open")


def share_kept(stage: Stage, number: int) -> float | None:
    """How far a method went back to the old weights; None of one that does not, and of the first domain."""
    keep = stage.note.get("keep")
    return keep if number > 1 and isinstance(keep, int | float) else None


def rows_kept(stage: Stage) -> int | None:
    """The number of rows of its data that a method kept; None of one that keeps none."""
    count = stage.note.get("rows_kept")
    return count if isinstance(count, int) else None


def _tested(matrix: AccuracyMatrix, row: int, stage: Stage) -> float | None:
    """The accuracy on the test examples of what was learnt in a stage, right after it."""
    scores = [score for name in stage.learned if (score := matrix.score(row, name)) is not None]
    return fmean(scores) if scores else None


def in_bytes(size: int) -> str:
    """A size as people read it."""
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"
