"""The options that several commands share, with their help."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memgrow.errors import SettingsError

if TYPE_CHECKING:
    from memgrow.data import Columns

DATA, SETTINGS = "Data", "Settings"
NO_VECTORS = "none"  # in the place of a file: no vectors, also not those of earlier domains

# Defaults that the library has as well: --help shows them, and shall not wait for torch, which the library imports.
# tests/cli/test_start.py holds them equal.
LOCAL = "local"  # where runs are made
COMPARED, DEMO = "F,F+V,F+M+V,F+V+E,multi-task", "F,F+V,F+M+V"  # methods
WINDOW, ALPHA = 100, 0.01  # of drift


def recipe_names() -> list[str]:
    """What completes --recipe; a shell completes files by itself."""
    return sorted(file.stem for file in (Path(__file__).parents[1] / "recipes").glob("*.yaml"))


def method_names() -> list[str]:
    """What completes --method."""
    from memgrow.report.methods import read_methods

    return [one["name"] for one in read_methods()["methods"]]


# Paths are not `readable` for typer to look at, which would answer with a box: who reads them says it in a sentence.

Model = Annotated[Path, typer.Argument(readable=False, metavar="MODEL", help="The model's folder.", show_default=False)]
Files = Annotated[
    list[Path],
    typer.Argument(
        readable=False,
        metavar="DATA",
        help="JSONL, JSON, CSV or TSV, plain or .gz, or Parquet: a domain each.",
        show_default=False,
    ),
]

Text = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column of the text, or of the first of two.", rich_help_panel=DATA),
]
Pair = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the second text.", rich_help_panel=DATA)]
Label = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the label.", rich_help_panel=DATA)]
Reply = Annotated[
    str | None, typer.Option("--reply", metavar="COLUMN", help="Column of the reply.", rich_help_panel=DATA)
]
By = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column that names the domain of a row.", rich_help_panel=DATA)
]
Domains = Annotated[
    str | None,
    typer.Option(metavar="A,B,C", help="With --by: which domains, in this order.", rich_help_panel=DATA),
]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column whose equal values stay in one part when parts are drawn.",
        rich_help_panel=DATA,
    ),
]
SplitColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column that says train, validation or test.", rich_help_panel=DATA),
]
Validation = Annotated[
    list[Path] | None, typer.Option(readable=False, metavar="FILE", help="Validation examples.", rich_help_panel=DATA)
]
Test = Annotated[
    list[Path] | None, typer.Option(readable=False, metavar="FILE", help="Test examples.", rich_help_panel=DATA)
]
HeldOut = Annotated[
    list[Path] | None,
    typer.Option(
        readable=False, metavar="FILE", help="Examples to be halved into validation and test.", rich_help_panel=DATA
    ),
]
Watch = Annotated[
    list[Path] | None,
    typer.Option(
        readable=False,
        metavar="FILE",
        help="Test examples of an earlier domain, or its name in the data, tried after each.",
        rich_help_panel=DATA,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="SIGN",
        help="Of CSV files: what stands between fields, if not what the header has there.",
        rich_help_panel=DATA,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        help="Of files that are not UTF-8, such as latin-1 or cp1252.",
        rich_help_panel=DATA,
    ),
]
MapLabel = Annotated[
    list[str] | None,
    typer.Option(
        "--map-label",
        metavar="OLD=NEW",
        help="Call a label by another name, several perhaps by the same; - leaves its rows out.",
        rich_help_panel=DATA,
    ),
]
SkipEmpty = Annotated[
    bool,
    typer.Option(
        "--skip-empty", help="Leave rows with an empty text out instead of refusing them.", rich_help_panel=DATA
    ),
]
Limit = Annotated[
    int | None, typer.Option(metavar="N", help="At most so many examples of each part.", rich_help_panel=DATA)
]

Method = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How to meet a new domain: see memgrow methods. rehearsal keeps rows of the data.",
        rich_help_panel=SETTINGS,
        autocompletion=method_names,
    ),
]
Recipe = Annotated[
    Path | None,
    typer.Option(
        readable=False,
        metavar="RECIPE",
        help="Settings: a YAML file, or a name: see memgrow recipes.",
        autocompletion=recipe_names,
        rich_help_panel=SETTINGS,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="One setting, such as hidden=64 or epochs=5.", rich_help_panel=SETTINGS
    ),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Of a new model: a pretrained encoder by name, folder or hub name: see memgrow encoder list.",
        rich_help_panel=SETTINGS,
    ),
]
Vectors = Annotated[
    Path | None,
    typer.Option(
        readable=False,
        metavar="FILE",
        help="GloVe or word2vec vectors for words not seen yet; none: no vectors.",
        rich_help_panel=SETTINGS,
    ),
]
Device = Annotated[str, typer.Option("--device", metavar="DEVICE", help="auto, cpu or cuda.", rich_help_panel=SETTINGS)]
Track = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Watch training by a tracker: tensorboard or trackio.", rich_help_panel=SETTINGS),
]
TrackTo = Annotated[
    str, typer.Option("--track-to", metavar="FOLDER", help="Where the tracker keeps it.", rich_help_panel=SETTINGS)
]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Threads on the CPU; else one for a small model, and all cores for others.",
        min=1,
        rich_help_panel=SETTINGS,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(metavar="N", help="Decides everything that is left to chance.", rich_help_panel=SETTINGS),
]
On = Annotated[
    str,
    typer.Option(
        "--on", metavar="WHERE", help="local; ray, a Ray of its own; or a cluster: ray://HOST:PORT, HOST:PORT."
    ),
]
Beam = Annotated[int, typer.Option("--beam", metavar="N", help="Of replies: search with so many beams at once.", min=1)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
ForDomain = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Texts are of this domain: its own slots and head answer (frozen+M, imports)."),
]


def vectors_file(given: Path | None) -> Path | None:
    """The file of word vectors that is given, if it is one."""
    return None if given is None or str(given) == NO_VECTORS else given


def refuse_delimiter(delimiter: str | None, given: str) -> None:
    """Refuse a delimiter for what is no file."""
    if delimiter is not None:
        raise SettingsError(f"--delimiter is for CSV files, and {given}: leave it out, or give a file")


def label_names(words: list[str] | None) -> dict[object, str]:
    """The other names of labels that OLD=NEW words give."""
    names: dict[object, str] = {}
    for word in words or ():
        old, equals, new = word.partition("=")
        if not (equals and old.strip() and new.strip()):
            raise SettingsError(f"--map-label {word!r} is not OLD=NEW: write a label and its other name, as 5=positive")
        if names.setdefault(old.strip(), new.strip()) != new.strip():
            raise SettingsError(f"--map-label gives {old.strip()} two names; give it one")
    return names


def columns(
    *,
    text: str | None,
    pair: str | None,
    delimiter: str | None,
    encoding: str | None,
    label: str | None = None,
    reply: str | None = None,
    by: str | None = None,
    split_column: str | None = None,
    map_label: list[str] | None = None,
    group: str | None = None,
) -> "Columns":
    """The columns that the options of a command name, and how the file that has them is written."""
    from memgrow.data import Columns
    from memgrow.data.files import FileFormat

    return Columns(
        text=text,
        pair=pair,
        label=label,
        by=by,
        group=group,
        split=split_column,
        reply=reply,
        labels=label_names(map_label),
        file_format=FileFormat(delimiter, encoding),
    )
