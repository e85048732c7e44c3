"""`memgrow history`: the stages of a model, and which versions of it are still there."""

from memgrow.cli import options as opt
from memgrow.cli.output import console, say, write_json
from memgrow.errors import counted


def history(model: opt.Model, as_json: opt.AsJson = False) -> None:
    """The stages of a model, and which versions of it are kept.

    Example: memgrow history model/
    """
    from memgrow.report.history import history_table, in_bytes, rows_kept
    from memgrow.storage.versions import list_versions, newest_history, task_of

    kept = list_versions(model)
    newest = newest_history(model, kept)
    if as_json:
        sizes = [{"stage": one.number, "bytes": one.size, "bytes_of_its_own": one.own} for one in kept]
        write_json({"history": newest.to_json(), "versions": sizes}, indent=1)
        return
    console.print(history_table(newest, kept, task_of(model)))
    if any(rows_kept(stage) for stage in newest.stages):
        say("Rows: how many rehearsal kept of a domain when it was learnt; memgrow inspect says which are still there.")
    say(f"{model}: {in_bytes(sum(one.own for one in kept))} with {counted(len(kept) - 1, 'earlier version')}.")
