"""The input and output of commands: names in, sentences, JSON and pictures out."""

import errno
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from memgrow.errors import SettingsError, counted, json_text, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from memgrow.data import Example
    from memgrow.learner import Learner

AT_ONCE = 1024  # texts that are split together, to see how many are cut
PICTURES = ("png", "svg", "pdf")  # formats by the ends of names
PIPED = ConsoleDimensions(10_000, 25)  # size of what is no terminal
SPECIAL = 8  # pieces that an encoder puts around its texts, at most


class PrintableConsole(Console):
    """Escapes control characters in names. Output that is piped is not wrapped unless COLUMNS is set."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text, lines=True))

    @property
    def size(self) -> ConsoleDimensions:
        return super().size if self.is_terminal or "COLUMNS" in os.environ else PIPED

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

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


def progress_console() -> Console:
    """Where progress and notices go: standard error if the output is JSON."""
    return notes if console.quiet else console


def notice(sentence: str) -> None:
    """Print a notice of a long command, to standard error if the output is JSON."""
    if sentence:
        progress_console().print(Text(sentence, "dim"))


def note_to_stderr(sentence: str) -> None:
    """Print to standard error, so that a pipe does not get it."""
    notes.print(Text(sentence, "dim"))


def write_json(value: Any, indent: int | None = None) -> None:
    """Print JSON in UTF-8, whatever the terminal's own encoding is."""
    from memgrow.data.disk import finite

    write_line(json_text(finite(value), indent))


def write_line(line: str) -> None:
    """Write a line for a program to read, unwrapped and in UTF-8."""
    standard_output().write(f"{line}\n".encode(errors="surrogateescape"))  # as the names of files are


def standard_output() -> BinaryIO:
    """Standard output as bytes."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, "standard output is closed")
    return sys.stdout.buffer


def standard_input() -> BinaryIO:
    """Standard input as bytes."""
    if sys.stdin is None:
        raise SettingsError("standard input is closed: give texts by a pipe or a file")
    return sys.stdin.buffer


def picture_format(path: Path) -> str:
    """The format of a picture, as the name of its file says."""
    name = path.suffix.lower().removeprefix(".")
    if name not in PICTURES:
        raise SettingsError(f"{path} must end with .{', .'.join(PICTURES)}, which says the format of the picture")
    return name


def save_picture(path: Path, draw: "Callable[[], Figure]") -> None:
    """Write a plot and say where it is; without matplotlib, say that there is none."""
    from memgrow.data.disk import open_output
    from memgrow.evaluation.plots import save_figure

    try:
        figure = draw()
        with open_output(path) as file:
            save_figure(figure, file, picture_format(path))
    except SettingsError as error:
        note_to_stderr(f"There is no picture: {error}")
    else:
        say(f"The picture is {path}.")


def count_cut_texts(examples: "Iterable[Example]", learner: "Learner") -> int:
    """The number of texts that are longer than the model reads."""
    from memgrow.data.inputs import in_chunks

    limit = learner.config.max_tokens
    # A token has a byte at least (and special ones are few), so that most texts need no splitting.
    long = (one for one in examples if sum(len(text.encode(errors="replace")) for text in one.texts) + SPECIAL > limit)
    return sum(learner.config.tokenize(some).cut for some in in_chunks(long, AT_ONCE))


def note_cut_texts(cut: int, learner: "Learner") -> None:
    """Say how many texts are longer than the model reads."""
    if cut:
        long = f"{counted(cut, 'text')} longer than {learner.config.max_tokens} {learner.settings.token_name}"
        note_to_stderr(f"{long}: only the beginning is read")
