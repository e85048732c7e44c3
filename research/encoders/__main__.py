"""Does memory pay on a pretrained encoder? The study behind docs/encoders.md, from data to figures.

    python -m research.encoders data --stream sentiment --out data/sentiment
    python -m research.encoders plan --stream sentiment --data data/sentiment
    python -m research.encoders run --stream sentiment --data data/sentiment --seeds 5 --minutes 60
    python -m research.encoders figures --picture docs/encoders.png

Finished stages are kept in results/encoders/runs: a run that was stopped goes on from them, and `figures` needs nothing
else. While runs are made only validation figures are shown.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from memgrow.errors import MemgrowError, SettingsError
from research.common.files import say
from research.common.grid import whole_runs
from research.common.runs import Record
from research.common.settings import FINE_TUNING
from research.common.store import Store
from research.common.study import run_study, steps_of
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


def study_of(given: argparse.Namespace) -> Study:
    training, model = FINE_TUNING, {}
    for setting in given.set or ():
        name, equals, value = setting.partition("=")
        section, _, field = name.partition(".")
        if not equals or section not in ("training", "model"):
            raise SettingsError(f"{setting!r} is no setting: write training.NAME=VALUE or model.NAME=VALUE")
        parsed = _value(value)
        if section == "training":
            training = replace(training, **{field: parsed})
        else:
            model[field] = parsed
    return Study.open(
        given.stream,
        given.data,
        given.encoder,
        called=given.called,
        rounded_from=given.rounded_from,
        training=training,
        model=model,
    )


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def seeds_of(given: argparse.Namespace) -> Sequence[int]:
    return [ALONE] if given.alone else range(given.first_seed, given.first_seed + given.seeds)


def data(given: argparse.Namespace) -> None:
    for notice in prepare(stream_called(given.stream), given.source, given.out):
        say(notice)
    say(f"{given.stream} is in {given.out}")


def plan(given: argparse.Namespace) -> None:
    study, rows, orders, seeds = (
        study_of(given),
        rows_called(given.rows.split(",")),
        given.orders.split(","),
        seeds_of(given),
    )
    say(f"{'row':<12}{'stages':>8}{'steps':>10}   rows share their first domain with others")
    runs = study.runs(rows, orders, seeds)
    lines = {row.name: steps_of(study.runs([row], orders, seeds), study.stream) for row in rows}
    ledger = study.material.ledger(Store(given.runs))
    lines |= {"all": steps_of(runs, study.stream), "yet to do": steps_of(runs, study.stream, ledger)}
    for name, (stages, steps) in lines.items():
        say(f"{name:<12}{stages:>8}{steps:>10,}")


def run(given: argparse.Namespace) -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the workers have the cores already
    until = time.monotonic() + 60 * given.minutes if given.minutes is not None else None
    study = study_of(given)
    runs = study.runs(rows_called(given.rows.split(",")), given.orders.split(","), seeds_of(given))
    how = {"device": given.device, "workers": given.workers, "until": until, "describe": described}
    say(whole_runs(run_study(study.material, study.stream, given.runs, runs, **how), len(runs)))
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
    one.add_argument("--source", type=Path, help="folder of the corpus; else what research.data fetched")
    one.add_argument("--out", type=Path, required=True)
    one.set_defaults(do=data)
    for name, do, about in (
        ("plan", plan, "stages and steps of training that would be made"),
        ("run", run, "make what is missing"),
    ):
        one = commands.add_parser(name, help=about)
        one.add_argument("--stream", required=True, choices=STREAMS)
        one.add_argument("--data", type=Path, required=True, help="folder that `data` wrote")
        one.add_argument("--encoder", default="minilm", help="name or folder")
        one.add_argument("--called", help="the encoder's name in the figures; else that of its folder")
        one.add_argument("--rounded-from", help="SHA-256 of the weights of which these are the float16 values")
        one.add_argument("--orders", default="1,2,3")
        one.add_argument("--rows", default="all", help=f"of {', '.join(ROWS)}")
        one.add_argument("--seeds", type=int, default=5)
        one.add_argument("--first-seed", type=int, default=0)
        one.add_argument("--alone", action="store_true", help="one run of each by one worker: for the seconds")
        one.add_argument("--set", action="append", metavar="NAME=VALUE", help="training.NAME or model.NAME")
        one.add_argument("--runs", type=Path, default=RUNS, help="folder of finished stages")
        one.add_argument("--device", default="auto")
        one.add_argument("--workers", type=int, default=1, help="processes, one a seed at a time")
        one.add_argument("--minutes", type=float, help="no stage is begun after so many; what is finished is kept")
        one.add_argument("--bundle", action="store_true", help="put all records into one file in the end")
        one.set_defaults(do=do)
    one = commands.add_parser("figures", help="write the JSON of each stream from records alone")
    one.add_argument("--runs", type=Path, default=RUNS)
    one.add_argument("--out", type=Path, default=FIGURES)
    one.add_argument("--picture", type=Path, help="and draw docs/encoders.png there")
    one.set_defaults(do=figures)
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    given = parser().parse_args(arguments)
    try:
        given.do(given)
    except MemgrowError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
