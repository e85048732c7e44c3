"""`memgrow export`: a model as a folder for onnxruntime, or for the Hugging Face hub."""

from pathlib import Path
from typing import Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import progress_console, say, write_json
from memgrow.errors import SettingsError
from memgrow.printable import printable

TARGETS = {  # by the forms that there are, what one does next
    "onnx": "Run it: {output}/memgrow-export.json says what goes in and what comes out.",
    "huggingface": "Read README.md before you share it: hf upload OWNER/NAME {output}",
}
ROUNDING = (
    "Its probabilities are of float32: memgrow predict multiplies in bfloat16 on this machine, and differs from them "
    "by that rounding, which may be some hundredths."
)


def export(
    model: opt.Model,
    output: Annotated[
        Path, typer.Argument(readable=False, metavar="OUT", help="The folder to write.", show_default=False)
    ],
    to: Annotated[
        str,
        typer.Option("--to", metavar="FORM", help="onnx or huggingface.", show_default=False),
    ],
    as_json: opt.AsJson = False,
) -> None:
    """Write a model as a folder for onnxruntime, or for the Hugging Face hub with a model card.

    Nothing is replaced: OUT is a new folder, written whole or not at all.

    Example: memgrow export model/ --to onnx books-onnx/
    """
    from memgrow.device import multiplies_bfloat16
    from memgrow.learner import Learner
    from memgrow.models import PretrainedSettings
    from memgrow.report.history import in_bytes
    from memgrow.storage.export import export_huggingface, export_onnx

    if to not in TARGETS:
        raise SettingsError(f"there is no form {to!r} to export to; there are {' and '.join(TARGETS)}")
    with progress_console().status(f"Writing {printable(str(output))}"):
        learner = Learner.load(model, "cpu")
        if to == "onnx":
            export_onnx(learner, output)
        else:
            export_huggingface(learner, output)
    size = sum(path.stat().st_size for path in output.expanduser().rglob("*") if path.is_file())
    if as_json:
        write_json({"form": to, "folder": str(output), "bytes": size})
    say(f"{output} has the model ({in_bytes(size)}).", soft_wrap=True)
    say(TARGETS[to].format(output=output), "dim", soft_wrap=True)
    if to == "onnx" and isinstance(settings := learner.settings, PretrainedSettings):
        here = multiplies_bfloat16("cpu") if settings.precision == "auto" else settings.precision == "bfloat16"
        say(ROUNDING if here else "", "dim", soft_wrap=True)
