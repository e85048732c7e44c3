"""`memgrow data`: public corpora, fetched and kept."""

from typing import Annotated

import typer
from rich import box
from rich.table import Table

from memgrow.cli.output import console, note_to_stderr, say, write_line

commands = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The corpus: see memgrow data list.", show_default=False)]


@commands.callback()
def about() -> None:
    """Corpora that can be fetched: get one, list them, say where they are.

    Example: memgrow data get sentiment
    """


@commands.command()
def get(
    name: Name,
    again: Annotated[bool, typer.Option("--again", help="Fetch anew what is there already.")] = False,
    source: Annotated[
        str | None, typer.Option("--from", metavar="SOURCE", help="A file or address of the archive; or hub.")
    ] = None,
) -> None:
    """Fetch a corpus, check it and unpack it; goes on where it broke off.

    Example: memgrow data get sentiment
    """
    from memgrow.data.corpora import corpus_called
    from memgrow.data.corpora import get as fetch
    from memgrow.report.progress_bars import DownloadBar

    corpus = corpus_called(name)
    if corpus.is_in(corpus.folder) and not again:
        say(f"{name} is in {corpus.folder} already; --again fetches it anew.", soft_wrap=True)
        return
    with DownloadBar(console, name) as bar:
        sentences = fetch(corpus, source, bar.watch)
    for sentence in sentences:
        say(sentence, "dim")
    say(f"{name} is in {corpus.folder}.", soft_wrap=True)


@commands.command(name="list")
def list_() -> None:
    """The corpora by name.

    Example: memgrow data list
    """
    from memgrow.data.corpora import CORPORA

    table = Table(box=box.SIMPLE_HEAD)
    for name in ("name", "what it is", "fetches", "licence", "here"):
        table.add_column(name, overflow="fold", no_wrap=name in ("name", "fetches", "here"))
    for corpus in CORPORA.values():
        here = "yes" if corpus.is_in(corpus.folder) else "no"
        size = f"{corpus.checksum.size / 1e6:,.1f} MB" if corpus.checksum.size else "unknown"
        table.add_row(corpus.name, corpus.what, size, corpus.licence, here)
    console.print(table)


@commands.command()
def where(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One corpus alone.", show_default=False)] = None,
) -> None:
    """The folder of all corpora, or of one.

    Example: memgrow data where sentiment
    """
    from memgrow.data.corpora import corpus_called, data_folder

    folder = corpus_called(name).folder if name else data_folder()
    if name and not corpus_called(name).is_in(folder):
        note_to_stderr(f"{name} is not there yet; run: memgrow data get {name}")
    write_line(str(folder))  # somebody may want to cd there
