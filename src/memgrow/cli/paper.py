"""`memgrow paper`: the paper's tables on either corpus."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from memgrow.cli import options as opt
from memgrow.cli.output import console, opened, progress_console, save_picture, say, write_json
from memgrow.errors import SettingsError, counted

if TYPE_CHECKING:
    from memgrow.experiments.grid import Watcher
    from memgrow.experiments.paper.corpora import Corpus
    from memgrow.experiments.paper.session import Ran, Session

What = Annotated[
    list[str],
    typer.Argument(
        metavar="WHAT",
        help="table1 to table4, slots, rates, tuning, conditions, recommended, theorem; all; table5, table6; page.",
        show_default=False,
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option("--data", metavar="FOLDER", help="The corpus; else what was fetched.", rich_help_panel=opt.DATA),
]
Similar = Annotated[
    Path | None,
    typer.Option("--w2v", metavar="FILE", help="Of table5: vectors for W2V-Sim.", rich_help_panel=opt.DATA),
]
Extra = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="More pairs, with guessed genres, for conditions.", rich_help_panel=opt.DATA),
]
Limit = Annotated[
    int | None,
    typer.Option(metavar="N", help="At most so many training pairs a domain.", min=1, rich_help_panel=opt.DATA),
]
Seeds = Annotated[int | None, typer.Option(metavar="N", help="Seeds; else each table's own number.", min=1)]
Out = Annotated[Path | None, typer.Option(metavar="FOLDER", help="For tables and runs; else results/paper.")]
Workers = Annotated[int | None, typer.Option(metavar="N", help="Processes; else as many as suit.", min=1)]


def paper(
    what: What,
    data: Folder = None,
    vectors: opt.Vectors = None,
    seeds: Seeds = None,
    out: Out = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes: minutes on two cores.")] = False,
    only_runs: Annotated[bool, typer.Option("--only-runs", help="Make the runs, but no tables.")] = False,
    no_runs: Annotated[
        bool, typer.Option("--no-runs", help="Make the tables from finished runs; cells without any stay empty.")
    ] = False,
    study: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Of conditions: this study.")] = None,
    page: Annotated[Path, typer.Option(metavar="FILE", help="What `page` writes.")] = Path("docs/paper.md"),
    limit: Limit = None,
    extra: Extra = None,
    w2v: Similar = None,
    device: opt.Device = "auto",
    workers: Workers = None,
    on: opt.On = opt.LOCAL,
    as_json: opt.AsJson = False,
) -> None:
    """The paper's tables, on MultiNLI and on dialogue: our figures beside the paper's.

    Finished runs are kept: the same command again makes the tables from them.

    Example: memgrow paper table2 --data multinli/ --vectors glove.300d.txt
    """
    from memgrow.experiments.on_ray import find_backend
    from memgrow.experiments.paper.protocol import DIALOGUE, PAPER, QUICK, QUICK_DIALOGUE, asked
    from memgrow.experiments.paper.session import DIALOGUE as DIALOGUE_TABLES
    from memgrow.experiments.paper.session import PAGE, RUNS, Runner, Session, named
    from memgrow.experiments.paper.tables import TABLES
    from memgrow.experiments.store import Store
    from memgrow.report.progress_bars import GridBar

    names, vectors = named(what), opt.vectors_file(vectors)
    backend = find_backend(on)
    tables = [name for name in names if name in TABLES]
    is_dialogue = any(name in DIALOGUE_TABLES for name in names)
    if study and "conditions" not in tables:
        raise SettingsError("--study chooses among the studies of conditions: ask for conditions as well")
    if w2v is not None and not is_dialogue:
        raise SettingsError("--w2v has the word vectors of W2V-Sim, which table5 alone shows: ask for table5")
    if extra is not None and is_dialogue:
        raise SettingsError("--extra has pairs of MultiNLI, which table5 and table6 have no use for: leave it out")
    protocols = (DIALOGUE, QUICK_DIALOGUE) if is_dialogue else (PAPER, QUICK)
    settings = asked(protocols[quick], seeds, limit, vectors is not None)
    settings = replace(settings, studies=tuple(study) if study else None, extra=extra is not None)
    folder = out or Path("results/paper-quick" if quick else "results/paper")
    options = {"data": data, "vectors": vectors, "w2v": w2v, "seeds": seeds, "limit": limit, "extra": extra}
    with opened(backend), GridBar(progress_console()) as bar:
        corpus = _dialogues(data, bar, made=quick) if is_dialogue else _multinli(data, extra, bar, needed=bool(tables))
        store, evaluation = Store(folder / RUNS[settings.corpus]), settings.evaluation(w2v) if is_dialogue else None
        how = (device, workers, bar, not no_runs, evaluation, backend)
        runner = Runner(corpus, store, vectors, *how) if corpus else None
        session = Session(settings, folder, runner, _words(options, quick))
        ran = session.run(names)
    if not only_runs:
        _show(session, names, ran)
        if PAGE in names:
            _write_page(page, folder)
    if as_json:
        failures = [{"method": one.run.method, "reason": one.reason} for one in ran.failures.values()]
        write_json({"folder": str(folder), "made": [] if only_runs else list(names), "failures": failures}, indent=1)
    _end(ran, no_runs)


def _show(session: "Session", names: Sequence[str], ran: "Ran") -> None:
    """Write and show each table; draw those that have a curve."""
    from memgrow.experiments.paper.session import THEOREM
    from memgrow.experiments.theorem.report import TheoremReport
    from memgrow.report.paper import LEGEND, paper_tables
    from memgrow.report.paper_dialogue import dialogue_tables
    from memgrow.report.plots import draw_scaling, draw_slots
    from memgrow.report.progress_bars import PartsBar
    from memgrow.report.theorem import theorem_tables
    from memgrow.report.theorem_plot import draw_theorem

    tables = [name for name in names if name in session.tables]
    is_dialogue = session.protocol.corpus == "dialogue"
    for name in tables:
        figures = session.table(name, ran)
        _print(dialogue_tables(figures, session.message) if is_dialogue else paper_tables(figures))
        if name == "slots":
            save_picture(session.out / "slots.png", partial(draw_slots, figures))
        if scaling := figures.made.studies.get("data"):
            save_picture(session.out / "scaling.png", partial(draw_scaling, scaling))
        say(f"The figures are in {session.out / name}.json.\n", soft_wrap=True)
    if tables and not is_dialogue:
        say(LEGEND, "dim")
    if THEOREM in names:
        with PartsBar(progress_console(), "Theorem 1", session.theorem_parts()) as bar:
            made = session.theorem(bar.tick)
        report = TheoremReport.from_json(made)
        _print([*theorem_tables(report), *(Text(f"missing: {failure}", "red") for failure in made["failures"])])
        save_picture(session.out / "theorem.png", partial(draw_theorem, report))
        say(f"The figures are in {session.out / 'theorem.json'}.\n", soft_wrap=True)


def _print(parts: Iterable[RenderableType]) -> None:
    for part in parts:
        console.print(part)


def _write_page(page: Path, folder: Path) -> None:
    from memgrow.report.paper_page import write_page

    on_page = write_page(page, folder)
    say(f"{page} shows {', '.join(on_page) or 'no tables: it has no marks for them'}.", soft_wrap=True)


def _end(ran: "Ran", no_runs: bool) -> None:
    """Tell what has yet to be made, or has failed."""
    if ran.failures and no_runs:
        missing = counted(len(ran.failures), "run")
        say(f"{missing} have yet to be made: leave --no-runs out to make them.", soft_wrap=True)
    elif ran.failures:
        first = next(iter(ran.failures.values()))
        raise SettingsError(
            f"{counted(len(ran.failures), 'run')} failed (the first by {first.run.method}: {first.reason}); "
            "the same command again tries only what failed"
        )


def _multinli(data: Path | None, extra: Path | None, watcher: "Watcher", needed: bool) -> "Corpus | None":
    """None where there is no corpus and none is needed."""
    from memgrow.experiments.paper.corpora import MultiNLI

    found = MultiNLI.found(data, extra, watcher.note)
    if found is None and needed:
        raise SettingsError(
            "there is no MultiNLI to learn from: fetch it with `memgrow data get multinli`, or name its folder "
            "with --data"
        )
    return found


def _dialogues(data: Path | None, watcher: "Watcher", made: bool) -> "Corpus":
    """The two corpora, or dialogues made by rule."""
    from memgrow.experiments.paper.corpora import Dialogues, MadeDialogues

    if made and data is None:
        watcher.note("dialogues made by rule stand in for both corpora: the figures mean nothing")
        return MadeDialogues()
    return Dialogues(data, watcher.note)


def _words(options: Mapping[str, Path | int | None], quick: bool) -> list[str]:
    """The options that decided the figures, without the folders of this machine."""
    shown = {
        name: "FOLDER" if name == "data" else value.name if isinstance(value, Path) else str(value)
        for name, value in options.items()
        if value is not None
    }
    return [*(f"--{name} {value}" for name, value in shown.items()), *(["--quick"] if quick else [])]
