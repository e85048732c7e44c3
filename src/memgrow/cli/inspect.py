"""`memgrow inspect`, `methods` and `doctor`: what a model, memgrow and this machine have to say of themselves."""

from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import torch
import typer

from memgrow.cli import options as opt
from memgrow.cli.output import console, say, write_json
from memgrow.data.records import examples_from_words
from memgrow.device import allow_tf32
from memgrow.learner import Learner
from memgrow.models import ModelSettings, build
from memgrow.models.pretrained.catalogue import KNOWN
from memgrow.nn import LAYERS
from memgrow.report.learner import about, about_table, matrix_title, stages_table, summary_line
from memgrow.report.matrix import MatrixTable
from memgrow.report.methods import defaults_line, letters_table, methods_table
from memgrow.report.reading import added_shares, reading_shares, reading_table
from memgrow.training.stacked.together import Loop, choose_loop


def inspect(
    model: opt.Model,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="A text (two for a model of pairs) to see whose slots it reads.",
            show_default=False,
        ),
    ] = None,
    as_json: opt.AsJson = False,
    device: opt.Device = "auto",
) -> None:
    """What a model knows and has been through; whose slots a text reads.

    Example: memgrow inspect model/ "a quiet, moving book"
    """
    learner = Learner.load(model, device)
    examples = examples_from_words(texts or [], learner.task)
    if as_json:
        read = [
            {
                "texts": example.texts,
                "tokens": learner.tokens(example),
                "banks": reading_shares(learner, example),
                **({"adds": adds} if (adds := added_shares(learner, example)) else {}),
            }
            for example in examples
        ]
        write_json({"about": asdict(about(learner)), "history": learner.history.to_json(), "reading": read}, indent=1)
        return
    console.print(about_table(learner))
    console.print(stages_table(learner.history))
    console.print(MatrixTable(learner.history.matrix, matrix_title(learner.task)))
    say(summary_line(learner.history))
    for example in examples:
        console.print(reading_table(learner, example))


def methods() -> None:
    """The methods by name.

    Example: memgrow methods
    """
    console.print(methods_table(), letters_table())
    say(defaults_line())


def doctor() -> None:
    """Which way the recurrence takes on this machine, and why.

    Example: memgrow doctor
    """
    for sentence in findings():
        say(sentence)


def findings() -> Iterator[str]:
    """Sentences about this machine."""
    yield f"memgrow {version('memgrow')}, torch {torch.__version__}, {torch.get_num_threads()} threads on the CPU"
    for device in devices():
        allow_tf32(torch.device(device))  # as a command does that trains
        name = "CPU" if device == "cpu" else f"{device} ({torch.cuda.get_device_name(device)})"
        for cell, backend, reason in backends(device):
            yield f"{name}: {cell} takes the backend {backend}: {reason}"
        for loop, cells in loops(device).items():
            yield f"{name}: {' and '.join(cells)} classifiers are trained by the {loop.name} loop: {loop.reason}"
    yield encoders_finding()


def encoders_finding() -> str:
    """A sentence about pretrained encoders; what they need is not imported for it."""
    try:
        found = " and ".join(f"{name} {version(name)}" for name in ("transformers", "tokenizers"))
    except PackageNotFoundError as error:
        return f"pretrained encoders: {error.name} is not installed; run `pip install 'memgrow[encoders]'`"
    here = ", ".join(name for name, known in KNOWN.items() if known.is_here())
    fetched = (
        f"{here} can be used at once" if here else f"none is here yet; run: memgrow encoder get {next(iter(KNOWN))}"
    )
    return f"pretrained encoders: {found} are installed; {fetched}"


def devices() -> list[str]:
    return ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]


def backends(device: str, hidden: int = 300, slots: int = 500) -> Iterator[tuple[str, str, str]]:
    """(cell, backend, reason) on a device, for a layer of the given size; each is tried with one short sequence."""
    for name, kind in LAYERS.items():
        layer = kind(8, hidden, slots=slots, bidirectional=True, device=device)
        data = torch.randn(3, 2, 8, device=device)
        with torch.no_grad():
            layer(data)  # a GPU's kernels are compiled now, so that what stands in their way is known
        yield name, *layer.backend_for(data)


def loops(device: str) -> dict[Loop, list[str]]:
    """The loops that train a classifier on a device, each with its cells."""
    found: dict[Loop, list[str]] = {}
    for cell in LAYERS:
        model = build("pair", ModelSettings(cell=cell, embedding=1, hidden=1, slots=1, perceptron=1), 3, 2)
        found.setdefault(choose_loop(model, torch.device(device)), []).append(cell)
    return found
