"""The paper's tables, on MultiNLI and on dialogue: our figures beside the paper's.

    python -m research.paper table2 --data multinli/ --vectors glove.300d.txt
    python -m research.paper all --no-runs        (from the records in results/paper)
    python -m research.paper page                 (research/paper/README.md and tables.md)

Finished runs are kept: the same command again makes the tables from them.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from memgrow.errors import MemgrowError, SettingsError
from research.common.corpora import holds
from research.common.files import counted, say
from research.common.methods import GONE
from research.common.store import Store
from research.data import folder_of
from research.paper.corpora import Corpus, Dialogues, MadeDialogues, Memory, MultiNLI
from research.paper.page import write_page
from research.paper.plots import draw_scaling, draw_slots
from research.paper.protocol import DIALOGUE, PAPER, QUICK, QUICK_DIALOGUE, Protocol, asked
from research.paper.report import LEGEND, dialogue_markdown, paper_markdown
from research.paper.session import DIALOGUE as DIALOGUE_TABLES
from research.paper.session import PAGE, RUNS, THEOREM, Ran, Runner, Session, named
from research.theorem.plot import draw_theorem
from research.theorem.report import TheoremReport
from research.theorem.tables import theorem_markdown


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "python -m research.paper", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "what",
        nargs="+",
        help="table1 to table4, slots, rates, tuning, conditions, recommended, theorem; all; table5, table6; page",
    )
    made.add_argument("--data", type=Path, metavar="FOLDER", help="the corpus; else what research.data fetched")
    made.add_argument("--vectors", type=Path, metavar="FILE", help="word vectors of 300 numbers")
    made.add_argument("--w2v", type=Path, metavar="FILE", help="of table5: vectors for W2V-Sim")
    made.add_argument("--extra", type=Path, metavar="FILE", help="of conditions: more pairs, with guessed genres")
    made.add_argument("--limit", type=int, metavar="N", help="at most so many training pairs a domain")
    made.add_argument("--seeds", type=int, metavar="N", help="seeds; else each table's own number")
    made.add_argument("--study", action="append", metavar="NAME", help="of conditions: this study")
    made.add_argument("--out", type=Path, metavar="FOLDER", help="for tables and runs; else results/paper")
    made.add_argument(
        "--page", type=Path, metavar="FILE", default=Path("research/paper/README.md"), help="what `page` writes"
    )
    made.add_argument("--quick", action="store_true", help="tiny sizes: minutes on two cores")
    made.add_argument("--no-runs", action="store_true", help="make the tables from finished runs alone")
    made.add_argument("--device", default="auto")
    made.add_argument("--workers", type=int, default=1, metavar="N", help="processes, one a seed at a time")
    return made


def session_of(given: argparse.Namespace, names: Sequence[str]) -> Session:
    """Everything that is asked for, but not run yet."""
    is_dialogue = any(name in DIALOGUE_TABLES for name in names)
    folder = given.out or Path("results/paper-quick" if given.quick else "results/paper")
    protocol = ((DIALOGUE, QUICK_DIALOGUE) if is_dialogue else (PAPER, QUICK))[given.quick]
    store = Store(folder / RUNS[protocol.corpus])
    memory, corpus = Memory.read(store.folder), _corpus(given, names, is_dialogue)
    has_extra = "conditions" in names and (given.extra is not None or (corpus is None and "extra" in memory.files))
    if corpus is not None:
        options = {name: getattr(given, name) for name in ("vectors", "w2v", "extra")}
        before = {name: file for name, file in memory.files.items() if name == "extra"}
        memory.files = before | {name: path.name for name, path in options.items() if path is not None}
    protocol = asked(protocol, given.seeds, given.limit, "vectors" in memory.files)
    protocol = replace(protocol, studies=tuple(given.study) if given.study else None, extra=has_extra)
    evaluation = protocol.evaluation(given.w2v) if is_dialogue else None
    runner = Runner(
        corpus,
        store,
        memory,
        given.vectors,
        evaluation,
        makes=corpus is not None and not given.no_runs,
        device=given.device,
        workers=given.workers,
    )
    return Session(protocol, folder, runner, _words(given, memory, protocol))


def _corpus(given: argparse.Namespace, names: Sequence[str], is_dialogue: bool) -> Corpus | None:
    """The corpus; None where tables are made of records without it."""
    if given.data is None and (given.no_runs or set(names) <= {PAGE}):
        return None
    if is_dialogue:
        if given.quick and given.data is None:
            say("dialogues made by rule take the place of both corpora: the figures mean nothing")
            return MadeDialogues()
        return Dialogues(given.data)
    folder = given.data or folder_of("multinli")
    if not holds(folder, "multinli"):
        if set(names) <= {PAGE, THEOREM}:
            return None
        raise SettingsError(
            f"{folder} holds no MultiNLI: run `python -m research.data get multinli`, name its folder with --data, or "
            "make the tables of recorded runs with --no-runs"
        )
    return MultiNLI(folder, given.extra)


def _words(given: argparse.Namespace, memory: Memory, protocol: Protocol) -> list[str]:
    """The options that decided the figures, without the folders of this machine."""
    made_by_rule = protocol.corpus == "dialogue" and given.quick and given.data is None
    words = [] if made_by_rule else ["--data FOLDER"]
    shown = {"vectors": None, "w2v": None, "seeds": given.seeds, "limit": given.limit, "extra": None}
    for name, value in {**shown, **memory.files}.items():
        if value is not None:
            words.append(f"--{name} {value}")
    return [*words, *(["--quick"] if given.quick else [])]


def show(session: Session, names: Sequence[str], ran: Ran) -> None:
    """Write and print each table; draw those that have a curve."""
    is_dialogue = session.protocol.corpus == "dialogue"
    tables = [name for name in names if name in session.tables]
    for name in tables:
        figures = session.table(name, ran)
        page = dialogue_markdown(figures, session.message) if is_dialogue else paper_markdown(figures)
        say(f"# {figures['title']}\n\n{page}\n")
        if name == "slots":
            _draw(session.out / "slots.png", partial(draw_slots, figures))
        if scaling := figures.get("studies", {}).get("data"):
            _draw(session.out / "scaling.png", partial(draw_scaling, scaling))
        say(f"The figures are in {session.out / name}.json.\n")
    if tables and not is_dialogue:
        say(LEGEND)
    if THEOREM in names:
        made = session.theorem()
        report = TheoremReport.from_json(made)
        say("\n\n".join([theorem_markdown(made), *(f"Missing: {failure}" for failure in made["failures"])]) + "\n")
        _draw(session.out / "theorem.png", partial(draw_theorem, report))
        say(f"The figures are in {session.out / 'theorem.json'}.\n")


def _draw(path: Path, draw: Callable[[Path], None]) -> None:
    try:
        draw(path)
    except SettingsError as error:
        say(f"{path} is not drawn: {error}")


def main(arguments: Sequence[str] | None = None) -> None:
    given = parser().parse_args(arguments)
    try:
        names = named(given.what)
        if given.study and "conditions" not in names:
            raise SettingsError("--study chooses among the studies of conditions: ask for conditions as well")
        session = session_of(given, names)
        ran = session.run(names)
        show(session, names, ran)
        if PAGE in names:
            shown = write_page(given.page, session.out)
            say(f"{given.page} shows {', '.join(shown) or 'no tables: it has no marks for them'}.")
        if ran.failures and not session.runner.makes:
            say(f"{counted(len(ran.failures), 'run')} not made: give --data and leave out --no-runs to make them.")
        elif failed := [failure for failure in ran.failures.values() if GONE not in failure.reason]:
            raise SettingsError(
                f"{counted(len(failed), 'run')} failed (the first by {failed[0].run.method}: {failed[0].reason}); "
                "the same command again tries only what failed"
            )
    except MemgrowError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
