"""`memgrow data`: public corpora, fetched and kept."""

from typing import Annotated

import typer
from rich import box
from rich.table import Table

from memgrow.cli import options as opt
from memgrow.cli.output import console, note_to_stderr, notice, progress_console, say, write_json, write_line

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
        str | None, typer.Option("--from", metavar="SOURCE", help="A file or address of the archive.")
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Fetch a corpus, check it and unpack it.

    Example: memgrow data get sentiment
    """
    from memgrow.data.corpora import corpus_called
    from memgrow.data.corpora import get as fetch
    from memgrow.report.progress_bars import DownloadBar

    corpus = corpus_called(name)
    there = corpus.is_in(corpus.folder) and not again
    if there and as_json:
        write_json({"name": name, "folder": str(corpus.folder)})
    if there:
        say(f"{name} is in {corpus.folder} already; --again fetches it anew.", soft_wrap=True)
        return
    with DownloadBar(progress_console(), name) as bar:
        sentences = fetch(corpus, source, bar.watch)
    if as_json:
        write_json({"name": name, "folder": str(corpus.folder)})
    for sentence in sentences:
        notice(sentence)
    say(f"{name} is in {corpus.folder}.", soft_wrap=True)


@commands.command(name="list")
def list_(as_json: opt.AsJson = False) -> None:
    """The corpora by name.

    Example: memgrow data list
    """
    from memgrow.data.corpora import CORPORA

    if as_json:
        corpora = {
            one.name: {
                "what": one.what,
                "bytes": one.size,
                "licence": one.licence,
                "here": one.is_in(one.folder),
            }
            for one in CORPORA.values()
        }
        write_json(corpora, indent=1)
        return
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("name", "what it is", "fetches", "licence", "here"):
        table.add_column(name, overflow="fold", no_wrap=name in ("name", "fetches", "here"))
    for corpus in CORPORA.values():
        here = "yes" if corpus.is_in(corpus.folder) else "no"
        size = f"{corpus.size / 1e6:,.1f} MB"
        table.add_row(corpus.name, corpus.what, size, corpus.licence, here)
    console.print(table)


@commands.command()
def where(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One corpus alone.", show_default=False)] = None,
    as_json: opt.AsJson = False,
) -> None:
    """The folder of all corpora, or of one.

    Example: memgrow data where sentiment
    """
    from memgrow.data.corpora import corpus_called, data_folder

    folder = corpus_called(name).folder if name else data_folder()
    if name and not corpus_called(name).is_in(folder):
        note_to_stderr(f"{name} is not there yet; run: memgrow data get {name}")
    if as_json:
        write_json({"folder": str(folder)})
        return
    write_line(str(folder))  # somebody may want to cd there
