"""`memgrow predict` and `chat`: labels for texts, or replies to them."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from memgrow.cli import options as opt
from memgrow.cli.answers import answer_format, answers_to, is_watched
from memgrow.cli.output import (
    console,
    count_cut_texts,
    note_cut_texts,
    note_to_stderr,
    notes,
    say,
    standard_input,
    standard_output,
    write_json,
    write_line,
)
from memgrow.errors import ModelError, SettingsError

if TYPE_CHECKING:
    from memgrow.data import Example
    from memgrow.learner import Learner

CHUNK = 1024  # texts that are answered together: a pipe or a file of any length takes little memory


def predict(
    model: opt.Model,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts; for a model of pairs, two for each answer.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="JSONL, CSV, TSV or Parquet file of texts.")
    ] = None,
    text: opt.Text = None,
    pair: opt.Pair = None,
    delimiter: opt.Delimiter = None,
    encoding: opt.Encoding = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write answers to a .jsonl or .csv file.")
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="Of answers: jsonl or csv.", show_default=False)
    ] = None,
    for_domain: opt.ForDomain = None,
    beam: opt.Beam = 1,
    device: opt.Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, as without it: all commands have it.")] = False,
) -> None:
    """Label texts, or reply to them, from arguments, a file or standard input; JSON lines or CSV out.

    On standard input a line is a JSON object or a plain text; for a model of pairs, two texts with a tab between.
    Answers have the other fields of their row.

    Example: memgrow predict model/ "a quiet, moving book"
    """
    from memgrow.data.batches import SOME, UnknownWords
    from memgrow.data.files import line_chunks
    from memgrow.data.inputs import in_chunks, inputs_from_arguments, inputs_from_file, inputs_from_lines
    from memgrow.learner import Learner
    from memgrow.models import REPLY
    from memgrow.report.progress_bars import ProgressBar
    from memgrow.storage import check_output

    if texts and file:
        raise SettingsError("give texts or a --file, not both")
    written = answer_format(format_, output)
    if as_json and written != "jsonl":
        raise SettingsError(f"give --json or answers as {written}, not both")
    if output is not None:
        check_output(output)
    if texts and encoding is not None:
        raise SettingsError("--encoding is for files and standard input, and texts are given: leave it out")
    if not file:
        opt.refuse_delimiter(delimiter, "texts are given" if texts else "standard input has a text or an object a line")
    columns = opt.columns(text=text, pair=pair, delimiter=delimiter, encoding=encoding)
    learner = Learner.load(model, device)
    if learner.task != REPLY and beam > 1:
        raise SettingsError("--beam is for replies, and this model answers with labels: leave it out")
    if texts:
        chunks = in_chunks(inputs_from_arguments(texts, learner.task), CHUNK)
    elif file:
        chunks = in_chunks(inputs_from_file(file, columns), CHUNK)
    else:
        chunks = inputs_from_lines(line_chunks(standard_input(), CHUNK), columns, learner.task)
        if sys.stdin.isatty():
            note_to_stderr("Type a text a line; Ctrl-D ends.")
    cut, done, unknown = 0, 0, UnknownWords()
    with answers_to(output, written) as answers, ProgressBar(notes) as bar:
        for chunk in chunks:
            examples = [one.example for one in chunk]
            cut += count_cut_texts(examples, learner)
            if done < SOME:
                unknown += learner.count_unknown(examples)
            for one, answer in zip(chunk, _answers(learner, examples, beam, for_domain), strict=True):
                answers.add(one, answer)
            if output is None:
                sys.stdout.flush()
            done += len(chunk)
            if done > CHUNK and is_watched(output):
                bar.show("texts", done, None, f"{done:,} answered")
    note_cut_texts(cut, learner)
    if (sentence := unknown.sentence("these texts")) is not None:
        note_to_stderr(sentence)


def chat(
    model: opt.Model,
    beam: opt.Beam = 1,
    temperature: Annotated[
        float | None,
        typer.Option(metavar="T", help="Draw words by chance: 1 as probable as they are, less is calmer.", min=0.01),
    ] = None,
    max_words: Annotated[int, typer.Option(metavar="N", help="A longer reply is cut.", min=1)] = 40,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    as_json: opt.AsJson = False,
) -> None:
    """Talk to a model that has learnt replies; shows whose slots each reply read.

    A line is a message, and has no memory of the one before it. An empty line or Ctrl-D ends.

    Example: memgrow chat model/ --beam 5
    """
    from memgrow.data.files import decode_lines
    from memgrow.evaluation.attention import reply_attention
    from memgrow.learner import Learner
    from memgrow.models import REPLY
    from memgrow.report.table import percent

    standard_output()  # a reply that nobody can hear is not worth its while
    learner = Learner.load(model, device)
    if learner.task != REPLY:
        raise ModelError(f"{model} answers with labels, not with words: use memgrow predict")
    messages = decode_lines(standard_input())
    if sys.stdin.isatty():
        note_to_stderr("Type a message a line; an empty line ends.")
    for turn, (_, line) in enumerate(messages):
        if not (message := line.strip()):
            break
        (reply,) = learner.reply(
            [message], beam=beam, temperature=temperature, max_words=max_words, seed=(seed or 0) + turn
        )
        shares = reply_attention(learner, message, reply)
        text = reply.text + ("" if reply.ended else " …")
        if as_json:
            write_json({"reply": reply.text, "ended": reply.ended, "reads": shares})
        elif console.quiet:
            write_line(text)  # the answer is what was asked for: --quiet leaves out whose slots were read
        sys.stdout.flush()
        console.print(Text(text))
        if shares:
            say("   " + ", ".join(f"{name} {percent(share)}%" for name, share in shares.items()), "dim")


def _answers(
    learner: "Learner", examples: "Sequence[Example]", beam: int, for_domain: str | None = None
) -> Iterator[dict[str, Any]]:
    from memgrow.models import REPLY

    if learner.task != REPLY or for_domain is not None:
        asked = learner if for_domain is None else learner.for_domain(for_domain)
        for answer in asked.predict(examples):
            yield {"label": answer.label, "probabilities": answer.probabilities}
        return
    for reply in learner.reply(examples, beam=beam):
        yield {"reply": reply.text, "ended": reply.ended}
