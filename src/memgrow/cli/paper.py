"""`memgrow paper`."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import console, say
from memgrow.errors import SettingsError, counted

if TYPE_CHECKING:
    from memgrow.experiments.grid import Watcher
    from memgrow.experiments.paper.making import Ran
    from memgrow.experiments.paper.workshop import Workshop

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
) -> None:
    """The paper's tables, on MultiNLI and on dialogue: our figures beside the paper's.

    Finished runs are kept: the same command again makes the tables from them.

    Example: memgrow paper table2 --data multinli/ --vectors glove.300d.txt
    """
    from memgrow.experiments.paper.protocol import protocol
    from memgrow.experiments.paper.session import Session
    from memgrow.experiments.paper.tables import DIALOGUE, PAGE, TABLES, THEOREM, named
    from memgrow.report.grid_bar import GridBar
    from memgrow.report.paper_show import show_legend, show_table, show_theorem
    from memgrow.report.ticks import Ticks

    names = named(what)
    tables = [name for name in names if name in TABLES]
    if study and "conditions" not in tables:
        raise SettingsError("--study chooses among the studies of conditions: ask for conditions as well")
    spoken = [name for name in names if name in DIALOGUE]
    if w2v is not None and not spoken:
        raise SettingsError("--w2v has the word vectors of W2V-Sim, which table5 alone shows: ask for table5")
    if extra is not None and spoken:
        raise SettingsError("--extra has pairs of MultiNLI, which table5 and table6 have no use for: leave it out")
    settings = protocol(quick, seeds, limit, vectors is not None)
    settings = replace(settings, studies=tuple(study) if study else None, extra=extra is not None)
    folder = out or Path("results/paper-quick" if quick else "results/paper")
    options = {"data": data, "vectors": vectors, "w2v": w2v, "seeds": seeds, "limit": limit, "extra": extra}
    if spoken:
        from memgrow.cli.paper_dialogue import Asked, make_dialogue

        asked = Asked(data, vectors, w2v, seeds, limit, quick, folder, device, workers, makes=not no_runs)
        spoke = make_dialogue(console, asked, spoken, _words(options, quick), shows=not only_runs)
        _make_page(page, folder, PAGE in names and not only_runs)
        _end(spoke, no_runs)
        return
    with GridBar(console) as bar:
        workshop = _workshop(folder, data, extra, vectors, device, workers, bar, needed=bool(tables), makes=not no_runs)
        session = Session(settings, folder, workshop, _words(options, quick))
        ran = session.run(names)
    shown = [] if only_runs else names
    for name in (name for name in shown if name in TABLES):
        show_table(console, session.table(name, ran), folder)
    if tables and shown:
        show_legend(console)
    if THEOREM in shown:
        with Ticks(console, "Theorem 1", session.theorem_parts()) as ticks:
            made = session.theorem(ticks.tick)
        show_theorem(console, made, folder)
    _make_page(page, folder, PAGE in shown)
    _end(ran, no_runs)


def _make_page(page: Path, folder: Path, asked: bool) -> None:
    from memgrow.report.paper_page import write_page

    if asked:
        on_page = write_page(page, folder)
        say(f"{page} shows {', '.join(on_page) or 'no tables: it has no marks for them'}.", soft_wrap=True)


def _end(ran: "Ran", no_runs: bool) -> None:
    """What has yet to be made, or has failed."""
    if ran.failures and no_runs:
        say(
            f"{counted(len(ran.failures), 'run')} have yet to be made: leave --no-runs out to make them.",
            soft_wrap=True,
        )
    elif ran.failures:
        first = next(iter(ran.failures.values()))
        raise SettingsError(
            f"{counted(len(ran.failures), 'run')} failed (the first by {first.run.method}: {first.reason}); "
            "the same command again tries only what failed"
        )


def _workshop(
    out: Path,
    data: Path | None,
    extra: Path | None,
    vectors: Path | None,
    device: str,
    workers: int | None,
    watcher: "Watcher",
    needed: bool,
    makes: bool,
) -> "Workshop | None":
    """Where runs are made; None where there is no corpus and none is needed."""
    from memgrow.data.corpora import corpus_called
    from memgrow.experiments.paper.corpus import Corpus
    from memgrow.experiments.paper.workshop import Workshop
    from memgrow.experiments.store import Store

    fetched = corpus_called("multinli")
    if data is None and not fetched.is_in(fetched.folder):
        if needed:
            raise SettingsError(
                "there is no MultiNLI to learn from: fetch it with `memgrow data get multinli`, or name its folder "
                "with --data"
            )
        return None
    corpus = Corpus(data or fetched.folder, extra, watcher.note)
    return Workshop(corpus, Store(out / "runs"), vectors, device, workers, watcher, makes)


def _words(options: Mapping[str, Path | int | None], quick: bool) -> list[str]:
    """What decided the figures, without the folders of this machine."""
    shown = {
        name: "FOLDER" if name == "data" else value.name if isinstance(value, Path) else str(value)
        for name, value in options.items()
        if value is not None
    }
    return [*(f"--{name} {value}" for name, value in shown.items()), *(["--quick"] if quick else [])]
