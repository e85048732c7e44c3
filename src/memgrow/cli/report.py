"""`memgrow report`: a model, a comparison or the demo as one page to look at, and as pictures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.app import note_to_stderr, progress_console, say, say_verdict, write_json
from memgrow.errors import SettingsError

if TYPE_CHECKING:
    from memgrow.evaluation.report import Report

REPORT = "report.html"
BEGINNING = 1000  # bytes of a page in which its maker is named


@opt.grouped
def report(
    what: Annotated[Path, opt.argument("RUN_OR_MODEL", "A model's folder, or what compare or demo has written.")],
    rows: opt.DataOptions,
    data: Annotated[
        list[Path] | None,
        opt.argument("DATA", "Of a model: files of its domains, to test it on."),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The page.")] = Path(REPORT),
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="For a comparison: the method to report on [the best].")
    ] = None,
    plots: Annotated[Path | None, opt.file_option("Write the plots as PNG and SVG too.", None, "FOLDER")] = None,
    device: opt.Device = "auto",
    as_json: opt.AsJson = False,
) -> None:
    """Write an HTML report: what each domain gained, what was forgotten, and what it cost.

    Example: memgrow report model/ books_test.jsonl dvds_test.jsonl -o report.html
    """
    from memgrow.evaluation.plots import new_figure
    from memgrow.evaluation.report import find_results, read_results, report_of_model, save_plots
    from memgrow.learner import Learner

    check_replaceable(out)
    new_figure(1, 1)  # fails without matplotlib, before anything is read
    results = find_results(what)
    if results is not None:
        if data:
            raise SettingsError(f"{what} holds results and no model: leave out the data, or give a model's folder")
        made = read_results(results, method)
    else:
        if method is not None:
            raise SettingsError(f"--method is for comparisons, and {what} is none: leave it out")
        learner = Learner.load(what, device)
        loaded = rows.load_for_evaluation(data, what) if data else None
        note_to_stderr(*(loaded.notices if loaded else ()))
        with progress_console().status("reading the texts" if data else "reading the model"):
            made = report_of_model(learner, str(what), tuple(loaded.stream) if loaded else ())
    write_report(made, out)
    say_verdict(made.verdict)
    pictures = save_plots(made, plots) if plots is not None else []
    if as_json:
        write_json({"report": str(out), "pictures": [str(path) for path in pictures], **made.to_json()})
    if plots is not None:
        say(f"The pictures are in {plots}: {', '.join(path.name for path in pictures)}.")


def write_report(made: "Report", out: Path) -> None:
    """Write the page whole or not at all, and say where it is."""
    from memgrow.data.disk import open_output
    from memgrow.evaluation.report import render

    page = render(made).encode()
    with open_output(out) as file:
        file.write(page)
    say(f"The report is {out}.")


def check_replaceable(out: Path) -> None:
    """Refuse to write over anything but an earlier report."""
    from memgrow.data.disk import check_output
    from memgrow.evaluation.report import GENERATOR

    check_output(out)
    if not out.is_file():
        return  # a pipe would wait for somebody to write
    with out.open("rb") as file:
        if f'content="{GENERATOR}"'.encode() not in file.read(BEGINNING):
            raise SettingsError(f"{out} exists and is no report of memgrow's: choose another name")
