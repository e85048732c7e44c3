"""Which method is the default? The runs behind research/which_method/README.md, from data to figures.

    python -m research.which_method data --out data/choosing --multinli FOLDER --reviews FOLDER --dialogue FOLDER
    python -m research.which_method run --family bilstm --part choosing --data data/choosing --minutes 60
    python -m research.which_method run --family bilstm --part checking --data data/choosing --minutes 60
    python -m research.which_method figures --picture research/which_method/which-method.png

Finished stages are kept in results/which-method/runs: runs that were stopped go on from them, and `figures` needs
nothing else. While runs for checking are made no test figure is shown.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from memgrow.errors import SettingsError
from research.common.files import say
from research.common.grid import whole_runs
from research.common.runs import Record
from research.common.store import Store
from research.common.study import add_figures_options, add_run_options, call, run_options, run_study
from research.encoders.streams import prepare
from research.which_method.candidates import FAMILIES, Candidate, Family, family_called
from research.which_method.decision import Choice
from research.which_method.figures import by_family, choice_of, found_in, write_figures
from research.which_method.streams import PARTS, SOURCES, TRIALS, TrialStream, trial_called, trials
from research.which_method.trial import REPLIES, Trial

RUNS, FIGURES, STUDY = Path("results/which-method/runs"), Path("results/which-method"), Path("results/encoders/runs")


def described(record: Record) -> str:
    """A line on a new record: no test figure is in it."""
    run = record.run
    learned = f"{len(run['learns'])} {run['learns'][-1]}"
    return f"{run['method']}, {learned}, seed {run['seed']}: {record.stage['seconds']:.1f} s"


def data(given: argparse.Namespace) -> None:
    places = {"multinli": given.multinli, "reviews": given.reviews, "dialogue": given.dialogue}
    places["few-reviews"] = given.reviews
    for name in given.sources.split(",") if given.sources else SOURCES:
        for notice in prepare(SOURCES[name], places.get(name), given.out / name):
            say(notice)
        say(f"{name} is in {given.out / name}")


def opened(given: argparse.Namespace, family: Family, stream: TrialStream) -> Trial:
    encoders = dict(one.partition("=")[::2] for one in given.encoder or ())
    more = {"encoders": encoders, "vectors": given.vectors, "rounded_from": given.rounded_from}
    return Trial.open(family, stream, given.data, **more)


def streams_of(given: argparse.Namespace, family: Family) -> list[TrialStream]:
    if not given.streams:
        return trials(given.part, family.name)
    named = [trial_called(name) for name in given.streams.split(",")]
    return [one for one in named if one.part == given.part and family.name in one.settings]


def choice(given: argparse.Namespace, family: Family) -> Choice:
    """What is known of the choice by now."""
    some = by_family(given.runs, list(TRIALS)).get(family.name, {})
    store = Store(given.runs)
    return choice_of(family, {name: found_in(one, store, family.candidates) for name, one in some.items()}, some)


def candidates_of(given: argparse.Namespace, family: Family, stream: TrialStream) -> list[Candidate]:
    """Who is run on a stream: as the protocol has it, unless somebody names candidates."""
    if given.candidates:
        return family.called(given.candidates.split(","))
    if stream.only:
        return family.called(stream.only)
    if stream.part == "third":
        return family.called({family.baseline, family.default, *(one.name for one in family.late[:1])})
    made = choice(given, family)
    if stream.part == "choosing":
        return [one for one in family.candidates if one.name not in made.out]
    expected = {one.name for one in trials("choosing", family.name)}
    if missing := sorted(expected - set(made.streams)):
        raise SettingsError(
            f"{family.name} has no winner yet: {', '.join(missing)} must be whole first; or name those that "
            "are to be checked with --candidates"
        )
    return family.called({family.baseline, family.default, made.winner or family.baseline})


def each(given: argparse.Namespace) -> Iterator[tuple[Family, TrialStream, Trial, list[Candidate]]]:
    for name in given.family.split(","):
        family = family_called(name)
        for stream in streams_of(given, family):
            yield family, stream, opened(given, family, stream), candidates_of(given, family, stream)


def run(given: argparse.Namespace) -> None:
    for family, stream, trial, some in each(given):
        runs = trial.runs(some, list(stream.seeds)[: given.seeds])
        if trial.material.encoder and stream.part == "choosing" and STUDY.is_dir():
            taken = trial.take(runs, given.runs, Store(STUDY))
            say(f"{stream.name}: {taken} stages are taken from the study of encoders")
        how = run_options(given, described) | {"replies": REPLIES if trial.material.replies else None}
        outcome = run_study(trial.material, trial.stream, given.runs, runs, vectors=trial.vectors, **how)
        say(f"{family.name}, {stream.name}: {whole_runs(outcome, len(runs))}")
        if stream.part == "choosing" and not outcome.failures:
            say(f"out by now: {', '.join(choice(given, family).out) or 'none'}")
    if given.bundle:
        say(f"records are in {Store(given.runs).bundle()}")


def figures(given: argparse.Namespace) -> None:
    for path in write_figures(given.runs, given.out, list(TRIALS), FAMILIES):
        say(f"the figures are in {path}")
    if given.picture is not None:
        from research.which_method.picture import draw_choice  # a machine that makes runs needs no matplotlib

        draw_choice(given.out, given.picture)
        say(f"the picture is {given.picture}")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "python -m research.which_method", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("data", help="write the files of all streams: limits and parts are settled here")
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("--sources", help=f"of {', '.join(SOURCES)}; else all of them")
    for name in ("multinli", "reviews", "dialogue"):
        one.add_argument(f"--{name}", type=Path, help="folder of the corpus; else what was fetched")
    one.set_defaults(do=data)
    one = commands.add_parser("run", help="make what is missing")
    one.add_argument("--family", default="bilstm", help=f"one or more of {','.join(FAMILIES)}")
    one.add_argument("--part", choices=PARTS, default="choosing")
    one.add_argument("--streams", help="some of the part's streams; else all, in the order of the protocol")
    one.add_argument("--candidates", help="some candidates; else those that the protocol says")
    one.add_argument("--seeds", type=int, help="the first so many of the seeds")
    one.add_argument("--encoder", action="append", metavar="NAME=FOLDER", help="where an encoder lies")
    one.add_argument("--vectors", type=Path, help="word vectors for streams that start with them")
    add_run_options(one, RUNS)
    one.set_defaults(do=run)
    one = commands.add_parser("figures", help="write the JSON of each family from records alone")
    add_figures_options(one, RUNS, FIGURES)
    one.set_defaults(do=figures)
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    call(parser(), arguments)


if __name__ == "__main__":
    main()
