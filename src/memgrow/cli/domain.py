"""`memgrow domain`: export, import and remove a domain of a model's domain memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.app import say, write_json
from memgrow.errors import ModelError

if TYPE_CHECKING:
    from memgrow.learner import Learner

Name = Annotated[str, opt.argument("NAME", "The domain.")]
File = Annotated[Path, opt.argument("FILE", "The domain's file.")]


@contextmanager
def _changing(model: Path) -> "Iterator[Learner]":
    """A model that is saved afterwards, in place of the versions that it is no later version of."""
    from memgrow.learner import Learner
    from memgrow.storage.folder import ModelFolder, hold
    from memgrow.training.progress import ResumeFolder

    ModelFolder.read(model)
    with hold(model):
        learner = Learner.load(model, "cpu")
        resume = ResumeFolder.in_model(model, len(learner.history.stages), {}, 0)
        resume.clear_ended()
        if resume.is_unfinished:
            raise ModelError(f"{model} has an unfinished adaptation: run it again, or remove {resume.folder}")
        yield learner
        learner.save(model, overwrite=True)


def export(model: opt.Model, name: Name, file: File, as_json: opt.AsJson = False) -> None:
    """Write an independent domain as a file, for other models with the same encoder.

    Of a causal language model it is a folder: a LoRA adapter that peft, transformers and vLLM load.

    Example: memgrow domain export model/ books books.safetensors
    """
    from memgrow.data.disk import check_output
    from memgrow.evaluation.tables import in_bytes
    from memgrow.learner import Learner

    check_output(file)
    Learner.load(model, "cpu").export_domain(name, file)
    size = sum(one.stat().st_size for one in (file.iterdir() if file.is_dir() else [file]))
    if as_json:
        write_json({"domain": name, "file": str(file), "bytes": size})
    say(f"{file} has the domain {name} ({in_bytes(size)}).", soft_wrap=True)


def take_in(
    model: opt.Model,
    file: File,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Of the domain of an adapter.")] = None,
    messages: Annotated[Path | None, opt.file_option("Messages that an adapter answers.", None)] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Take in a domain that a model with the same encoder exported, or a LoRA adapter of peft.

    Example: memgrow domain import model/ books.safetensors
    """
    from memgrow.data.rows import inputs_from_file

    with _changing(model) as learner:
        texts = [one.example for one in inputs_from_file(messages, opt.FileOptions().columns())] if messages else []
        name = learner.import_domain(file, name=name, messages=texts)
    if as_json:
        write_json({"domain": name, "domains": learner.history.domains})
    say(f"{model} has learned {name} from {file}.", soft_wrap=True)


def remove(model: opt.Model, name: Name, as_json: opt.AsJson = False) -> None:
    """Remove a domain, with its labels and statistics. Earlier versions that have it are removed, too.

    Example: memgrow domain remove model/ books
    """
    with _changing(model) as learner:
        memory = learner.classifier().memory
        learner.remove_domain(name)
    leaves_traces = memory is None or not memory.independent
    if as_json:
        write_json({"domain": name, "domains": learner.history.domains, "leaves_traces": leaves_traces})
    say(f"Removed from {model}: {name}.", soft_wrap=True)
    if not leaves_traces:
        say("Nothing of it is left: the model is one that never saw it.")
    else:
        say("Traces of it remain in the weights of later domains: only independent domains leave none.")


ACTIONS: dict[str, Callable[..., None]] = {"export": export, "import": take_in, "remove": remove}
