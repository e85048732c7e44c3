"""`memgrow prune`: give up slots that nobody reads, and say what it costs before it is written."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import console, note_to_stderr, progress_console, say, split_names, write_json
from memgrow.errors import ForgettingError, SettingsError

if TYPE_CHECKING:
    from memgrow.pruning import Pruning
    from memgrow.report.table import Table


def prune(
    model: opt.Model,
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", metavar="FILE", readable=False, help="Texts of a domain whose slots may go."),
    ] = None,
    below: Annotated[
        float,
        typer.Option(metavar="SHARE", help="A slot goes that gets no more than this of its domain's reads.", min=0.0),
    ] = 0.0,
    max_loss: Annotated[
        float | None, typer.Option(metavar="POINTS", help="Write nothing if a domain loses more than this.", min=0.0)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would cost.")] = False,
    text: opt.Text = None,
    pair: opt.Pair = None,
    label: opt.Label = None,
    by: opt.By = None,
    domains: opt.Domains = None,
    split_column: opt.SplitColumn = None,
    skip_empty: opt.SkipEmpty = False,
    delimiter: opt.Delimiter = None,
    encoding: opt.Encoding = None,
    device: opt.Device = "auto",
    as_json: opt.AsJson = False,
) -> None:
    """Give up slots that texts do not read; what that costs is measured and shown before anything is written.

    Example: memgrow prune model/ --data books_test.jsonl --dry-run
    """
    from memgrow.data import load_for_evaluation
    from memgrow.forgetting import ROUNDING
    from memgrow.learner import Learner
    from memgrow.pruning import plan_pruning
    from memgrow.report.history import in_bytes
    from memgrow.report.progress_bars import TrainingBar
    from memgrow.versions import changing

    if not data:
        raise SettingsError("prune needs texts to see which slots are read: give files with --data")
    columns = opt.columns(
        text=text,
        pair=pair,
        label=label,
        by=by,
        split_column=split_column,
        delimiter=delimiter,
        encoding=encoding,
    )
    with changing(model):
        learner = Learner.load(model, device)
        loaded = load_for_evaluation(data, columns, split_names(domains), skip_empty=skip_empty)
        with TrainingBar(progress_console()) as bar:
            found = plan_pruning(learner, loaded.stream, below, bar)
        for notice in loaded.notices:
            note_to_stderr(notice)
        console.print(pruning_table(found))
        say(f"Weights: {in_bytes(found.bytes)} before, {in_bytes(found.bytes_left)} after.")
        lost = {name: 100 * (one.accuracy - one.accuracy_left) for name, one in found.domains.items()}
        if max_loss is not None and max(lost.values()) > max_loss + ROUNDING:
            worst = max(lost, key=lambda name: lost[name])
            raise ForgettingError(
                f"{worst} would lose {lost[worst]:.1f} points, and at most {max_loss:g} may be lost; nothing was "
                "written. Give a lower --below, or allow more (--max-loss)",
                {name: one.accuracy for name, one in found.domains.items()},
                {name: one.accuracy_left for name, one in found.domains.items()},
            )
        written = bool(found.slots) and not dry_run
        if written:
            learner.take(found.learnt)
            learner.save(model)
    if as_json:  # only now: it says what was written
        domains_json = {name: asdict(one) for name, one in found.domains.items()}
        sizes = {"slots": found.slots, "bytes": found.bytes, "bytes_left": found.bytes_left}
        write_json({"domains": domains_json, **sizes, "written": written}, indent=1)
    if written:
        say(f"{found.slots} slots of each bank are gone from {model}; memgrow undo brings them back.")
    else:
        say("Nothing was written." if dry_run else "All slots are read, and nothing was written.")


def pruning_table(found: "Pruning") -> "Table":
    """A row for each domain whose texts were at hand."""
    from memgrow.report.table import Table, numbers, percent

    rows = [
        [
            name,
            f"{one.slots:,}",
            f"{one.slots_left:,}",
            f"{one.examples:,}",
            percent(one.accuracy),
            percent(one.accuracy_left),
            percent(one.changed),
        ]
        for name, one in found.domains.items()
    ]
    columns = numbers("slots", "left", "texts", "accuracy, %", "after, %", "other answers, %")
    return Table(None, ["domain", *columns], rows)
