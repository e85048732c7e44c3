"""Options that several commands share. `grouped` lets a command take a dataclass of options as one parameter."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from memgrow.errors import SettingsError

if TYPE_CHECKING:
    from memgrow.cli.settings import SettingChanges
    from memgrow.data import Columns, Loaded

DATA, SETTINGS = "Data", "Settings"
NO_VECTORS = "none"  # in place of a file: no vectors, not even those of earlier domains

# Defaults of the library, repeated here so that --help does not import torch.
LOCAL = "local"
COMPARED = "finetune,finetune+vocab,finetune+slots+vocab,finetune+vocab+ema,multi-task"
DEMO = "finetune,finetune+vocab,finetune+slots+vocab"
WINDOW, ALPHA = 100, 0.01
METHODS = (
    "finetune+vocab,finetune+vocab+ema,finetune+ema,finetune,finetune+slots,finetune+slots+vocab,finetune+hidden,"
    "finetune+hidden+vocab,frozen,frozen+slots,ewc,progressive,lora,ridge,rehearsal,multi-task,in-domain"
)


def method_names() -> list[str]:
    """Completes --method."""
    return METHODS.split(",")


def _column(help: str) -> Any:
    return typer.Option(metavar="COLUMN", help=help, rich_help_panel=DATA)


def _files(help: str) -> Any:
    return typer.Option(readable=False, metavar="FILE", help=help, rich_help_panel=DATA)


Model = Annotated[
    Path, typer.Argument(readable=False, metavar="MODEL", help="Folder of the model.", show_default=False)
]
Files = Annotated[
    list[Path],
    typer.Argument(
        readable=False,
        metavar="DATA",
        help="JSONL, JSON, CSV or TSV, plain or .gz, or Parquet; one domain each.",
        show_default=False,
    ),
]
Device = Annotated[str, typer.Option("--device", metavar="DEVICE", help="auto, cpu or cuda.", rich_help_panel=SETTINGS)]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Random seed.", rich_help_panel=SETTINGS)]
Beam = Annotated[int, typer.Option("--beam", metavar="N", help="Beam size, for replies.", min=1)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
On = Annotated[
    str, typer.Option("--on", metavar="WHERE", help="local, ray, or the address of a Ray cluster (ray://HOST:PORT).")
]
Encoder = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Pretrained encoder of a new model: a name (memgrow encoder list), a folder or a hub name.",
        rich_help_panel=SETTINGS,
    ),
]
Vectors = Annotated[
    Path | None,
    typer.Option(
        readable=False,
        metavar="FILE",
        help="GloVe or word2vec vectors for new words; none: no vectors.",
        rich_help_panel=SETTINGS,
    ),
]


@dataclass
class FileOptions:
    """How a file of texts is read."""

    text: Annotated[str | None, _column("Column of the text, or of the first of two.")] = None
    pair: Annotated[str | None, _column("Column of the second text.")] = None
    delimiter: Annotated[
        str | None,
        typer.Option(
            "--delimiter", metavar="SIGN", help="Delimiter of CSV files; found out if not given.", rich_help_panel=DATA
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option("--encoding", metavar="NAME", help="Encoding of files that are not UTF-8.", rich_help_panel=DATA),
    ] = None

    def columns(self) -> "Columns":
        """The columns to read."""
        from memgrow.data import Columns
        from memgrow.data.files import FileFormat

        return Columns(text=self.text, pair=self.pair, file_format=FileFormat(self.delimiter, self.encoding or "utf-8"))

    def check_no_file(self) -> None:
        """Refuse a delimiter where texts do not come from a file."""
        if self.delimiter is not None:
            raise SettingsError("--delimiter is for CSV files: leave it out, or give a file")


@dataclass
class DataOptions(FileOptions):
    """How files of labeled examples are read."""

    label: Annotated[str | None, _column("Column of the label.")] = None
    reply: Annotated[
        str | None, typer.Option("--reply", metavar="COLUMN", help="Column of the reply.", rich_help_panel=DATA)
    ] = None
    by: Annotated[str | None, _column("Column that names the domain of a row.")] = None
    domains: Annotated[
        str | None,
        typer.Option(metavar="A,B,C", help="With --by: which domains, in this order.", rich_help_panel=DATA),
    ] = None
    split_column: Annotated[str | None, _column("Column with train, validation or test.")] = None
    skip_empty: Annotated[
        bool,
        typer.Option("--skip-empty", help="Leave out rows with an empty text.", rich_help_panel=DATA),
    ] = False
    map_label: Annotated[
        list[str] | None,
        typer.Option(
            "--map-label", metavar="OLD=NEW", help="Rename a label; OLD=- leaves its rows out.", rich_help_panel=DATA
        ),
    ] = None

    def columns(self, group: str | None = None) -> "Columns":
        from dataclasses import replace

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
        """The test examples of files."""
        from memgrow.cli.output import split_names
        from memgrow.data import load_for_evaluation

        return load_for_evaluation(paths, self.columns(), split_names(self.domains), skip_empty=self.skip_empty)


@dataclass
class TrainingDataOptions(DataOptions):
    """How files are split into training, validation and test examples."""

    group: Annotated[str | None, _column("Column whose equal values stay in one split.")] = None
    validation: Annotated[list[Path] | None, _files("Validation examples.")] = None
    test: Annotated[list[Path] | None, _files("Test examples.")] = None
    held_out: Annotated[list[Path] | None, _files("Examples to halve into validation and test.")] = None
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="Examples of each split, at most.", rich_help_panel=DATA)
    ] = None

    def load(self, paths: list[Path], domains: list[str] | None) -> "Loaded":
        """The domains of files."""
        from memgrow.data import load_stream

        return load_stream(
            paths,
            columns=self.columns(self.group),
            validation=self.validation or (),
            test=self.test or (),
            held_out=self.held_out or (),
            domains=domains,
            limit=self.limit,
            skip_empty=self.skip_empty,
        )


@dataclass
class SettingOptions:
    """The settings of a model and its training."""

    encoder: Encoder = None
    vectors: Vectors = None
    recipe: Annotated[
        Path | None,
        typer.Option(
            readable=False,
            metavar="FILE",
            help="Settings: a YAML file, or small, small-dialogue, demo.",
            rich_help_panel=SETTINGS,
        ),
    ] = None
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="One setting, such as hidden=64 or epochs=5.", rich_help_panel=SETTINGS
        ),
    ] = None
    seed: Seed = None
    device: Device = "auto"
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", help="CPU threads; default: 1 for small models.", min=1, rich_help_panel=SETTINGS),
    ] = None

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
        for option in fields(groups[one.name]):
            parameters.append(
                inspect.Parameter(
                    option.name,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=option.default,
                    annotation=kinds[option.name],
                )
            )
    required = [one for one in parameters if one.default is inspect.Parameter.empty]
    optional = [one for one in parameters if one.default is not inspect.Parameter.empty]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: kind(**{option.name: given.pop(option.name) for option in fields(kind)})
            for name, kind in groups.items()
        }
        command(**given, **made)

    run.__signature__ = inspect.Signature([*required, *optional])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in (*required, *optional)}
    return run


def _label_names(words: list[str] | None) -> dict[object, str]:
    """New names of labels from OLD=NEW words."""
    names: dict[object, str] = {}
    for word in words or ():
        old, equals, new = (part.strip() for part in word.partition("="))
        if not (equals and old and new):
            raise SettingsError(f"--map-label {word!r} is not OLD=NEW: write for example 5=positive")
        if names.setdefault(old, new) != new:
            raise SettingsError(f"--map-label gives {old} two names: give it one")
    return names
