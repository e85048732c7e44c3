"""Options that several commands share. `grouped` lets a command take a dataclass of options as one parameter."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from memgrow.errors import SettingsError

if TYPE_CHECKING:
    from memgrow.cli.settings import SettingChanges
    from memgrow.data import Columns, Loaded

DATA, SETTINGS = "Data", "Settings"
VECTORS_HELP = "GloVe or word2vec vectors for new words; none: no vectors."
NO_VECTORS = "none"  # in place of a file: no vectors, not even those of earlier domains

# Defaults of the library, repeated here so that --help does not import torch.
LOCAL = "local"
COMPARED = "finetune,finetune+ema+memory,ridge,multi-task"
DEMO = "finetune,finetune+vocab+memory,multi-task"
WINDOW, ALPHA = 100, 0.01
METHODS = (
    "finetune+ema+memory,finetune+vocab,finetune+vocab+ema,finetune,finetune+slots,finetune+slots+vocab,finetune+hidden,"
    "finetune+hidden+vocab,frozen,frozen+slots,ewc,si,imm,progress-compress,progressive,lora,ridge,rehearsal,a-gem,gem,"
    "icarl,multi-task,in-domain"
)


def method_names() -> list[str]:
    """Completes --method."""
    return METHODS.split(",")


def in_panel(panel: str | None, help: str, *names: str, metavar: str | None = None, **named: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **named)


def data_option(help: str, *names: str, metavar: str | None = "COLUMN") -> Any:
    return in_panel(DATA, help, *names, metavar=metavar)


def file_option(help: str, panel: str | None = DATA, metavar: str = "FILE") -> Any:
    return in_panel(panel, help, metavar=metavar, readable=False)


def setting(help: str, *names: str, metavar: str = "N", **named: Any) -> Any:
    return in_panel(SETTINGS, help, *names, metavar=metavar, **named)


def limit(help: str, metavar: str = "N") -> Any:
    return in_panel("Limits", help, metavar=metavar, min=1)


def argument(metavar: str, help: str) -> Any:
    return typer.Argument(readable=False, metavar=metavar, help=help, show_default=False)


Model = Annotated[Path, argument("MODEL", "Folder of the model.")]
Files = Annotated[list[Path], argument("DATA", "JSONL, CSV or TSV, plain or .gz, or Parquet; one domain each.")]
Texts = Annotated[list[str] | None, argument("TEXT", "Texts; two for each prediction of a pair model.")]
Device = Annotated[str, setting("auto, cpu or cuda.", "--device", metavar="DEVICE")]
Seed = Annotated[int | None, setting("Random seed.")]
Beam = Annotated[int, typer.Option("--beam", metavar="N", help="Beam size, for replies.", min=1)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@dataclass
class FileOptions:
    """How a file of texts is read."""

    text: Annotated[str | None, data_option("Column of the text, or of the first of two.")] = None
    pair: Annotated[str | None, data_option("Column of the second text.")] = None
    encoding: Annotated[
        str | None, data_option("Encoding of files that are not UTF-8.", "--encoding", metavar="NAME")
    ] = None

    def columns(self) -> "Columns":
        from memgrow.data import Columns
        from memgrow.data.files import FileFormat

        return Columns(text=self.text, pair=self.pair, file_format=FileFormat(encoding=self.encoding or "utf-8"))


@dataclass
class DataOptions(FileOptions):
    """How files of labeled examples are read."""

    label: Annotated[str | None, data_option("Column of the label.")] = None
    reply: Annotated[str | None, data_option("Column of the reply.", "--reply")] = None
    by: Annotated[str | None, data_option("Column that names the domain of a row.")] = None
    domains: Annotated[str | None, data_option("With --by: which domains, in this order.", metavar="A,B,C")] = None
    split_column: Annotated[str | None, data_option("Column with train, validation or test.")] = None
    map_label: Annotated[
        list[str] | None,
        data_option("Rename a label; OLD=- leaves its rows out.", "--map-label", metavar="OLD=NEW"),
    ] = None

    def columns(self, group: str | None = None) -> "Columns":
        return replace(
            super().columns(),
            label=self.label,
            by=self.by,
            group=group,
            split=self.split_column,
            reply=self.reply,
            labels=_label_names(self.map_label),
        )

    def load_for_evaluation(self, paths: list[Path]) -> "Loaded":
        from memgrow.cli.app import split_names
        from memgrow.data import load_for_evaluation

        return load_for_evaluation(paths, self.columns(), split_names(self.domains))


@dataclass
class TrainingDataOptions(DataOptions):
    """How files are split into training, validation and test examples."""

    group: Annotated[str | None, data_option("Column whose equal values stay in one split.")] = None
    validation: Annotated[list[Path] | None, file_option("Validation examples.")] = None
    test: Annotated[list[Path] | None, file_option("Test examples.")] = None
    limit: Annotated[int | None, data_option("Examples of each split, at most.", metavar="N")] = None

    def load(self, paths: list[Path], domains: list[str] | None) -> "Loaded":
        from memgrow.data import load_stream

        return load_stream(
            paths,
            columns=self.columns(self.group),
            validation=self.validation or (),
            test=self.test or (),
            domains=domains,
            limit=self.limit,
        )


@dataclass
class SettingOptions:
    """The settings of a model and its training."""

    encoder: Annotated[
        str | None,
        setting(
            "Encoder of a new model: lstm, gru or rnn, or a pretrained one by name, folder or hub name.",
            metavar="NAME",
            show_default="minilm",
        ),
    ] = None
    vectors: Annotated[Path | None, file_option(VECTORS_HELP, SETTINGS)] = None
    recipe: Annotated[Path | None, file_option("Settings: a YAML file, or small, small-dialogue, demo.", SETTINGS)] = (
        None
    )
    set_: Annotated[
        list[str] | None, setting("One setting, such as hidden=64 or epochs=5.", "--set", metavar="NAME=VALUE")
    ] = None
    seed: Seed = None
    device: Device = "auto"
    threads: Annotated[int | None, setting("CPU threads; default: 1 for small models.", min=1)] = None

    def changes(self) -> "SettingChanges":
        """What --recipe, --set and --encoder change."""
        from memgrow.cli.settings import read_settings

        return read_settings(self.recipe, self.set_ or (), self.encoder)

    @property
    def vectors_file(self) -> Path | None:
        return None if self.vectors is None or str(self.vectors) == NO_VECTORS else self.vectors


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Turn each parameter that is a dataclass of options into one option for each of its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for one in inspect.signature(command).parameters.values():
        if one.name not in groups:
            parameters.append(one.replace(annotation=hints[one.name]))
            continue
        kinds = get_type_hints(groups[one.name], include_extras=True)
        parameters += [
            one.replace(name=option.name, default=option.default, annotation=kinds[option.name])
            for option in fields(groups[one.name])
        ]
    parameters.sort(key=lambda one: one.default is not inspect.Parameter.empty)  # those without a default first

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: kind(**{option.name: given.pop(option.name) for option in fields(kind)})
            for name, kind in groups.items()
        }
        command(**given, **made)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _label_names(words: list[str] | None) -> dict[object, str]:
    names: dict[object, str] = {}
    for word in words or ():
        old, equals, new = (part.strip() for part in word.partition("="))
        if not (equals and old and new):
            raise SettingsError(f"--map-label {word!r} is not OLD=NEW: write for example 5=positive")
        if names.setdefault(old, new) != new:
            raise SettingsError(f"--map-label gives {old} two names: give it one")
    return names
