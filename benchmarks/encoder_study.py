"""Does memory pay on a pretrained encoder? The study behind docs/encoders.md, from data to figures.

    python benchmarks/encoder_study.py data --stream sentiment --out data/sentiment
    python benchmarks/encoder_study.py plan --stream sentiment --data data/sentiment
    python benchmarks/encoder_study.py run --stream sentiment --data data/sentiment --seeds 5 --minutes 60
    python benchmarks/encoder_study.py figures --picture docs/encoders.png

Finished stages are kept in results/encoders/runs: a run that was stopped goes on from them, and `figures` needs nothing
else. While runs are made only validation figures are shown.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from memgrow.errors import MemgrowError, SettingsError
from memgrow.experiments.encoders.figures import write_figures
from memgrow.experiments.encoders.rows import ALONE, ROWS, Row, rows_called
from memgrow.experiments.encoders.streams import STREAMS, prepare, stream_called
from memgrow.experiments.encoders.study import Study
from memgrow.experiments.plan import Result
from memgrow.experiments.run import Record
from memgrow.experiments.store import Store
from memgrow.report.study_lines import StudyLines, say, whole_runs
from memgrow.training.defaults import FINE_TUNING

RUNS, FIGURES = Path("results/encoders/runs"), Path("results/encoders")


def described(result: Result) -> Iterator[str]:
    """A job's lines: only validation figures are in them."""
    run = result.job.run
    what = f"{run.method} {settings_of(run.model, run.options)}".strip()
    learnt = f"{len(run.learns)} {run.learns[-1]}"
    if result.reason is not None:
        yield f"{what}, seed {run.seed}, {learnt}: FAILED, {result.reason}"
    for record in result.records:
        yield f"{what}, seed {record.run['seed']}, {learnt}: {told(record)}"


def settings_of(model: Any, options: Any) -> str:
    """The settings of a row that are not the usual ones."""
    shown = {"memory": model.memory, "slots": model.slots, "keep": options.keep, "new slots": options.slots}
    usual = {"memory": "slots", "slots": 0, "keep": 0.5, "new slots": None}
    return " ".join(f"{name}={value}" for name, value in shown.items() if value != usual[name])


def told(record: Record) -> str:
    average = fmean(fmean(right) for right in record.validation.values())
    stage = record.stage
    return (
        f"validation {100 * stage.validation:.1f}, all learnt {100 * average:.1f}; "
        f"{stage.epochs} epochs, {stage.seconds:.1f} s {json.dumps(dict(stage.note)) if stage.note else ''}"
    )


def known_rows(names: str) -> list[Row]:
    rows = rows_called(names.split(","))
    for row in rows:
        if not row.is_known():
            say(f"note: {row.name} is left out, as this memgrow has no method {row.method} with such settings")
    return [row for row in rows if row.is_known()]


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
        given.runs,
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
    study, rows, orders, seeds = study_of(given), known_rows(given.rows), given.orders.split(","), seeds_of(given)
    say(f"{'row':<12}{'stages':>8}{'steps':>10}   by itself; runs of a row share their first domain with others")
    for row in rows:
        jobs = study.jobs(study.runs([row], orders, seeds), anew=True)
        say(f"{row.name:<12}{len(jobs):>8}{sum(map(study.steps, jobs)):>10,}")
    runs = study.runs(rows, orders, seeds)
    for name, jobs in {"all": study.jobs(runs, anew=True), "yet to do": study.jobs(runs)}.items():
        say(f"{name:<12}{len(jobs):>8}{sum(map(study.steps, jobs)):>10,}")
    first = [job for job in study.jobs(runs) if len(job.run.learns) == 1 and not job.run.takes_notes()]
    say(f"of these, first domains: {len(first)} stages, {sum(map(study.steps, first)):,} steps")
    for domain, sizes in study.material.sizes.items():
        say(f"{domain}: {', '.join(f'{size:,} {part}' for part, size in sizes.items())}")


def run(given: argparse.Namespace) -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the workers have the cores already
    until = time.monotonic() + 60 * given.minutes if given.minutes is not None else None
    study, rows, orders = study_of(given), known_rows(given.rows), given.orders.split(",")
    runs = study.runs(rows, orders, seeds_of(given))
    grid = study.grid(given.device, 1 if given.alone else given.workers, until, StudyLines(described))
    say(whole_runs(study.run(runs, grid), len(runs)))
    if given.bundle:
        say(f"records are in {Store(given.runs).bundle()}")


def figures(given: argparse.Namespace) -> None:
    for path in write_figures(given.runs, given.out):
        say(f"the figures are in {path}")
    if given.picture is not None:
        from memgrow.report.encoder_picture import draw_study  # a machine that makes runs needs no matplotlib

        draw_study(given.out, given.picture)
        say(f"the picture is {given.picture}")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("data", help="write a stream's files: limits and parts are settled here")
    one.add_argument("--stream", required=True, choices=STREAMS)
    one.add_argument("--source", type=Path, help="folder of the corpus; else what `memgrow data get` fetched")
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
        one.add_argument("--workers", type=int)
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
