"""`memgrow data` and `memgrow encoder`: corpora and pretrained encoders, fetched and kept."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from memgrow.cli import options as opt
from memgrow.cli.app import console, note_to_stderr, notice, say, write_json, write_line
from memgrow.errors import SettingsError

Name = Annotated[str, opt.argument("NAME", "Its name: see list.")]
OptionalName = Annotated[str | None, opt.argument("NAME", "One only.")]
Again = Annotated[bool, typer.Option("--again", help="Fetch again what is there.")]
Source = Annotated[str | None, typer.Option("--from", metavar="SOURCE", help="A file or folder to take it from.")]
TITLES = {"what": "what", "seen": "trained on", "bytes": "size", "licence": "license", "here": "fetched"}


def _known(command: typer.Context) -> Mapping[str, Any]:
    """Corpora or encoders by name, as the group of the command says."""
    if command.parent is not None and command.parent.info_name == "data":
        from memgrow.data.corpora import CORPORA

        return CORPORA
    from memgrow.models.hub import KNOWN

    return KNOWN


def _find(command: typer.Context, name: str) -> Any:
    known = _known(command)
    if name not in known:
        raise SettingsError(f"there is nothing to fetch by the name {name!r}; choose among {', '.join(known)}")
    return known[name]


def _fetch(found: Any, source: str | None) -> Sequence[str]:
    from memgrow.data import corpora
    from memgrow.models import fetch

    if isinstance(found, corpora.Corpus):
        return corpora.get(found, source)
    taken_from = fetch.get(found.name, source)
    return [f"Fetched {found.what} ({found.licence}) from {taken_from}; its SHA-256 is that of the original."]


def get(
    kind: typer.Context, name: Name, again: Again = False, source: Source = None, as_json: opt.AsJson = False
) -> None:
    """Fetch and check one; no code of a package is run."""
    found = _find(kind, name)
    if again or not found.is_here():
        notice(*_fetch(found, source))
    if as_json:
        write_json({"name": name, "folder": str(found.folder)})
    say(f"{name} is in {found.folder}.", soft_wrap=True)


def list_all(kind: typer.Context, as_json: opt.AsJson = False) -> None:
    """List what can be fetched."""
    from memgrow.evaluation.tables import Column, Table, in_bytes

    facts: dict[str, dict[str, Any]] = {}
    for name, one in _known(kind).items():
        seen = {"seen": one.seen} if hasattr(one, "seen") else {}
        facts[name] = {"what": one.what, **seen, "bytes": one.size, "licence": one.licence, "here": one.is_here()}
    if as_json:
        write_json(facts, indent=1)
        return
    keys = next(iter(facts.values()))
    columns = [Column("name", wrap=False), *(Column(TITLES[key], wrap=key in ("what", "seen")) for key in keys)]
    shown = [one | {"bytes": in_bytes(one["bytes"]), "here": "yes" if one["here"] else "no"} for one in facts.values()]
    console.print(Table(None, columns, [(name, *one.values()) for name, one in zip(facts, shown, strict=True)]))


def where(kind: typer.Context, name: OptionalName = None, as_json: opt.AsJson = False) -> None:
    """Print the folder of all, or of one."""
    found = _find(kind, name) if name else None
    if found and not found.is_here():
        note_to_stderr(f"It is not there yet; run: {kind.command_path.removesuffix('where')}get {name}")
    folder = found.folder if found else next(iter(_known(kind).values())).folder.parent
    if as_json:
        write_json({"folder": str(folder)})
    else:
        write_line(str(folder))


ACTIONS: dict[str, Callable[..., None]] = {"get": get, "list": list_all, "where": where}
