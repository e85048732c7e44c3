"""A hundred domains in one model: time a batch, memory, saving and loading, and accuracy, as domains arrive.

    python benchmarks/hundred_domains.py --encoder minilm --out results/hundred-domains.json \\
        --picture docs/hundred-domains.png
    python benchmarks/hundred_domains.py --domains 6 --quick

On a generated stream (many_domains_stream.py) a small Transformer with random weights learns the first domain whole and
the others by frozen+M; a BiLSTM learns by F+M+V. Each learns the stream twice: a text reads the slots of the `nearest`
domain alone (domains_read: 1), or of `all` (there 25 domains are learnt, and the others only grown). Then the models
after some of the domains take turns: a training step and an answer to a batch of 32 texts, of the newest domain or of
all, in seconds of the CPU, the median of rounds. What counts is the ratio to the model of one domain in the same run.

The parts of a run: `transformer` and `bilstm`; `saving`, of a model of half a GiB (saving.py);
`wide`, a BiLSTM of the paper's size; `real`, an encoder such as minilm (the slots of both are grown and not trained).
All are measured unless `--parts` says which; then --out keeps what it knows of the others. A run that was stopped goes
on with the parts that are missing: they stand in OUT.unfinished until all are there.
"""

import argparse
import copy
import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from memgrow.training.plain_stepper import PlainStepper

from many_domains_stream import make_encoder, make_stream
from memgrow.data import Domain, Stream
from memgrow.data.batches import Encoded, collate
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import Classifier, Model, ModelSettings, PretrainedSettings, build
from memgrow.report.plots import new_figure
from memgrow.training.defaults import FINE_TUNING
from memgrow.training.settings import TrainingSettings
from recorded_command import recorded_command
from saving import saved_and_loaded

READINGS = {"all": 0, "nearest": 1}
KINDS = ("transformer", "bilstm")
PARTS = (*KINDS, "saving", "wide", "real")
TITLES, TICKS = {"transformer": "Transformer, frozen+M", "bilstm": "BiLSTM, F+M+V"}, (0.5, 1, 1.5, 3, 10, 30)
COLOURS = {"training step": "#1f4e79", "answers, one domain": "#b0642a", "answers, all domains mixed": "#3a7d44"}
MARKS = (1, 10, 25, 50, 100)
SLOTS, REAL_SLOTS, BATCH = 32, 256, 32
WIDE = {"embedding": 300, "hidden": 300, "slots": 500, "perceptron": 300}  # the paper's sizes
LARGE = 0.5  # GiB of the model that is saved and loaded


# Learning


def make_learner(
    kind: str, domains_read: int, encoder: Path, epochs: int, sizes: dict[str, int] | None = None
) -> Learner:
    usual: dict[str, Any] = {"epochs": epochs, "patience": epochs, "batch": BATCH}
    if kind == "transformer":
        of_memory = {"slots": SLOTS, "domains_read": domains_read, "memory_layers": "1", "dropout": 0.0}
        return Learner.create(
            "frozen+M",
            model=PretrainedSettings(encoder=str(encoder), **of_memory),
            training=replace(FINE_TUNING, **usual, rate=3e-3, new_rate=0.02, warm_up=0),
            options=MethodSettings(slots=SLOTS),
            device="cpu",
        )
    sizes = sizes or {"embedding": 64, "hidden": 32, "slots": SLOTS, "perceptron": 32}
    return Learner.create(
        "F+M+V",
        model=ModelSettings(**sizes, domains_read=domains_read),
        training=TrainingSettings(**usual, rate=0.01),
        options=MethodSettings(slots=SLOTS),
        device="cpu",
    )


@dataclass(frozen=True)
class Mark:
    """A learner's model after so many domains, and what it takes to train it on the last of them."""

    domains: int
    model: Model
    stepper: PlainStepper
    own: Encoded  # a batch of the newest domain
    mixed: Encoded  # and one of as many domains as there are


def mark_of(learner: Learner, old: Model | None, stream: Stream, domains: int) -> Mark:
    model = copy.deepcopy(learner.trained())
    own = learner.encode(list(stream[domains - 1].train)[:BATCH])
    every = [example for domain in stream[:domains] for example in domain.test[:1]]
    mixed = learner.encode((every * BATCH)[:: max(1, len(every) // BATCH)][:BATCH])
    trains = learner.method.trains(old, model)
    stepper = PlainStepper(
        model, own, own, settings=learner.training, trains=trains, plugins=learner.method.plugins(learner.options)
    )
    return Mark(domains, model, stepper, own, mixed)


def learn(
    learner: Learner, stream: Stream, marks: Sequence[int], compared: int, tell: str
) -> tuple[list[Mark], dict[str, Any]]:
    """Learn domains in turn: the model at the marks, and accuracy and sizes on the way.

    Where all domains are read, what comes after the `compared` first ones grows and is not trained, as that takes long.
    """
    found, fresh, sizes, accuracy = [], [], [], {}
    for number, domain in enumerate(stream, 1):
        old = learner.model if number in marks else None
        began = time.monotonic()
        trained = bool(learner.settings.domains_read) or number <= compared
        if trained:
            learner.adapt(domain)
            fresh.append(learner.evaluate(domain)[domain.name])
        else:
            model = copy.deepcopy(learner.trained())
            model.grow(slots=SLOTS, domain=domain.name)
            learner.take(replace(learner.learnt, model=model))
        sizes.append(sum(tensor.nbytes for tensor in learner.trained().state_dict().values()))
        if number in marks:
            found.append(mark_of(learner, old, stream, number))
            note(f"{tell}: {number} domains, the last in {time.monotonic() - began:.1f} s")
        if trained and number in (compared, len(stream)):
            told = [learner.evaluate(one, for_domain=one.name)[one.name] for one in stream[:number] if learner.parts]
            accuracy[number] = {
                "just learnt": statistics.fmean(fresh),
                "at the end": statistics.fmean(learner.evaluate(stream[:number]).values()),
                "domain told": statistics.fmean(told) if told else None,
            }
            note(f"{tell}: {accuracy[number]}")
    return found, {"accuracy": accuracy, "bytes": sizes}


def recall_of(learner: Learner, stream: Stream) -> float:
    """The share of test texts that read the slots of their own domain."""
    shares = [learner.reading(example)[0][domain.name].sum() > 0 for domain in stream for example in domain.test[:4]]
    return float(sum(map(bool, shares)) / len(shares))


# Timing


def seconds_of(action: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Of the CPU, unless another clock is given: what else the machine does then matters little."""
    began = clock()
    action()
    return clock() - began


def answer(model: Model, data: Encoded) -> None:
    assert isinstance(model, Classifier)
    with torch.no_grad():
        batch = collate(data, range(len(data)), model.device)
        model.eval()(batch.words, batch.lengths)


def actions_of(mark: Mark) -> dict[str, Callable[[], object]]:
    def step() -> None:
        mark.model.train()
        with mark.stepper.optimiser.serving(mark.model.word_vectors):
            mark.stepper.step(collate(mark.own, range(len(mark.own)), mark.model.device))

    return {
        "training step": step,
        "answers, one domain": lambda: answer(mark.model, mark.own),
        "answers, all domains mixed": lambda: answer(mark.model, mark.mixed),
    }


def timed(marks: Sequence[Mark], rounds: int) -> dict[str, dict[int, float]]:
    """The median seconds of each action at each mark; marks take turns, so that all see the same machine."""
    actions = {mark.domains: actions_of(mark) for mark in marks}
    names = list(actions[marks[0].domains])
    taken: dict[str, dict[int, list[float]]] = {name: {mark.domains: [] for mark in marks} for name in names}
    for turn in range(rounds + 1):
        for name in names:
            for domains, some in actions.items():
                spent = seconds_of(some[name])
                if turn:  # the first is not counted
                    taken[name][domains].append(spent)
    return {name: {n: statistics.median(spent) for n, spent in by.items()} for name, by in taken.items()}


def grown(learner: Learner, stream: Stream, marks: Sequence[int], slots: int) -> list[Mark]:
    """The model at the marks where slots are grown, and texts noted, but not trained; it knows the first domain."""
    model, kept = learner.trained(), []
    for number, domain in enumerate(stream, 1):
        old = copy.deepcopy(model) if number in marks and number > 1 else None
        if number > 1:
            model.grow(slots=slots, domain=domain.name)
        model.encoder.note_texts(learner.encode(domain.train))
        if number in marks:
            kept.append(mark_of(learner, old, stream, number))
    return kept


def real_size(name: str, stream: Stream, marks: Sequence[int], rounds: int) -> dict[str, Any]:
    """The timing of a real encoder."""
    found = {}
    for reading, domains_read in READINGS.items():
        settings = PretrainedSettings(encoder=name, slots=REAL_SLOTS, domains_read=domains_read, dropout=0.0)
        learner = Learner.create("frozen+M", model=settings, device="cpu")
        model = build("text", learner.settings, 0, 2, stream[0].name, learner.encoder)
        learner.take(replace(learner.learnt, task="text", labels=("bad", "good"), model=model))
        found[reading] = with_ratios(timed(grown(learner, stream, marks, REAL_SLOTS), rounds))
        note(f"{name}, {reading}: {found[reading]['ratio']}")
    return {"encoder": name, "timed": found}


def wide(stream: Stream, marks: Sequence[int], rounds: int) -> dict[str, Any]:
    """The timing of a BiLSTM of the paper's size, which has the words of all domains from the first."""
    learner = make_learner("bilstm", READINGS["nearest"], Path(), 1, WIDE)
    train = tuple(chain.from_iterable(domain.train for domain in stream))
    learner.adapt(Domain(stream[0].name, train, stream[0].validation, stream[0].test))
    found = with_ratios(timed(grown(learner, stream, marks, WIDE["slots"]), rounds))
    note(f"wide: {found['ratio']}")
    return {"sizes": WIDE, "timed": {"nearest": found}}


def with_ratios(seconds: dict[str, dict[int, float]]) -> dict[str, Any]:
    """Times, and those at the last mark as a multiple of those at the first."""
    ratio = {name: by[max(by)] / by[min(by)] for name, by in seconds.items()}
    return {"seconds": seconds, "ratio": ratio}


def draw(found: dict[str, Any], path: Path) -> None:
    """Time a batch against the number of domains, as a multiple of that of one domain."""
    figure = new_figure(8.2, 3.6)
    axes = figure.subplots(1, len(KINDS), sharey=True)
    for axis, kind in zip(axes, KINDS, strict=True):
        for (reading, one), style in zip(found[kind].items(), ("--", "-"), strict=True):
            for name, colour in COLOURS.items():
                by = {int(domains): seconds for domains, seconds in one["seconds"][name].items()}
                label = f"{name}, {reading} read"
                axis.plot(list(by), [by[n] / by[1] for n in by], style, color=colour, marker=".", label=label)
        axis.axhline(1.5, color="#8a8a8a", linewidth=0.8, linestyle=":")
        axis.set(title=TITLES[kind], xlabel="domains", yscale="log")
        axis.set_yticks(TICKS, map(str, TICKS))
        axis.minorticks_off()
    axes[0].set_ylabel("CPU time a batch, one domain = 1")
    axes[0].legend(fontsize=6, handlelength=4)
    figure.savefig(path, dpi=130, metadata={"Description": checksum_of(found)})


def checksum_of(found: dict[str, Any]) -> str:
    """Tells by which results a picture was drawn."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def note(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


@dataclass(frozen=True)
class Run:
    """What a run is asked for."""

    stream: Stream
    marks: Sequence[int]
    compared: int
    epochs: int
    rounds: int
    encoder: str | None
    gib: float

    def part(self, name: str, folder: Path) -> dict[str, Any]:
        """Measure one part; `folder` is for what it makes."""
        ends = (self.marks[0], self.marks[-1])
        if name in KINDS:
            return {reading: self._learnt(name, reading, folder) for reading in READINGS}
        if name == "wide":
            return wide(self.stream, ends, self.rounds)
        if name == "real":
            assert self.encoder is not None
            return real_size(self.encoder, self.stream, ends, min(self.rounds, 5))
        learner = make_learner("transformer", 1, make_encoder(folder / "saved", self.stream), 1)
        learner.adapt(self.stream[0])
        return saved_and_loaded(learner, self.gib)

    def _learnt(self, kind: str, reading: str, folder: Path) -> dict[str, Any]:
        encoder = folder / "tiny"
        if kind == "transformer" and not encoder.exists():
            make_encoder(encoder, self.stream)
        learner = make_learner(kind, READINGS[reading], encoder, self.epochs)
        kept, told = learn(learner, self.stream, self.marks, self.compared, f"{kind}, {reading}")
        times = with_ratios(timed(kept, self.rounds))
        recall = recall_of(learner, self.stream) if READINGS[reading] else None
        note(f"{kind}, {reading}: {times['ratio']}, own domain read: {recall}")
        return {**told, **times, "own domain read": recall}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domains", type=int, default=100)
    parser.add_argument("--compared", type=int, default=25, help="domains that are learnt by reading all of them too")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="all, unless it is said")
    parser.add_argument("--encoder", help="a real encoder to be timed as well, such as minilm")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="little data: to try the script")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--draw", type=Path, metavar="JSON", help="draw the picture of these results, and run nothing")
    asked = parser.parse_args()
    if asked.draw:
        draw(json.loads(asked.draw.read_text()), asked.picture)
        return
    parts = [part for part in asked.parts or PARTS if part != "real" or asked.encoder]
    torch.set_num_threads(asked.threads)
    run = Run(
        make_stream(asked.domains, (24, 8, 8) if asked.quick else (64, 16, 16)),
        sorted({*(mark for mark in MARKS if mark < asked.domains), asked.domains}),
        asked.compared,
        1 if asked.quick else asked.epochs,
        2 if asked.quick else asked.rounds,
        asked.encoder,
        LARGE / 50 if asked.quick else LARGE,
    )
    settings = {"domains": asked.domains, "threads": asked.threads, "batch": BATCH, "slots": SLOTS}
    settings |= {"epochs": run.epochs, "rounds": run.rounds, "compared": run.compared}
    found = measured(run, parts, settings, asked.out)
    if asked.picture:
        draw(found, asked.picture)


def measured(run: Run, parts: Sequence[str], settings: dict[str, Any], out: Path | None) -> dict[str, Any]:
    """All parts, of which those that a stopped run has left are not measured again; at the end they become `out`."""
    unfinished = None if out is None else out.with_name(f"{out.name}.unfinished")
    known = json.loads(unfinished.read_text()) if unfinished and unfinished.exists() else {}
    known = known if {name: known.get(name) for name in settings} == settings else {}
    before = json.loads(out.read_text()) if out and out.exists() and set(parts) < set(PARTS) else {}
    command = recorded_command(__file__, earlier=known.get("command") or before.get("command"))
    found = {"command": command, **settings, **{name: known[name] for name in PARTS if name in known}}
    found.setdefault("seconds of parts", known.get("seconds of parts", {}))
    with tempfile.TemporaryDirectory() as folder:
        for name in parts:
            if name in found:
                note(f"{name}: from {unfinished}")
                continue
            began = time.perf_counter()
            found[name] = run.part(name, Path(folder))
            found["seconds of parts"][name] = round(time.perf_counter() - began)
            note(f"{name}: {found['seconds of parts'][name]} s")
            if unfinished is not None:
                unfinished.write_text(json.dumps(found, indent=1) + "\n")
    # Numbers of domains are names in JSON.
    whole: dict[str, Any] = json.loads(json.dumps(before | found | {"seconds of parts": found["seconds of parts"]}))
    if out is not None and unfinished is not None:
        out.write_text(json.dumps(whole, indent=1) + "\n")
        unfinished.unlink(missing_ok=True)
    return whole


if __name__ == "__main__":
    main()
