"""Options that several commands share, and the settings that --recipe and --set change."""

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from memgrow.errors import SettingsError, listed, quoted

if TYPE_CHECKING:
    from memgrow.data import Columns, Loaded
    from memgrow.training.settings import Defaults

DATA, SETTINGS = "Data", "Settings"
ENCODER_HELP = "Encoder of a new model: lstm, gru or rnn, or a pretrained one by name, folder or hub name."
VECTORS_HELP = "GloVe or word2vec vectors (text) for new words; none: no vectors."
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


SINGLE: dict[str, type[Any]] = {"method": str, "seed": int}  # beside the sections of a recipe
TYPE_NAMES = {int: "a whole number", float: "a number", str: "a word", bool: "true or false", NoneType: "null"}
SYNONYMS = {"learning_rate": "rate", "lr": "rate", "batch_size": "batch", "max_length": "max_words"}
LARGEST = 2**31 - 1
MAX_RECIPE = 1 << 16  # characters
SHIPPED = {file.stem: file for file in (Path(__file__).parent / "recipes").glob("*.yaml")}


def method_names() -> list[str]:
    """Completes --method."""
    return METHODS.split(",")


def option(help: str, *names: str, default: Any = None, panel: str | None = None, **named: Any) -> Any:
    """An option as the default of a parameter."""
    return typer.Option(default, *names, help=help, rich_help_panel=panel, **named)


def data_option(help: str, *names: str, metavar: str = "COLUMN") -> Any:
    return option(help, *names, panel=DATA, metavar=metavar)


def file_option(help: str, panel: str | None = DATA, metavar: str = "FILE") -> Any:
    return option(help, panel=panel, metavar=metavar, readable=False)


def setting(help: str, *names: str, metavar: str = "N", **named: Any) -> Any:
    return option(help, *names, panel=SETTINGS, metavar=metavar, **named)


def argument(metavar: str, help: str) -> Any:
    return typer.Argument(readable=False, metavar=metavar, help=help, show_default=False)


Model = Annotated[Path, argument("MODEL", "Folder of the model.")]
Files = Annotated[list[Path], argument("DATA", "JSONL, CSV or TSV, plain or .gz, or Parquet; one domain each.")]
Texts = Annotated[list[str] | None, argument("TEXT", "Texts; two for each prediction of a pair model.")]
DEVICE: str = setting("auto, cpu or cuda.", "--device", metavar="DEVICE", default="auto")
BEAM: int = option("Beam size, for replies.", "--beam", default=1, metavar="N", min=1)
TextFile = Annotated[
    Path | None, argument("TEXTS", "JSONL, CSV, TSV or Parquet file of texts; default: standard input.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@dataclass
class FileOptions:
    """How a file of texts is read."""

    text: str | None = data_option("Column of the text, or of the first of two.")
    pair: str | None = data_option("Column of the second text.")
    encoding: str | None = data_option("Encoding of files that are not UTF-8.", "--encoding", metavar="NAME")

    def columns(self) -> "Columns":
        from memgrow.data import Columns

        return Columns(text=self.text, pair=self.pair, encoding=self.encoding or "utf-8")


@dataclass
class DataOptions(FileOptions):
    """How files of labeled examples are read."""

    label: str | None = data_option("Column of the label.")
    reply: str | None = data_option("Column of the reply.", "--reply")
    by: str | None = data_option("Column that names the domain of a row.")
    domains: str | None = data_option("With --by: which domains, in this order.", metavar="A,B,C")
    split_column: str | None = data_option("Column with train, validation or test.")
    map_label: list[str] | None = data_option(
        "Rename a label; OLD=- leaves its rows out.", "--map-label", metavar="OLD=NEW"
    )

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

    def load_for_evaluation(self, paths: list[Path], model: Path) -> "Loaded":
        from memgrow.cli.app import split_names
        from memgrow.data import load_for_evaluation

        return load_for_evaluation(paths, self.columns(), split_names(self.domains), model=model)


@dataclass
class TrainingDataOptions(DataOptions):
    """How files are split into training, validation and test examples."""

    group: str | None = data_option("Column whose equal values stay in one split.")
    validation: list[Path] | None = file_option("Validation examples.")
    test: list[Path] | None = file_option("Test examples.")
    limit: int | None = data_option("Examples of each split, at most.", metavar="N")

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

    encoder: str | None = setting(ENCODER_HELP, metavar="NAME", show_default="minilm")
    vectors: Path | None = file_option(VECTORS_HELP, SETTINGS)
    recipe: Path | None = file_option("Settings: a YAML file, or small, small-dialogue, demo.", SETTINGS)
    set_: list[str] | None = setting("One setting, such as hidden=64 or epochs=5.", "--set", metavar="NAME=VALUE")
    seed: int | None = setting("Random seed.")
    device: str = DEVICE
    threads: int | None = setting("CPU threads; default: 1 for small models.", min=1)

    def changes(self) -> "SettingChanges":
        """What --recipe, --set, --encoder and --seed change."""
        found = read_settings(self.recipe, self.set_ or (), self.encoder)
        return found if self.seed is None else replace(found, seed=self.seed)

    @property
    def vectors_file(self) -> Path | None:
        return None if self.vectors is None or str(self.vectors) == NO_VECTORS else self.vectors


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Turn each parameter that is a dataclass of options into one option for each of its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for one in inspect.signature(command).parameters.values():
        if one.name in groups:
            kinds = get_type_hints(groups[one.name], include_extras=True)
            options = {option.name: option.default for option in fields(groups[one.name])}
            parameters += [one.replace(name=name, default=options[name], annotation=kinds[name]) for name in options]
        else:
            parameters.append(one.replace(annotation=hints[one.name]))
    parameters.sort(key=lambda one: one.default is not inspect.Parameter.empty)  # those without a default first

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{option.name: given.pop(option.name) for option in fields(kind)})
        command(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _label_names(words: list[str] | None) -> dict[object, str]:
    names: dict[object, str] = {}
    for word in words or ():
        old, _, new = (part.strip() for part in word.partition("="))
        if not (old and new):
            raise SettingsError(f"--map-label {word!r} is not OLD=NEW: write for example 5=positive")
        if names.setdefault(old, new) != new:
            raise SettingsError(f"--map-label gives {old} two names: give it one")
    return names


# The settings that --recipe and --set change


@lru_cache
def setting_types() -> dict[str, dict[str, Any]]:
    """The types of the settings that there are, by section and name."""
    from memgrow.methods import MethodSettings
    from memgrow.models import PretrainedSettings
    from memgrow.training.settings import TrainingSettings

    # PretrainedSettings has the settings of recurrent models as well.
    sections = {"model": PretrainedSettings, "training": TrainingSettings, "options": MethodSettings}
    return {section: _types(settings) for section, settings in sections.items()}


def _types(settings: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(settings)
    return {one.name: hints[one.name] for one in fields(settings)}


@dataclass(frozen=True)
class SettingChanges:
    """The settings that a recipe and --set name; everything else keeps its default."""

    method: str | None = None
    seed: int | None = None
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_recipe: bool = False

    def section(self, name: str, base: Any) -> Any:
        """The settings `base` with the changes of that section."""
        from memgrow.models.base import RECURRENT_ONLY

        changes, known = self.sections.get(name, {}), {*_types(type(base))}
        what, other = "a recurrent network", "minilm"
        if getattr(base, "is_pretrained", False):
            what, other, known = f"the encoder {base.encoder}", "lstm", known - {*RECURRENT_ONLY, "cell"}
        if unfit := changes.keys() - known:
            advice = f"leave it out, or start a new model, for example with --encoder {other}"
            raise SettingsError(f"{listed(sorted(unfit))} is not a setting of {what}: {advice}")
        return replace(base, **changes)

    def model(self, base: Any, vectors: Path | None) -> Any:
        """The model's settings; the embedding has the size of the word vectors that are given."""
        from memgrow.data.vectors import detect

        if vectors is None or base.is_pretrained:
            return self.section("model", base)
        size = detect(vectors).size
        settings = self.section("model", replace(base, embedding=size))
        if settings.embedding != size:
            raise SettingsError(f"{vectors} has vectors of {size} numbers: leave embedding={settings.embedding} out")
        return settings

    @property
    def encoder(self) -> str | None:
        """The encoder that is asked for: a pretrained one, or the cell of a recurrent network."""
        model = self.sections.get("model", {})
        found: str | None = model.get("encoder") or model.get("cell")
        return found

    def defaults(
        self, device: str, *, methods: Iterable[str | None] = (), replies: bool = False, vectors: Path | None = None
    ) -> "Defaults":
        """The defaults of a new model beneath the changes. A recipe without an encoder is of a recurrent network."""
        from memgrow.methods import find_method
        from memgrow.nn import LAYERS
        from memgrow.nn.device import find_device
        from memgrow.training.settings import defaults_for, defaults_for_new

        encoder = self.encoder or ("lstm" if vectors is not None else None)
        if self.is_recipe and (encoder is None or encoder in LAYERS):
            return defaults_for(None, replies)
        specs = [find_method(name) for name in methods if name]
        return defaults_for_new(find_device(device), encoder, methods=specs, replies=replies)


def read_settings(path: Path | None, words: Iterable[str] = (), encoder: str | None = None) -> SettingChanges:
    """Read a recipe, if there is one, and apply words such as hidden=64 or model.slots=100 to it."""
    from memgrow.nn import LAYERS

    if path is not None and not path.exists():
        path = SHIPPED.get(path.stem, path)
    single, sections = _read_recipe(path) if path is not None else ({}, {name: {} for name in setting_types()})
    for word in words:
        section, name, value = _parse_word(word)
        sections[section][name] = value
    if encoder is not None:
        sections["model"]["cell" if encoder in LAYERS else "encoder"] = encoder
    return SettingChanges(**single, sections=sections, is_recipe=path is not None)


def _read_recipe(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    import yaml

    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_RECIPE + 1)
        if len(text) > MAX_RECIPE:
            raise SettingsError(f"{path} is too long for a recipe: give the settings alone")
        found = yaml.safe_load(text)
    except OSError as error:
        raise SettingsError(f"cannot read the recipe {path} ({error.strerror}): check the name") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        line = f", line {mark.line + 1}" if (mark := getattr(error, "problem_mark", None)) else ""
        raise SettingsError(f"{path}{line}: this is not YAML: correct it") from error
    known = (*SINGLE, *setting_types())
    if not isinstance(found, dict) or set(found) - set(known):
        raise SettingsError(f"{path}: a recipe has some of {', '.join(known)}, each followed by a colon")
    single = {name: _check(f"{path}: {name}", kind, found[name]) for name, kind in SINGLE.items() if name in found}
    sections: dict[str, dict[str, Any]] = {}
    for section, types in setting_types().items():
        values = found.get(section) or {}
        if not isinstance(values, dict) or set(values) - set(types):
            raise SettingsError(f"{path}: {section} has settings {', '.join(types)}")
        sections[section] = {name: _check(f"{path}: {name}", types[name], value) for name, value in values.items()}
    return single, sections


def _parse_word(word: str) -> tuple[str, str, Any]:
    """Section, name and value of NAME=VALUE or SECTION.NAME=VALUE."""
    import yaml

    name, equals, text = word.partition("=")
    if not equals:
        raise SettingsError(f"--set {quoted(word)} has no '=': write a name and a value, such as hidden=64")
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise SettingsError(f"--set {quoted(word)} cannot be read: write one number or word after the '='") from error
    if name in SINGLE:
        raise SettingsError(f"--set has no {name}: give it as --{name}")
    types = {(section, setting): kind for section, some in setting_types().items() for setting, kind in some.items()}
    found = [place for place in types if name in (place[1], ".".join(place))]
    if len(found) > 1:
        raise SettingsError(f"--set {name} may be {' or '.join(map('.'.join, found))}: say which")
    if not found:
        names = [setting for _, setting in types]
        near = [SYNONYMS[name]] if name in SYNONYMS else get_close_matches(name.rpartition(".")[2], names)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise SettingsError(f"there is no setting {quoted(name)}: {hint}")
    return *found[0], _check(f"--set {name}", types[found[0]], value)


def _check(name: str, hint: Any, value: Any) -> Any:
    """The value, if it is of the type that the setting has. YAML reads 3e-4 as text, and it is accepted as a number."""
    from memgrow.data.disk import wrong_part

    alternatives = (hint,) if get_origin(hint) is Literal else get_args(hint) or (hint,)
    if float in alternatives and isinstance(value, int | float | str) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            value = float(value)
    is_number = not isinstance(value, float) or not math.isnan(value)
    is_small = not isinstance(value, int) or abs(value) <= LARGEST
    if is_number and is_small and wrong_part(value, hint, name) is None:
        return value
    expected = " or ".join(TYPE_NAMES.get(one) or " or ".join(get_args(one)) for one in alternatives)
    raise SettingsError(f"{name} must be {expected}, not {quoted(value)}")
