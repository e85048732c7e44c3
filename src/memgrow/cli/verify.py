"""`memgrow verify`: whether a model's folder is whole, and what is wrong with it if it is not."""

import typer

from memgrow.checkpoint import checkpoint_files, find_faults
from memgrow.cli import options as opt
from memgrow.cli.output import say
from memgrow.errors import ModelError, counted
from memgrow.manifest import strangers
from memgrow.printable import printable

DAMAGED = 1  # exit code


def verify(model: opt.Model) -> None:
    """Whether a model's folder is whole; what is wrong with it, if it is not.

    Example: memgrow verify model/
    """
    if not model.exists():
        raise ModelError(f"there is no model at {model}: check the name")
    faults = find_faults(model)
    for fault in faults:
        say(printable(fault), soft_wrap=True)
    if model.is_dir() and (others := strangers(model)):
        say(printable(f"not of the model, and left alone: {', '.join(others)}"), "dim")
    if faults:
        raise typer.Exit(DAMAGED)
    say(f"{model} is whole: {counted(len(checkpoint_files(model)), 'file')}, each as it was written.")
