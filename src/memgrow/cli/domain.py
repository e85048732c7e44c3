"""`memgrow domain`: export, import and remove a domain of a model's domain memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from memgrow.cli import options as opt
from memgrow.cli.app import say
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
    from memgrow.training.resume import ResumeFolder

    ModelFolder.read(model)
    with hold(model):
        learner = Learner.load(model, "cpu")
        resume = ResumeFolder.in_model(model, len(learner.history.stages), {}, 0)
        resume.clear_ended()
        if resume.is_unfinished:
            raise ModelError(f"{model} has an unfinished adaptation: run it again, or remove {resume.folder}")
        yield learner
        learner.save(model, overwrite=True)


def export(model: opt.Model, name: Name, file: File) -> None:
    """Write an independent domain as a file, for other models with the same encoder.

    Example: memgrow domain export model/ books books.safetensors
    """
    from memgrow.data.disk import check_output
    from memgrow.evaluation.tables import in_bytes
    from memgrow.learner import Learner

    check_output(file)
    Learner.load(model, "cpu").export_domain(name, file)
    say(f"{file} has the domain {name} ({in_bytes(file.stat().st_size)}).", soft_wrap=True)


def take_in(model: opt.Model, file: File) -> None:
    """Take in a domain that a model with the same encoder exported.

    Example: memgrow domain import model/ books.safetensors
    """
    with _changing(model) as learner:
        name = learner.import_domain(file)
    say(f"{model} has learned {name} from {file}.", soft_wrap=True)


def remove(model: opt.Model, name: Name) -> None:
    """Remove a domain, with its labels and statistics. Earlier versions that have it are removed, too.

    Example: memgrow domain remove model/ books
    """
    with _changing(model) as learner:
        memory = learner.classifier().memory
        learner.remove_domain(name)
    say(f"Removed from {model}: {name}.", soft_wrap=True)
    if memory is not None and memory.independent:
        say("Nothing of it is left: the model is one that never saw it.")
    else:
        say("Traces of it remain in the weights of later domains: only independent domains leave none.")


ACTIONS: dict[str, Callable[..., None]] = {"export": export, "import": take_in, "remove": remove}
