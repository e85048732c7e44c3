"""`memgrow predict` and `chat`: labels for texts, or replies to them."""

import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO

from memgrow.cli import options as opt
from memgrow.cli.app import (
    console,
    count_cut_texts,
    note_cut_texts,
    note_to_stderr,
    notes,
    standard_input,
    write_json,
    write_line,
)
from memgrow.errors import DataError, ModelError, SettingsError, counted, json_text, listed, printable

if TYPE_CHECKING:
    from memgrow.data import Example
    from memgrow.data.rows import Input
    from memgrow.learner import Learner

CHUNK = 1024  # texts that are predicted together: a pipe or a file of any length takes little memory
DIGITS = 4  # of probabilities in a terminal
OUTPUT_NAMES = ("texts", "label", "probability", "probabilities", "reply", "ended")
Write = Callable[["Input", Mapping[str, Any]], object]  # a row with its prediction


@opt.grouped
def predict(
    model: opt.Model,
    rows: opt.FileOptions,
    texts: opt.Texts = None,
    file: Path | None = opt.file_option("JSONL, CSV, TSV or Parquet file of texts.", None),
    output: Path | None = opt.option("Write to a .jsonl or .csv file.", "--output", "-o", metavar="FILE"),
    for_domain: str | None = opt.option("Texts are of this domain: only its labels, or its weights.", metavar="NAME"),
    beam: int = opt.BEAM,
    device: str = opt.DEVICE,
    as_json: bool = opt.option("JSON lines (the default).", "--json", default=False),
) -> None:
    """Label texts, or reply to them, from arguments, a file or standard input.

    A line of standard input is a JSON object or a plain text; for a pair model, two texts with a tab between. The
    output keeps the other fields of a row.

    Example: memgrow predict model/ "a quiet, moving book"
    """
    from memgrow.data.batches import SOME, UnknownWords
    from memgrow.data.disk import check_output
    from memgrow.data.files import line_chunks
    from memgrow.data.rows import in_chunks, inputs_from_arguments, inputs_from_file, inputs_from_lines
    from memgrow.evaluation.progress_bars import ProgressBar
    from memgrow.learner import Learner
    from memgrow.models import REPLY

    if texts and file:
        raise SettingsError("give texts or a --file, not both")
    if output is not None:
        if output.suffix.lower() not in (".jsonl", ".csv"):
            raise SettingsError(f"{output} must end with .jsonl or .csv, which says the format")
        check_output(output)
    learner = Learner.load(model, device)
    if learner.task != REPLY and beam > 1:
        raise SettingsError("--beam is for replies, and this model predicts labels: leave it out")
    if texts:
        chunks = in_chunks(inputs_from_arguments(texts, learner.task), CHUNK)
    elif file:
        chunks = in_chunks(inputs_from_file(file, rows.columns()), CHUNK)
    else:
        chunks = inputs_from_lines(line_chunks(standard_input(), CHUNK), rows.columns(), learner.task)
        if sys.stdin.isatty():
            note_to_stderr("Type a text a line; Ctrl-D ends.")
    cut, done, unknown = 0, 0, UnknownWords()
    with _output(output) as write, ProgressBar(notes) if output else nullcontext() as bar:
        # A terminal has a reader, who needs no seventeen digits; files, pipes and --json have what the model gave.
        digits = DIGITS if output is None and console.is_terminal and not as_json else None
        for chunk in chunks:
            examples = [one.example for one in chunk]
            cut += count_cut_texts(examples, learner)
            if done < SOME:
                unknown += learner.count_unknown(examples)
            for one, prediction in zip(chunk, _predictions(learner, examples, beam, for_domain, digits), strict=True):
                write(one, prediction)
            done += len(chunk)
            if bar is None:
                sys.stdout.flush()
            elif done > CHUNK:
                bar.show("texts", done, None, f"{done:,} done")
    if output is not None:
        note_to_stderr(f"{counted(done, 'row')} written to {output}")
    note_cut_texts(cut, learner)
    if (sentence := unknown.sentence("these texts")) is not None:
        note_to_stderr(sentence)


def chat(
    model: opt.Model,
    beam: int = opt.BEAM,
    temperature: float | None = opt.option("Sample with this temperature.", metavar="T", min=0.01),
    top_p: float | None = opt.option("Sample from the most probable tokens only.", metavar="P", min=0.01, max=1),
    max_words: int = opt.option("Longest reply.", default=40, metavar="N", min=1),
    seed: int = opt.option("Of sampling.", default=0, metavar="N"),
    device: str = opt.DEVICE,
    as_json: opt.AsJson = False,
) -> None:
    """Talk to a model that has learned replies.

    Each line is a message of its own. An empty line or Ctrl-D ends.

    Example: memgrow chat model/ --beam 5
    """
    from memgrow.data.files import decode_lines
    from memgrow.learner import Learner
    from memgrow.models import REPLY

    learner = Learner.load(model, device)
    if learner.task != REPLY:
        raise ModelError(f"{model} predicts labels: use memgrow predict")
    if sys.stdin.isatty():
        note_to_stderr("Type a message a line; an empty line ends.")
    for turn, (_, line) in enumerate(decode_lines(standard_input())):
        if not (message := line.strip()):
            break
        (reply,) = learner.reply(
            [message], beam=beam, temperature=temperature, top_p=top_p, max_words=max_words, seed=seed + turn
        )
        if as_json:
            write_json({"reply": reply.text, "ended": reply.ended})
        else:
            write_line(printable(reply.text + ("" if reply.ended else " …")))
        sys.stdout.flush()


def _predictions(
    learner: "Learner", examples: "Sequence[Example]", beam: int, for_domain: str | None, digits: int | None
) -> Iterator[dict[str, Any]]:
    from memgrow.models import REPLY

    if learner.task == REPLY:
        for reply in learner.reply(examples, beam=beam, domain=for_domain):
            yield {"reply": reply.text, "ended": reply.ended}
        return
    model = learner if for_domain is None else learner.for_domain(for_domain)
    for one in model.predict(examples):
        shares = one.probabilities
        if digits is not None:
            shares = {label: round(share, digits) for label, share in shares.items()}
        yield {"label": one.label, "probabilities": shares}


@contextmanager
def _output(path: Path | None) -> Iterator[Write]:
    """Writes to standard output, or to a file that appears once all is written."""
    if path is None:
        yield lambda given, prediction: write_json(_json_row(given, prediction))
        return
    from memgrow.data.disk import finite, open_output

    with open_output(path) as file:
        if path.suffix.lower() == ".csv":
            yield _csv_lines(file)
        else:
            yield lambda given, row: file.write(f"{json_text(finite(_json_row(given, row)))}\n".encode())


def _csv_lines(file: BinaryIO) -> Write:
    """Writes rows below a header, which is that of the first row."""
    lines = SimpleNamespace(write=lambda line: file.write(line.encode(errors="backslashreplace")))
    names: list[str] = []
    table = csv.DictWriter(lines, names, lineterminator="\n")

    def write(given: "Input", prediction: Mapping[str, Any]) -> None:
        row = _csv_row(given, prediction)
        if not names:
            names.extend(row)
            table.writeheader()
        if unknown := [name for name in row if name not in names]:
            raise DataError(f"{given.example.where}: the first row has no field {listed(unknown)}: write .jsonl")
        table.writerow({name: one if isinstance(one, str | None) else json_text(one) for name, one in row.items()})

    return write


def _json_row(given: "Input", prediction: Mapping[str, Any]) -> dict[str, Any]:
    """The other fields of the row, the texts, and the prediction."""
    others = {name: value for name, value in given.fields.items() if name not in given.text_columns}
    return {**_kept(others, prediction), "texts": given.example.texts, **prediction}


def _csv_row(given: "Input", prediction: Mapping[str, Any]) -> dict[str, Any]:
    """All fields of the row, then the prediction with a column for each label."""
    columns = dict(prediction)
    if shares := columns.pop("probabilities", None):
        columns["probability"] = shares[columns["label"]]
        columns |= {f"probability_{label}": share for label, share in shares.items()}
    return _kept(given.fields or dict(zip(("text", "pair"), given.example.texts, strict=False)), columns) | columns


def _kept(fields: Mapping[str, Any], prediction: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a row for the output: as given_NAME where the prediction has one of that name."""
    found = {}
    for name, value in fields.items():
        new = name
        while new in OUTPUT_NAMES or new in prediction or (new != name and new in fields):
            new = f"given_{new}"
        found[new] = value
    return found
