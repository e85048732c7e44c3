"""`memgrow export-domain` and `import-domain`: a domain as a small file, out of one model and into another."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import say, write_json

Name = Annotated[str, typer.Argument(metavar="DOMAIN", help="The domain's name.", show_default=False)]
File = Annotated[Path, typer.Argument(readable=False, metavar="FILE", help="The domain's file.", show_default=False)]


def export_domain(
    model: opt.Model,
    domain: Name,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The file to write; DOMAIN.memgrow unless given."),
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Write what a domain has of its own in a model, its slots and its head, as one small file.

    Example: memgrow export-domain model/ books -o books.memgrow
    """
    from memgrow.learner import Learner
    from memgrow.report.history import in_bytes
    from memgrow.storage import check_output

    path = output or Path(f"{domain}.memgrow")
    check_output(path)
    Learner.load(model, "cpu").export_domain(domain, path)
    if as_json:
        write_json({"domain": domain, "file": str(path), "bytes": path.stat().st_size})
    say(f"{domain} is in {path} ({in_bytes(path.stat().st_size)}).", soft_wrap=True)


def import_domain(
    model: opt.Model,
    file: File,
    name: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Another name for the domain.")] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Put a domain that was exported into a model with the same encoder.

    It is read when it is asked for (predict --for-domain); other answers stay as they are.

    Example: memgrow import-domain model/ books.memgrow
    """
    from memgrow.learner import Learner
    from memgrow.versions import changing

    with changing(model):
        learner = Learner.load(model, "cpu")
        stage = learner.import_domain(file, name)
        learner.save(model)
    (called,) = stage.learned
    if as_json:
        write_json({"model": str(model), "domain": called, "slots": stage.grew.slots})
    say(f"{model} has the domain {called} now, with {stage.grew.slots} slots; memgrow undo takes it back.")
    command = shlex.join(["memgrow", "predict", str(model), "--for-domain", called])
    say(f"Ask for it: {command}", "dim", soft_wrap=True)
