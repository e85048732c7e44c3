"""`memgrow inspect`, `undo`, `export` and `domain`: what a model has learned, and its parts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.app import console, progress_console, say, say_verdict, write_json
from memgrow.errors import ModelError, SettingsError, counted, printable

if TYPE_CHECKING:
    from memgrow.learner import Learner

Name = Annotated[str, opt.argument("NAME", "The domain.")]
File = Annotated[Path, opt.argument("FILE", "The domain's file.")]
VERIFY_HELP = "Only check that every file is as it was written, and that it loads."
MAX_TEXT = 60  # letters of a text above what it reads
DAMAGED = 1  # exit code
EXPORTS = {
    "onnx": "{output}/memgrow-export.json describes inputs and outputs.",
    "huggingface": "Read README.md before you share it: hf upload OWNER/NAME {output}",
}


def inspect(
    model: opt.Model,
    texts: opt.Texts = None,
    verify: bool = opt.option(VERIFY_HELP, "--verify", default=False),
    as_json: opt.AsJson = False,
    device: str = opt.DEVICE,
) -> None:
    """What a model has learned, which versions are kept, and which domains' slots and entries a text reads.

    Example: memgrow inspect model/ "a quiet, moving book"
    """
    if verify:
        _verify(model, as_json)
        return
    from memgrow.data.rows import inputs_from_arguments
    from memgrow.evaluation import model_tables as tables
    from memgrow.evaluation.attention import attention_by_bank, unknown_words
    from memgrow.evaluation.tables import in_bytes, matrix_table, measure_of_task, shortened, summary_line
    from memgrow.learner import Learner
    from memgrow.storage.versions import list_versions

    learner = Learner.load(model, device)
    versions = list_versions(model)
    verdict = tables.verdict_of(learner)
    examples = [one.example for one in inputs_from_arguments(texts or [], learner.task)]
    if as_json:
        read = [
            {
                "texts": example.texts,
                "tokens": learner.tokens(example),
                "unknown": unknown_words(learner, example),
                "banks": attention_by_bank(learner, example),
                "entries": tables.memory_entries(learner, example),
            }
            for example in examples
        ]
        sizes = [
            {"stage": one.number, "bytes": one.size, "bytes_of_its_own": one.own, "digest": one.digest}
            for one in versions
        ]
        about_it = {"about": tables.about(learner), "history": learner.history.to_json()}
        write_json({**about_it, "verdict": asdict(verdict), "versions": sizes, "reading": read}, indent=1)
        return
    console.print(tables.about_table(learner))
    measure = measure_of_task(learner.task)
    console.print(tables.stages_table(learner.history, measure, versions))
    console.print(matrix_table(learner.history.matrix, measure))
    say_verdict(verdict)
    say(summary_line(learner.history, learner.task))
    say(f"{in_bytes(sum(one.own for one in versions))} with {counted(len(versions) - 1, 'earlier version')}.")
    say(f"Digest: {versions[0].digest}.")
    for example in examples:
        say(shortened(" | ".join(example.texts), MAX_TEXT), "bold")
        for line in tables.reading_lines(learner, example):
            say(line)


def undo(
    model: opt.Model,
    to: int | None = opt.option("Go back to after this stage: see memgrow inspect.", metavar="STAGE", min=1),
    as_json: opt.AsJson = False,
) -> None:
    """Take back the domain that a model learned last.

    Example: memgrow undo model/
    """
    from memgrow.evaluation.tables import matrix_table, measure_of_task, summary_line
    from memgrow.storage import versions

    done = versions.undo(model, to)
    if as_json:
        taken_back = [stage.to_json() for stage in done.taken_back]
        now = {"history": done.history.to_json(), "further": done.further, "digest": done.digest}
        write_json({"taken_back": taken_back, **now}, indent=1)
    taken = [f"{' and '.join(stage.learned)} ({stage.method})" for stage in done.taken_back]
    say(f"Taken back and removed from {model}: {', '.join(taken) or 'a damaged version'}.")
    domains = " and ".join(done.history.stages[-1].learned)
    say(f"It is as it was after stage {len(done.history.stages)}, {domains} (digest {done.digest}):")
    console.print(matrix_table(done.history.matrix, measure_of_task(done.task)))
    say(summary_line(done.history, done.task))
    further = " and ".join(map(str, done.further))
    say(f"You can go back further, to stage {further}." if further else "No earlier version is kept.")


def _verify(model: Path, as_json: bool) -> None:
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
    say(f"{model}{more}: all files are intact.")


def export(
    model: opt.Model,
    output: Annotated[Path, opt.argument("OUT", "The folder to write.")],
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="onnx or huggingface.", show_default=False)],
    as_json: opt.AsJson = False,
) -> None:
    """Export a model to ONNX, or to a folder for the Hugging Face hub with a model card.

    Example: memgrow export model/ --to onnx books-onnx/
    """
    from memgrow.evaluation.tables import in_bytes
    from memgrow.learner import Learner
    from memgrow.storage.export import export_huggingface, export_onnx

    if to not in EXPORTS:
        raise SettingsError(f"there is no export format {to!r}; there are {' and '.join(EXPORTS)}")
    with progress_console().status(f"Writing {printable(str(output))}"):
        (export_onnx if to == "onnx" else export_huggingface)(Learner.load(model, "cpu"), output)
    size = sum(path.stat().st_size for path in output.expanduser().rglob("*") if path.is_file())
    if as_json:
        write_json({"form": to, "folder": str(output), "bytes": size})
    say(f"{output} has the model ({in_bytes(size)}).", soft_wrap=True)
    say(EXPORTS[to].format(output=output), "dim", soft_wrap=True)


# Domains of a domain memory


@contextmanager
def _changing(model: Path) -> "Iterator[Learner]":
    """A model that is saved afterwards, in place of the versions that it is no later version of."""
    from memgrow.learner import Learner
    from memgrow.storage.folder import ModelFolder, hold
    from memgrow.training.progress import ResumeFolder

    ModelFolder.read(model)
    with hold(model):
        learner = Learner.load(model, "cpu")
        resume = ResumeFolder(model, len(learner.history.stages), {}, 0)
        resume.clear_ended()
        if resume.is_unfinished:
            raise ModelError(f"{model} has an unfinished adaptation: run it again, or remove {resume.folder}")
        yield learner
        learner.save(model, overwrite=True)


def export_domain(model: opt.Model, name: Name, file: File, as_json: opt.AsJson = False) -> None:
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


def import_domain(
    model: opt.Model,
    file: File,
    name: str | None = opt.option("Of the domain of an adapter.", metavar="NAME"),
    messages: Path | None = opt.file_option("Messages that an adapter answers.", None),
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


def remove_domain(model: opt.Model, name: Name, as_json: opt.AsJson = False) -> None:
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


DOMAIN: dict[str, Callable[..., None]] = {"export": export_domain, "import": import_domain, "remove": remove_domain}
