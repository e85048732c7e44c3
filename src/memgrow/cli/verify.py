"""`memgrow verify`: whether a model's folder is whole, and what is wrong with it if it is not."""

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import say, write_json
from memgrow.errors import ModelError, counted
from memgrow.printable import printable

DAMAGED = 1  # exit code


def verify(model: opt.Model, as_json: opt.AsJson = False) -> None:
    """Whether a model's folder is whole; what is wrong with it, if it is not.

    Example: memgrow verify model/
    """
    from memgrow.checkpoint import checkpoint_files, find_faults
    from memgrow.manifest import Manifest, strangers

    if not model.exists():
        raise ModelError(f"there is no model at {model}: check the name")
    faults = find_faults(model)
    earlier = Manifest.of(model).earlier
    damaged = {number: found for number in earlier if (found := find_faults(model, number))}
    of_earlier = [f"its version after stage {number}: {fault}" for number in damaged for fault in damaged[number]]
    if as_json:
        whole = not (faults or of_earlier)
        write_json({"whole": whole, "faults": [*map(str, faults), *of_earlier], "earlier_versions": list(earlier)})
    for fault in (*faults, *of_earlier):
        say(printable(fault), soft_wrap=True)
    if model.is_dir() and (others := strangers(model)):
        say(printable(f"not of the model, and left alone: {', '.join(others)}"), "dim")
    if faults and len(damaged) < len(earlier):
        say("`memgrow undo` goes back to an earlier version, if that is whole.")
    if faults or of_earlier:
        raise typer.Exit(DAMAGED)
    more = f" and {counted(len(earlier), 'earlier version')}" if earlier else ""
    say(f"{model} is whole: {counted(len(checkpoint_files(model)), 'file')}{more}, each as it was written.")
