"""`memgrow verify`: check a model's folder."""

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import say, write_json
from memgrow.errors import ModelError, counted
from memgrow.printable import printable

DAMAGED = 1  # exit code


def verify(model: opt.Model, as_json: opt.AsJson = False) -> None:
    """Check all files of a model, and that it can be loaded.

    Example: memgrow verify model/
    """
    from memgrow.storage.checkpoint import find_faults
    from memgrow.storage.versions import list_versions

    if not model.exists():
        raise ModelError(f"there is no model at {model}: check the name")
    faults = find_faults(model)
    try:
        earlier = [one.number for one in list_versions(model)[1:]]
    except ModelError:  # its manifest is among the faults
        earlier = []
    if as_json:
        write_json({"whole": not faults, "faults": faults, "earlier_versions": earlier})
    for fault in faults:
        say(printable(fault), soft_wrap=True)
    if faults:
        if any(earlier):
            say("`memgrow undo` goes back to an earlier version.")
        raise typer.Exit(DAMAGED)
    more = f" and {counted(len(earlier), 'earlier version')}" if earlier else ""
    say(f"{model} is whole: all files of it{more} are as they were written.")
