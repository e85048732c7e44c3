"""Does memory pay on a pretrained encoder? The study behind research/encoders/README.md, from data to figures.

    python -m research.encoders data --stream sentiment --out data/sentiment
    python -m research.encoders run --stream sentiment --data data/sentiment --seeds 5 --minutes 60
    python -m research.encoders figures --picture research/encoders/encoders.png

Finished stages are kept in results/encoders/runs: a run that was stopped goes on from them, and `figures` needs nothing
else. While runs are made only validation figures are shown.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from research.common.files import say
from research.common.grid import whole_runs
from research.common.runs import Record
from research.common.store import Store
from research.common.study import add_figures_options, add_run_options, call, run_options, run_study
from research.encoders.figures import write_figures
from research.encoders.rows import ALONE, ROWS, rows_called
from research.encoders.streams import STREAMS, prepare, stream_called
from research.encoders.study import Study

RUNS, FIGURES = Path("results/encoders/runs"), Path("results/encoders")


def described(record: Record) -> str:
    """A line on a new record: only validation figures are in it."""
    run, stage = record.run, record.stage
    average = fmean(fmean(right) for right in record.validation.values())
    learned = f"{len(run['learns'])} {run['learns'][-1]}"
    return (
        f"{run['method']}, seed {run['seed']}, {learned}: validation {100 * stage['validation']:.1f}, all "
        f"{100 * average:.1f}; {stage['epochs']} epochs, {stage['seconds']:.1f} s"
    )


def data(given: argparse.Namespace) -> None:
    for notice in prepare(stream_called(given.stream), given.source, given.out):
        say(notice)
    say(f"{given.stream} is in {given.out}")


def run(given: argparse.Namespace) -> None:
    study = Study.open(given.stream, given.data, given.encoder, called=given.called, rounded_from=given.rounded_from)
    seeds = [ALONE] if given.alone else range(given.first_seed, given.first_seed + given.seeds)
    runs = study.runs(rows_called(given.rows.split(",")), given.orders.split(","), seeds)
    outcome = run_study(study.material, study.stream, given.runs, runs, **run_options(given, described))
    say(whole_runs(outcome, len(runs)))
    if given.bundle:
        say(f"records are in {Store(given.runs).bundle()}")


def figures(given: argparse.Namespace) -> None:
    for path in write_figures(given.runs, given.out):
        say(f"the figures are in {path}")
    if given.picture is not None:
        from research.encoders.picture import draw_study  # a machine that makes runs needs no matplotlib

        draw_study(given.out, given.picture)
        say(f"the picture is {given.picture}")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "python -m research.encoders", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("data", help="write a stream's files: limits and parts are settled here")
    one.add_argument("--stream", required=True, choices=STREAMS)
    one.add_argument("--source", type=Path, help="folder of the corpus; else what was fetched")
    one.add_argument("--out", type=Path, required=True)
    one.set_defaults(do=data)
    one = commands.add_parser("run", help="make what is missing")
    one.add_argument("--stream", required=True, choices=STREAMS)
    one.add_argument("--encoder", default="minilm", help="name or folder")
    one.add_argument("--called", help="the encoder's name in the figures; else that of its folder")
    one.add_argument("--orders", default="1,2,3")
    one.add_argument("--rows", default="all", help=f"of {', '.join(ROWS)}")
    one.add_argument("--seeds", type=int, default=5)
    one.add_argument("--first-seed", type=int, default=0)
    one.add_argument("--alone", action="store_true", help="one run of each, for the seconds")
    add_run_options(one, RUNS)
    one.set_defaults(do=run)
    one = commands.add_parser("figures", help="write the JSON of each stream from records alone")
    add_figures_options(one, RUNS, FIGURES)
    one.set_defaults(do=figures)
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    call(parser(), arguments)


if __name__ == "__main__":
    main()
