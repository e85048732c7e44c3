"""What lets a pretrained encoder learn from few rows: a shorter warm-up, a longer training, or both?

    python benchmarks/few_rows.py --encoder minilm --sentiment FOLDER --reviews FOLDER --workers 14 --minutes 2.3

FOLDER is what `benchmarks/encoder_study.py data` writes for that stream: a file for each domain.

The default training of an encoder warms up for 50 steps and has five epochs: with 300 rows all of it is warm-up. Each
candidate leaves a training of 150 steps or more as it is: at 1,000 rows (160 steps) all train alike, and a single seed
is run, for the figure.

    today         50 steps of warm-up, five epochs
    third         the warm-up is at most a third of all steps
    tenth         the warm-up is at most a tenth of all steps
    longer        so many epochs that there are 150 steps; patience minds how few validation rows there are
    longer-tenth  the same, with a warm-up of at most a tenth of all steps

choose: all candidates, method F, on the four domains of sentiment, each learnt by itself. Rows to train on, to validate
on (an eighth as many, ten at least) and to score on (500 at most) are drawn from a domain's training part by the seed;
its test part is not touched. The rule, settled before anything was run:

    A figure is a seed's mean over the domains. A candidate wins if the 95% interval of its differences to today's rule,
    paired by seed, is above zero at 100 and at 300 rows, and is not below zero at 1,000. Of several winners with as
    many steps as today the one with the largest mean gain over 100 and 300 rows is best; so with those that take
    longer. The best of those that take longer is chosen only if the interval of its differences to the best of the
    others, over 100 and 300 rows, is above zero, or if no other wins. If none wins, nothing is chosen and nothing is
    checked.

then: does the chosen one forget more? A domain of few rows is learnt after one of many (1,500, by today's rule), the
four domains in a ring; both are scored on rows of their training parts that were not drawn.

check: the chosen candidate against today's rule, once, on domains that had no part in the choice: the fourteen reviews,
trained on rows of their training parts, scored on their test parts.

Runs are written to the results as they come; the same command goes on from there. Of `--minutes` the choice has half;
what was not run in time is left out, and with it its seed.
"""

import argparse
import gc
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from memgrow.methods.plugin import AUTO

from memgrow.data import Domain
from memgrow.data.splits import rank
from memgrow.errors import MemgrowError
from memgrow.experiments.encoders.streams import STREAMS, read
from memgrow.learner import Learner
from memgrow.metrics.significance import Paired, paired_over_seeds
from memgrow.storage import atomic_write
from memgrow.training.defaults import FINE_TUNING
from memgrow.training.settings import TrainingSettings
from recorded_command import recorded_command

PARTS = ("choose", "then", "check")
CHOOSING = 0.5  # of the minutes
TODAY = "today"
LEAST = 150  # steps: a training with as many stays as it is
DECIDE, KEEP = (100, 300), 1000  # sizes at which a candidate must gain, and one at which it must not lose
SCORED = 500  # rows, at most
FIRST = 1500  # rows of the domain that is learnt first, at most
WRITE_EVERY_S = 5.0


@dataclass(frozen=True)
class Candidate:
    """A rule for trainings of fewer steps than LEAST."""

    share: int | None = None  # the warm-up is at most all steps divided by this
    longer: bool = False  # there are as many epochs as LEAST steps need

    def training(self, rows: int) -> TrainingSettings:
        """The settings for a domain of so many rows."""
        batches = -(-rows // FINE_TUNING.batch)
        if FINE_TUNING.most_epochs * batches >= LEAST:
            return as_written(FINE_TUNING)
        epochs = -(-LEAST // batches) if self.longer else FINE_TUNING.most_epochs
        warm_up = min(FINE_TUNING.warm_up, epochs * batches // self.share) if self.share else FINE_TUNING.warm_up
        patience = AUTO if self.longer else FINE_TUNING.patience
        return as_written(replace(FINE_TUNING, epochs=epochs, warm_up=warm_up, patience=patience))


CANDIDATES = {
    TODAY: Candidate(),
    "third": Candidate(share=3),
    "tenth": Candidate(share=10),
    "longer": Candidate(longer=True),
    "longer-tenth": Candidate(share=10, longer=True),
}


class AsWritten(TrainingSettings):
    """Settings whose warm-up takes as many steps as it says, however few there are."""

    def warm_up_steps(self, batches: int) -> int:
        return self.warm_up


def as_written(settings: TrainingSettings) -> TrainingSettings:
    return AsWritten(**asdict(settings))


@cache
def training_by(candidate: str, rows: int) -> TrainingSettings:
    return CANDIDATES[candidate].training(rows)


@dataclass(frozen=True)
class Run:
    """One training that is scored."""

    part: str
    domain: str
    rows: int
    seed: int
    candidate: str
    first: str | None = None  # the domain that was learnt before

    def steps(self) -> int:
        training = training_by(self.candidate, self.rows)
        return training.most_epochs * -(-self.rows // training.batch)


Found = dict[Run, dict[str, Any]]


# What a worker does


@dataclass(frozen=True)
class Material:
    """What all runs need, as a worker is told it."""

    encoder: str
    folders: Mapping[str, Path]  # of the streams
    device: str

    def domain(self, stream: str, name: str) -> Domain:
        return domain_in(self.folders[stream], name)


@cache
def domain_in(folder: Path, name: str) -> Domain:
    return read((name,), folder)[name]


def drawn(domain: Domain, rows: int, seed: int, test: bool = False) -> Domain:
    """So many rows of the training part, others of it to validate on, and others to score on or the test part."""
    order = sorted(range(len(domain.train)), key=lambda number: rank(seed, f"{domain.name} {number}"))
    validation = max(10, rows // 8)
    ends = (0, rows, rows + validation, rows + validation + SCORED)
    train, validated, left = (tuple(domain.train[k] for k in order[a:b]) for a, b in pairwise(ends))
    return Domain(domain.name, train, validated, tuple(domain.test) if test else left)


def learnt(learner: Learner, domain: Domain, watch: Sequence[Domain] = ()) -> dict[str, Any]:
    stage = learner.adapt(domain, watch=watch)
    scores = dict(learner.history.matrix.rows[-1].scores)
    told = {"epochs": stage.epochs, "best_epoch": stage.best_epoch, "seconds": round(stage.seconds, 2)}
    return {"score": scores[domain.name], "validation": stage.validation, **told, "scores": scores}


def alone(material: Material, run: Run) -> dict[str, Any]:
    """The domain learnt by a new model."""
    domain = material.domain("reviews" if run.part == "check" else "sentiment", run.domain)
    training = training_by(run.candidate, run.rows)
    learner = Learner.create("F", encoder=material.encoder, training=training, seed=run.seed, device=material.device)
    result = learnt(learner, drawn(domain, run.rows, run.seed, test=run.part == "check"))
    return {name: value for name, value in result.items() if name != "scores"}


def after_another(material: Material, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Domains learnt by a model that has learnt another: the same one for all of these runs."""
    one, results = runs[0], []
    first = material.domain("sentiment", str(one.first))
    before = drawn(first, min(FIRST, len(first.train) * 2 // 3), one.seed)
    learner = Learner.create(
        "F", encoder=material.encoder, training=as_written(FINE_TUNING), seed=one.seed, device=material.device
    )
    was = learnt(learner, before)["score"]
    with tempfile.TemporaryDirectory() as folder:
        learner.save(Path(folder) / "first")
        for run in runs:
            again = Learner.load(Path(folder) / "first", device=material.device)
            again.training = training_by(run.candidate, run.rows)
            domain = drawn(material.domain("sentiment", run.domain), run.rows, run.seed)
            result = learnt(again, domain, [before])
            results.append({**result, "first_before": was, "first_after": result.pop("scores")[before.name]})
    return [{name: value for name, value in result.items() if name != "scores"} for result in results]


def work(material: Material, runs: Sequence[Run]) -> list[dict[str, Any]] | str:
    """The results of these runs, or why there are none."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    try:
        return after_another(material, runs) if runs[0].first else [alone(material, run) for run in runs]
    except (MemgrowError, RuntimeError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


# What there is to do


def differing(candidates: Iterable[str], rows: int) -> list[str]:
    """Those candidates alone that train otherwise than one before them; the others have its figures."""
    kept: dict[TrainingSettings, str] = {}
    for name in candidates:
        kept.setdefault(training_by(name, rows), name)
    return list(kept.values())


def domains_of(part: str) -> list[tuple[str, str | None]]:
    """The domains that a part learns, each with the one that is learnt before it."""
    names = STREAMS["reviews" if part == "check" else "sentiment"].domains
    return [(name, names[number - 1] if part == "then" else None) for number, name in enumerate(names)]


def jobs_of(part: str, asked: argparse.Namespace, candidates: Sequence[str]) -> list[list[Run]]:
    """The runs of a part, those of one worker together: seed by seed, long ones first."""
    seeds = {"choose": asked.seeds, "then": asked.then_seeds, "check": asked.check_seeds}[part]
    sizes = asked.sizes
    if part != "choose":  # where the chosen one trains as today's rule does there is nothing to compare
        sizes = [rows for rows in sizes if len(differing(candidates, rows)) > 1 and (part == "check" or rows in DECIDE)]
    jobs = []
    for seed in range(seeds):
        runs = {
            (domain, first): [
                Run(part, domain, rows, seed, name, first)
                for rows in sizes
                if (names := differing(candidates, rows)) and (len(names) > 1 or seed == 0)
                for name in names
            ]
            for domain, first in domains_of(part)
        }
        if part == "then":
            jobs += list(runs.values())  # together, as they share the model that has learnt the first
        else:
            jobs += [[run] for run in sorted(chain(*runs.values()), key=Run.steps, reverse=True)]
    return jobs


def do(
    jobs: Sequence[list[Run]], asked: argparse.Namespace, pool: ProcessPoolExecutor, found: Found, end: float
) -> None:
    """Make what is missing of some runs until the time is over, and write results as they come."""
    material = Material(asked.encoder, {"sentiment": asked.sentiment, "reviews": asked.reviews}, asked.device)
    missing = [job for job in jobs if any(run not in found for run in job)]
    running: dict[Future[Any], list[Run]] = {}
    began = written = time.monotonic()
    total, done, failed = len(missing), 0, 0
    while running or (missing and time.monotonic() < end):
        while missing and len(running) < asked.workers + 2 and time.monotonic() < end:  # two, that nobody waits
            job = missing.pop(0)
            running[pool.submit(work, material, job)] = job
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            job, results = running.pop(future), future.result()
            done += 1
            if isinstance(results, str):
                failed += 1
                print(f"FAILED {job[0]}: {results}", flush=True)
            else:
                found.update(zip(job, results, strict=True))
        if time.monotonic() > written + WRITE_EVERY_S:
            write(asked, found)
            written = time.monotonic()
            print(f"{done} of {total} jobs, {written - began:.0f} s", flush=True)
    write(asked, found)
    left = f", {len(missing)} not begun in time" if missing else ""
    print(f"{done - failed} jobs done, {failed} failed{left}, {time.monotonic() - began:.0f} s", flush=True)


# What came of it


def value(found: Found, run: Run, field: str) -> float | None:
    """The figure of a run; where its candidate trains as one before it does, that one's."""
    training = training_by(run.candidate, run.rows)
    for name in CANDIDATES:
        same = replace(run, candidate=name)
        if same in found and training_by(name, run.rows) == training:
            return float(found[same][field])
    return None


def by_seed(found: Found, part: str, rows: int, candidate: str, field: str = "score") -> dict[int, float]:
    """The mean over all domains, of each seed that has them all."""
    means: dict[int, float] = {}
    for seed in sorted({run.seed for run in found if run.part == part}):
        values = [
            value(found, Run(part, domain, rows, seed, candidate, first), field) for domain, first in domains_of(part)
        ]
        if values and None not in values:
            means[seed] = fmean(float(v) for v in values if v is not None)
    return means


def against(a: Mapping[int, float], b: Mapping[int, float]) -> Paired | None:
    seeds = sorted(a.keys() & b.keys())
    return paired_over_seeds([a[s] for s in seeds], [b[s] for s in seeds]) if len(seeds) > 1 else None


def gains(found: Found, candidate: str, over: str = TODAY) -> Paired | None:
    """The difference over the deciding sizes together."""
    figures = []
    for name in (candidate, over):
        each = [by_seed(found, "choose", rows, name) for rows in DECIDE]
        figures.append({seed: fmean(e[seed] for e in each) for seed in set.intersection(*map(set, each))})
    return against(*figures)


def wins(found: Found, candidate: str) -> bool:
    today = {rows: by_seed(found, "choose", rows, TODAY) for rows in (*DECIDE, KEEP)}
    tests = {rows: against(by_seed(found, "choose", rows, candidate), today[rows]) for rows in today}
    gained = all((test := tests[rows]) is not None and (test.low or 0) > 0 for rows in DECIDE)
    kept = (test := tests[KEEP]) is None or (test.difference >= 0 if test.high is None else test.high >= 0)
    return gained and kept


def choice(found: Found) -> str | None:
    """The candidate that the rule in this file's first lines takes, if any."""
    winners = [name for name in CANDIDATES if name != TODAY and wins(found, name)]

    def best(longer: bool) -> str | None:
        names = [name for name in winners if CANDIDATES[name].longer is longer]
        return max(names, key=lambda name: test.difference if (test := gains(found, name)) else 0.0, default=None)

    short, long = best(False), best(True)
    if short is None or long is None:
        return short or long
    test = gains(found, long, short)
    return long if test is not None and (test.low or 0) > 0 else short


def summary(found: Found, part: str) -> dict[str, Any]:
    """For each size and candidate the mean over seeds, and how it differs from today's rule."""
    fields = ("score", "first_after", "first_before") if part == "then" else ("score", "validation", "epochs")
    told: dict[str, Any] = {}
    for rows in sorted({run.rows for run in found if run.part == part}):
        for name in CANDIDATES:
            means = {field: by_seed(found, part, rows, name, field) for field in fields}
            if not means["score"]:
                continue
            line: dict[str, Any] = {field: fmean(each.values()) for field, each in means.items()}
            line["seeds"] = len(means["score"])
            if name != TODAY:
                for field in ("score", "first_after")[: 2 if part == "then" else 1]:
                    test = against(means[field], by_seed(found, part, rows, TODAY, field))
                    line[f"{field} against today"] = None if test is None else test.to_json()
            told.setdefault(str(rows), {})[name] = line
    return told


def write(asked: argparse.Namespace, found: Found) -> None:
    from transformers import __version__ as transformers_version

    cuda = asked.device == "cuda" or (asked.device == "auto" and torch.cuda.is_available())
    earlier = json.loads(asked.out.read_text())["command"] if asked.out.is_file() else None
    report = {
        "command": recorded_command(__file__, earlier=earlier),
        "machine": torch.cuda.get_device_name() if cuda else "CPU",
        "torch": torch.__version__,
        "transformers": transformers_version,
        "encoder": asked.called,
        "rounded from": asked.rounded_from,
        "candidates": {
            name: {str(rows): settings_of(candidate.training(rows)) for rows in asked.sizes}
            for name, candidate in CANDIDATES.items()
        },
        "chosen": choice(found),
        **{part: summary(found, part) for part in PARTS},
    }
    runs = ",\n".join(json.dumps({**asdict(run), **result}) for run, result in found.items())  # a line for each
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(asked.out, f'{json.dumps(report, indent=1)[:-2]},\n "runs": [\n{runs}\n]}}\n')


def settings_of(training: TrainingSettings) -> dict[str, Any]:
    return {name: getattr(training, name) for name in ("epochs", "warm_up", "patience")}


def already(asked: argparse.Namespace) -> Found:
    """The runs that the results hold."""
    if not asked.out.is_file():
        return {}
    held = json.loads(asked.out.read_text())
    if held["encoder"] != asked.called:
        raise SystemExit(f"{asked.out} holds runs of {held['encoder']}: name another file with --out")
    names = list(Run.__dataclass_fields__)
    return {Run(**{n: run[n] for n in names}): {k: v for k, v in run.items() if k not in names} for run in held["runs"]}


def show(found: Found, part: str) -> None:
    for rows, lines in summary(found, part).items():
        for name, line in lines.items():
            test, told = line.get("score against today"), f"{part} {rows:>5} rows  {name:<13}{100 * line['score']:5.1f}"
            if test is not None:
                told += f"  {100 * test['difference']:+.1f}"
            if test is not None and test["low"] is not None:
                told += f" ({100 * test['low']:+.1f} to {100 * test['high']:+.1f})"
            if part == "then":
                told += f"  first {100 * line['first_before']:.1f} -> {100 * line['first_after']:.1f}"
            print(f"{told}  {line['seeds']} seeds")


def options() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--encoder", default="minilm", help="name or folder")
    made.add_argument("--called", help="its name in the results; else that of its folder")
    made.add_argument("--rounded-from", help="SHA-256 of the weights of which these are the float16 values")
    made.add_argument("--sentiment", type=Path, required=True, help="folder of the four domains to choose on")
    made.add_argument("--reviews", type=Path, help="folder of the fourteen domains to check on; none: no check")
    made.add_argument("--sizes", type=int, nargs="+", default=[50, 100, 300, 1000])
    made.add_argument("--seeds", type=int, default=5)
    made.add_argument("--then", action=argparse.BooleanOptionalAction, default=True, help="a domain after another")
    made.add_argument("--then-seeds", type=int, default=3)
    made.add_argument("--check-seeds", type=int, default=3)
    made.add_argument("--device", default="auto")
    made.add_argument("--workers", type=int, default=1)
    made.add_argument("--minutes", type=float, help="for all parts together; what is done is kept")
    made.add_argument("--out", type=Path, default=Path("results/few-rows.json"))
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    asked = options().parse_args(arguments)
    asked.called = asked.called or Path(asked.encoder).name
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the workers have the cores already
    began, found = time.monotonic(), already(asked)
    seconds = float("inf") if asked.minutes is None else 60 * asked.minutes
    with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("spawn")) as pool:
        do(jobs_of("choose", asked, list(CANDIDATES)), asked, pool, found, began + CHOOSING * seconds)
        show(found, "choose")
        chosen = choice(found)
        print(f"chosen: {chosen}", flush=True)
        if chosen is not None:
            parts = ["then"] * asked.then + ["check"] * (asked.reviews is not None)
            jobs = [job for part in parts for job in jobs_of(part, asked, [TODAY, chosen])]
            do(jobs, asked, pool, found, began + seconds)
            for part in parts:
                show(found, part)
    write(asked, found)
    print(f"the results are in {asked.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
