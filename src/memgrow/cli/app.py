"""The command line application: errors become one sentence and an exit code, whichever command they happen in."""

import errno
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer
from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from memgrow import __version__
from memgrow.errors import ForgettingError, MemgrowError, SettingsError, counted, interruption, json_text, printable

if TYPE_CHECKING:
    from memgrow.data import Example
    from memgrow.evaluation.model_tables import Verdict
    from memgrow.learner import Learner


EXTRAS = {"serve": "fastapi", "sklearn": "sklearn", "stats": "scipy", "arrow": "pyarrow"}
AT_ONCE = 1024  # texts that are split together, to see how many are cut
PIPED = ConsoleDimensions(10_000, 25)  # size of what is no terminal
SPECIAL = 8  # pieces that an encoder puts around its texts, at most


class PrintableConsole(Console):
    """Escapes control characters in names. Output that is piped is not wrapped unless COLUMNS is set."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text, lines=True))

    @property  # type: ignore[misc]
    def size(self) -> ConsoleDimensions:
        return super().size if self.is_terminal or "COLUMNS" in os.environ else PIPED

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


console = PrintableConsole(highlight=False)
stderr = PrintableConsole(stderr=True, highlight=False)  # for errors
notes = PrintableConsole(stderr=True, highlight=False)  # for what is said beside the output


def split_names(listed: str | None) -> list[str] | None:
    """The names of a list with commas; None if there are none."""
    return [name.strip() for name in listed.split(",") if name.strip()] if listed else None


def say(sentence: str, style: str = "", soft_wrap: bool = False) -> None:
    """Print a sentence, in which nothing is markup; soft_wrap: as one line."""
    if sentence:
        console.print(Text(sentence, style), soft_wrap=soft_wrap)


def say_verdict(verdict: "Verdict") -> None:
    """Print whether a model has forgotten, by a colour too."""
    colours = {"green": "green", "amber": "yellow", "red": "red", "unknown": "dim"}
    say(f"{verdict.title}: {verdict.sentence}", colours[verdict.level])


def progress_console() -> Console:
    """Where progress and notices go: standard error if the output is JSON."""
    return notes if console.quiet else console


def notice(*sentences: str) -> None:
    """Print notices of a long command, to standard error if the output is JSON."""
    for sentence in filter(None, sentences):
        progress_console().print(Text(sentence, "dim"))


def note_to_stderr(*sentences: str) -> None:
    """Print to standard error, so that a pipe does not get it."""
    for sentence in sentences:
        notes.print(Text(sentence, "dim"))


def write_json(value: Any, indent: int | None = None) -> None:
    """Print JSON in UTF-8, whatever the terminal's own encoding is."""
    from memgrow.data.disk import finite

    write_line(json_text(finite(value), indent))


def write_line(line: str) -> None:
    """Write a line for a program to read, unwrapped and in UTF-8."""
    standard_output().write(f"{line}\n".encode(errors="surrogateescape"))  # as the names of files are


def standard_output() -> BinaryIO:
    if sys.stdout is None:
        raise OSError(errno.EBADF, "standard output is closed")
    return sys.stdout.buffer


def standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise SettingsError("standard input is closed: give texts by a pipe or a file")
    return sys.stdin.buffer


def count_cut_texts(examples: "Iterable[Example]", learner: "Learner") -> int:
    from memgrow.data.rows import in_chunks

    limit = learner.config.max_tokens
    # A token has a byte at least (and special ones are few), so that most texts need no splitting.
    long = (one for one in examples if sum(len(text.encode(errors="replace")) for text in one.texts) + SPECIAL > limit)
    return sum(learner.config.tokenize(some).cut for some in in_chunks(long, AT_ONCE))


def note_cut_texts(cut: int, learner: "Learner") -> None:
    if cut:
        long = f"{counted(cut, 'text')} longer than {learner.config.max_tokens} {learner.settings.token_name}"
        note_to_stderr(f"{long}: only the {'end' if learner.settings.token_name == 'tokens' else 'beginning'} is read")


EXIT_CODES = (
    "Exit codes: 0 done; 1 an internal error, or a damaged model (inspect --verify); 2 a mistake, explained in one "
    "sentence; 3 a domain was not kept (--max-forgetting); 130 Ctrl-C; 141 broken pipe; 143 SIGTERM."
)
USER_ERROR, FORGOT, INTERRUPTED, BROKEN_PIPE, TERMINATED = 2, 3, 130, 141, 143
RESUMABLE = ("adapt", "compare", "data", "encoder")

# Each says for one release what to use instead.
REMOVED_COMMANDS = {
    "verify": "use memgrow inspect MODEL --verify",
    "history": "use memgrow inspect MODEL",
    "watch": "it is now memgrow drift",
    "doctor": "use memgrow --version",
    "recipes": "--recipe takes small, small-dialogue, demo or a YAML file of settings",
    "tune": "use scikit-learn's search with memgrow.sklearn.MemgrowClassifier",
    "prune": "slots are no longer pruned; train a model with fewer slots (--set slots=N)",
    "export-domain": "use memgrow domain export MODEL NAME FILE",
    "import-domain": "use memgrow domain import MODEL FILE",
    "paper": "run python -m research.paper in a checkout of the repository",
    "theorem": "run python -m research.theorem in a checkout of the repository",
}
REMOVED_OPTIONS = {
    "--processes": "run accelerate launch -m memgrow adapt",
    "--loop": "there is one training loop",
    "--log-texts": "the log has no texts; log them where requests are sent",
    "--delimiter": "the delimiter of a CSV file is found in its header",
    "--held-out": "give --validation and --test",
    "--skip-empty": "leave rows with an empty text out of the file",
    "--track": "use --tensorboard FOLDER",
    "--track-to": "use --tensorboard FOLDER",
    "--comparison": "memgrow report FOLDER makes a page of a comparison",
    "--format": "predict -o FILE.csv writes CSV",
    "--plot": "memgrow report MODEL DATA shows the confusion matrices",
    "--plots": "the report is one page, which a browser can print; compare.json has the figures",
    "--against": "write the answers of both models with predict -o; McNemar's test compares them",
    "--max-inputs": "a request has at most 256 inputs",
    "--max-characters": "a text has at most 20,000 characters",
}


class Terminated(KeyboardInterrupt):
    """SIGTERM: a command ends as by Ctrl-C."""


def set_quiet(quiet: bool) -> None:
    console.quiet = notes.quiet = quiet


def _quiet_option() -> list[Any]:
    """--quiet as the parameter of a command, which Typer alone makes the same way in all its versions."""
    option = typer.Option(
        "--quiet", "-q", help="Print errors and requested JSON only.", callback=set_quiet, expose_value=False
    )

    def only(quiet: Annotated[bool, option] = False) -> None: ...

    one = typer.Typer(add_completion=False)
    one.command()(only)
    return get_command(one).params


class Command(TyperCommand):
    """A command with --quiet; options that no longer exist are explained."""

    def __init__(self, *arguments: Any, params: Any = None, **named: Any) -> None:
        super().__init__(*arguments, params=[*(params or ()), *_quiet_option()], **named)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for word in args:
            if (name := word.partition("=")[0]) in REMOVED_OPTIONS:
                raise SettingsError(f"{name} no longer exists: {REMOVED_OPTIONS[name]}")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        if ctx.params.get("as_json"):
            console.quiet = True  # nothing but the JSON goes to standard output
        return super().invoke(ctx)


class Application(TyperGroup):
    """The group of all commands: turns errors into sentences."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            if (code := report(error, ctx.invoked_subcommand)) is None:
                raise
            _discard_output()
            ctx.exit(code)


app = typer.Typer(
    cls=Application,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def removed(name: str, instead: str) -> Callable[..., None]:
    """A command that says what to use in its place."""

    def explain(words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
        raise SettingsError(f"memgrow {name} no longer exists: {instead}")

    return explain


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from memgrow.models.hub import DEFAULT_ENCODER, KNOWN

        python = ".".join(map(str, sys.version_info[:3]))
        print(f"memgrow {__version__} (torch {version('torch')}, Python {python})")
        if not KNOWN[DEFAULT_ENCODER].is_here():
            print(f"not fetched yet: encoder {DEFAULT_ENCODER}, which the first adapt fetches")
        if lacking := [extra for extra, package in EXTRAS.items() if find_spec(package) is None]:
            print(f"not installed: {', '.join(f'memgrow[{extra}]' for extra in lacking)}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def memgrow(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Teach one text model domain after domain without the old data, and measure what it forgets."""


def main() -> None:
    run(app, "memgrow")


def run(app: Callable[..., None], name: str) -> None:
    """Run the application; Ctrl-C and SIGTERM end it with a sentence, also before and after its command."""
    streams = sys.stdout, sys.stderr
    warnings.showwarning = _show_warning
    try:
        with suppress(ValueError):  # not the main thread
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, _terminate)
        app(prog_name=name)
    except BaseException as end:
        sys.stdout, sys.stderr = streams  # typer may have replaced them
        _ignore_signals()
        code = getattr(end, "code", None)
        if code not in (INTERRUPTED, TERMINATED) and (stopped := interruption(end)):
            sys.exit(report(stopped, next(iter(sys.argv[1:]), None)))
        if isinstance(end.__context__, BrokenPipeError):
            code = BROKEN_PIPE
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError as error:
            code = code or report(error)
        _discard_output()
        if not isinstance(end, SystemExit):
            raise
        sys.exit(code)


def report(error: BaseException, command: str | None = None) -> int | None:
    """Say what an error means to the user; returns the exit code, or None for an error that needs its traceback."""
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    if (stopped := interruption(error)) is not None:  # of an import, it may arrive as another error
        _ignore_signals()
        resumes = "; run the same command again to resume" if command in RESUMABLE else ""
        complain(f"stopped; what was saved before is unchanged{resumes}")
        return TERMINATED if isinstance(stopped, Terminated) else INTERRUPTED
    if isinstance(error, MemgrowError):
        complain(str(error))
    elif isinstance(error, OSError):
        what = f"{error.filename}: " if error.filename else ""
        complain(f"{what}{error.strerror or error}; check that it can be read and written")
    elif "torch" in sys.modules and _is_out_of_memory(error):
        complain("out of memory: use a smaller batch, hidden, slots or max_words (--set)")
    else:
        return None
    return FORGOT if isinstance(error, ForgettingError) else USER_ERROR


def complain(sentence: str) -> None:
    stderr.print(Text.assemble(("memgrow:", "red"), " ", sentence), soft_wrap=True)


def _is_out_of_memory(error: BaseException) -> bool:
    from memgrow.nn.device import is_out_of_memory

    return is_out_of_memory(error)


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Print a warning, which may repeat names and texts, to standard error."""
    notes.print(Text(warnings.formatwarning(message, category, filename, lineno, "").rstrip()), soft_wrap=True)


def _terminate(number: int, frame: Any) -> None:
    raise Terminated


def _ignore_signals() -> None:
    """The command is about to end: a signal would only turn its sentence into a traceback."""
    if signal.getsignal(signal.SIGTERM) is _terminate:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def _discard_output() -> None:
    """Drop output that cannot be written: Python would fail once more at exit and change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())
