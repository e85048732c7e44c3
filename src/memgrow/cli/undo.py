"""`memgrow undo`: take the last domain back."""

from typing import Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import console, say, write_json


def undo(
    model: opt.Model,
    to: Annotated[
        int | None, typer.Option(metavar="STAGE", help="Go back to after this stage: see memgrow history.", min=1)
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Take back the domain that a model learnt last; it is then as it was before.

    Example: memgrow undo model/
    """
    from memgrow.report.learner import matrix_title, summary_line
    from memgrow.report.matrix import MatrixTable
    from memgrow.storage import versions

    done = versions.undo(model, to)
    if as_json:
        taken_back = [stage.to_json() for stage in done.taken_back]
        write_json({"taken_back": taken_back, "history": done.history.to_json(), "further": done.further}, indent=1)
    taken = [f"{' and '.join(stage.learned)} ({stage.method})" for stage in done.taken_back]
    say(f"Taken back, and removed from {model}: {', '.join(taken) or 'what was damaged'}.")
    say(f"It is as it was after stage {len(done.history.stages)}, {' and '.join(done.history.stages[-1].learned)}:")
    console.print(MatrixTable(done.history.matrix, matrix_title(done.task)))
    say(summary_line(done.history, done.task))
    further = " and ".join(map(str, done.further))
    say(f"One can go back further, to stage {further}." if further else "No earlier version is kept.")
