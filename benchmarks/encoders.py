"""Pretrained encoders against what else reads and trains them, on the same encoder, texts and machine.

    python benchmarks/encoders.py --encoder minilm --data SENTIMENT --device cuda --out results/encoders/speed/h200.json
    python benchmarks/encoders.py --encoder minilm --data SENTIMENT --threads 2 --out results/encoders/speed/cpu.json
    python benchmarks/encoders.py --data SENTIMENT --parts adapt --out results/encoders/speed/cpu-adapt.json
    python benchmarks/encoders.py --encoder FOLDER --quick

predict: texts to labels and probabilities, by `Learner.predict`, by sentence-transformers' `encode` and a linear head,
and by a plain loop over sorted batches with transformers' AutoModel. train: epochs over one domain, by `Learner.adapt`
(with its validation) and by transformers' Trainer (its defaults, but nothing saved). adapt: a whole stream, method by
method, and whether a progress bar would have told the truth. Rivals take turns within a run; a figure is the median of
rounds after one that is not counted.

sentence-transformers and accelerate (for the Trainer) are needed here alone and are no part of memgrow:
`pip install sentence-transformers accelerate`. A rival that is not installed is left out, and the report says so.
`--data` is the folder of the sentiment corpus (`memgrow data where sentiment`); without it, texts are made up.
"""

import argparse
import gc
import hashlib
import importlib.util
import json
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

import encoder_rivals as rivals
from memgrow.data import Domain, Example, Stream, synthetic_stream
from memgrow.data.corpora import open_corpus
from memgrow.learner import Learner
from memgrow.methods import METHODS
from memgrow.nn.device import multiplies_bfloat16
from memgrow.training.progress import Step
from recorded_command import recorded_command

PARTS = ("predict", "train", "adapt")
MEMGROW = "memgrow"
ADAPT_BY = {"cuda": ("F+A", "F+M", "frozen+M", "LoRA", "ridge"), "cpu": ("ridge", "frozen+M")}

Found = dict[str, dict[str, Any]]
T = TypeVar("T")


# The texts, and a learner that has learnt nothing of them yet


def open_stream(asked: argparse.Namespace) -> Stream:
    if asked.data is not None:
        return open_corpus(asked.data).stream
    made = synthetic_stream(domains=4, train=60 if asked.quick else 2000, validation=20, test=40)
    single = [{p: tuple(map(_single, getattr(d, p))) for p in ("train", "validation", "test")} for d in made]
    return Stream([Domain(domain.name, **parts) for domain, parts in zip(made, single, strict=True)])


def _single(example: Example) -> Example:
    return Example(example.text, label=example.label)


def spread(given: Sequence[T], most: int) -> tuple[T, ...]:
    """At most so many, from all parts: in files, examples of one label may stand together."""
    return tuple(given[:: -(-len(given) // most)])


def untrained(asked: argparse.Namespace, stream: Stream) -> Learner:
    """A learner whose encoder is as it came and whose head was solved for on a few rows."""
    learner = rivals.new_learner(asked, "ridge")
    parts = {part: spread(getattr(stream[0], part), 60) for part in ("train", "validation")}
    learner.adapt(Domain(stream[0].name, **parts))
    return learner


# Measuring


def peak_mib(device: str) -> float:
    """The peak of memory: on a GPU of what torch has held since it was reset, on a CPU of the whole process.

    Linux counts in `ru_maxrss` also what the process that started this one had in memory, and not in VmHWM.
    """
    if device == "cuda":
        return torch.cuda.max_memory_reserved() / 2**20
    if (status := Path("/proc/self/status")).is_file():
        (kib,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status.read_text(), flags=re.MULTILINE)
        return int(kib) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def once(way: Callable[[], Any], device: str, afresh: bool = False) -> tuple[float, Any]:
    """Seconds, and what came of it; `afresh` gives memory back first, so that its peak is this one's."""
    if device == "cuda":
        torch.cuda.synchronize()
        if afresh:
            gc.collect()
            torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    rivals.NOT_COUNTED.clear()
    began = time.perf_counter()
    result = way()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began - sum(rivals.NOT_COUNTED), result


def take_turns(
    part: str, ways: Mapping[str, Callable[[], Any]], asked: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """Each rival in each round; the first round warms up."""
    if asked.alone:
        once(ways[asked.alone], asked.device)
        print(peak_mib(asked.device))
        raise SystemExit
    times: dict[str, list[float]] = {name: [] for name in ways}
    peaks: dict[str, float] = {}
    last: dict[str, Any] = {}
    for number in range(asked.rounds + 1):
        for name, way in ways.items():
            seconds, last[name] = once(way, asked.device, afresh=not number)
            if number:
                times[name].append(seconds)
            else:
                here = asked.device == "cuda" or asked.quick  # a process for each takes seconds
                peaks[name] = peak_mib(asked.device) if here else peak_alone(part, name, asked)
            print(f"  {name}: {seconds:.3f} s", file=sys.stderr, flush=True)
    return {
        name: {
            "seconds": round(statistics.median(times[name]), 4),
            "rounds": [round(one, 4) for one in times[name]],
            "peak_mib": round(peaks[name], 1),
            "result": last[name],
        }
        for name in ways
    }


def peak_alone(part: str, name: str, asked: argparse.Namespace) -> float:
    """The peak of a process of its own: in this one, whoever came first would have taken the memory."""
    given = {"encoder": asked.encoder, "texts": asked.texts, "epochs": asked.epochs, "threads": asked.threads}
    given |= {"precision": asked.precision}
    given |= {"data": asked.data} if asked.data else {}
    words = [word for option, value in given.items() for word in (f"--{option}", str(value))]
    words += ["--quick"] if asked.quick else []
    command = [sys.executable, __file__, *words, "--parts", part, "--alone", name]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return float(said.split()[-1])


def with_ratios(found: Found) -> Found:
    """How many times as long as memgrow each takes."""
    ours = found[MEMGROW]["seconds"]
    return {name: {**one, "times_memgrow": round(one["seconds"] / ours, 3)} for name, one in found.items()}


def installed(*packages: str) -> bool:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        print(f"  left out: {', '.join(missing)} is not installed", file=sys.stderr, flush=True)
    return not missing


def measure_predict(asked: argparse.Namespace, stream: Stream) -> dict[str, Any]:
    learner = untrained(asked, stream)
    every = [example.text for domain in stream for example in (*domain.train, *domain.test)]
    texts = spread(every, asked.texts)
    makers: dict[str, Callable[[Sequence[str]], rivals.Answers]] = {MEMGROW: rivals.predict_with_memgrow(learner)}
    if installed("sentence_transformers"):
        makers["sentence-transformers"] = rivals.predict_with_sentence_transformers(learner)
    for batch in (rivals.BATCH, 256):
        makers[f"AutoModel, sorted batches of {batch}"] = rivals.predict_with_auto_model(learner, batch)
    found = take_turns("predict", {name: lambda maker=maker: maker(texts) for name, maker in makers.items()}, asked)
    answers = {name: one.pop("result") for name, one in found.items()}
    for name, one in found.items():
        one["texts_per_second"] = round(len(texts) / one["seconds"])
        pairs = list(zip(answers[name], answers[MEMGROW], strict=True))
        apart = max(abs(p - q) for a, b in pairs for p, q in zip(a[1], b[1], strict=True))
        one |= {"same_labels": round(statistics.fmean(a[0] == b[0] for a, b in pairs), 4)}
        one |= {"largest_difference": round(apart, 5)}
    return {"texts": len(texts), "rivals": with_ratios(found)}


def measure_train(asked: argparse.Namespace, stream: Stream) -> dict[str, Any]:
    domain = stream[0]
    train = spread(domain.train, asked.texts)
    domain = replace(domain, train=train, validation=spread(domain.validation, max(10, len(train) // 10)))
    folder = rivals.folder_of(rivals.new_learner(asked, device="cpu"))
    ways: dict[str, Callable[[], rivals.Trained]] = {MEMGROW: lambda: rivals.train_with_memgrow(asked, domain)}
    if installed("accelerate"):
        ways["Trainer"] = lambda: rivals.train_with_trainer(asked, domain, folder)
        if asked.device == "cuda":
            ways["Trainer, bf16"] = lambda: rivals.train_with_trainer(asked, domain, folder, bf16=True)
    found = take_turns("train", ways, asked)
    for one in found.values():
        trained = one.pop("result")
        one |= {"validation": round(trained.validation, 4), "steps": trained.steps}
    return {"texts": len(domain.train), "epochs": asked.epochs, "batch": rivals.BATCH, "rivals": with_ratios(found)}


class Told:
    """Notes when each step of a domain was told, as a bar is told, to hold what a bar expects against the truth."""

    def __init__(self) -> None:
        self.steps: dict[str, list[tuple[float, int]]] = {}  # seconds, and batches (of ridge, tokens) done

    def step(self, step: Step) -> None:
        done = (step.epoch - 1) * step.batches + step.batch
        self.steps.setdefault(step.domain, []).append((time.perf_counter(), done))

    def note(self, sentence: str) -> None:
        return

    def expected_at_a_tenth(self) -> list[float]:
        """For each domain, the time expected after a tenth of the steps, as a share of what they took."""
        return [round(self._expected(told), 3) for told in self.steps.values() if told[-1][0] > told[0][0]]

    @staticmethod
    def _expected(told: Sequence[tuple[float, int]]) -> float:
        (began, first), (ended, last) = told[0], told[-1]
        now, done = next(one for one in told[1:] if one[1] - first >= (last - first) / 10)
        return (now - began) * (last - first) / max(done - first, 1) / (ended - began)


def measure_adapt(asked: argparse.Namespace, stream: Stream) -> dict[str, Any]:
    found = {}
    for method in asked.methods or ADAPT_BY[asked.device]:
        if method.split("+")[0] not in METHODS and method not in METHODS:
            print(f"  left out: there is no method {method}", file=sys.stderr, flush=True)
            continue
        learner = rivals.new_learner(asked, method)
        told = Told()
        seconds, history = once(partial(learner.learn, stream, progress=told), asked.device, afresh=True)
        found[method] = {
            "seconds": round(seconds, 2),
            "stages": [round(stage.seconds, 2) for stage in history.stages],
            "epochs": [stage.epochs for stage in history.stages],
            "expected_at_a_tenth": told.expected_at_a_tenth(),
            "average": round(history.matrix.average() or 0.0, 4),
            "forgetting": round(history.matrix.forgetting() or 0.0, 4),
            "peak_mib": round(peak_mib(asked.device), 1),
            "weights": digest(learner),
        }
        print(f"  {method}: {found[method]}", file=sys.stderr, flush=True)
    return found


def digest(learner: Learner) -> str:
    """Tells whether a run ended with the same bits as another."""
    sums = hashlib.sha256()
    for tensor in learner.trained().state_dict().values():
        sums.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return sums.hexdigest()[:16]


# The command


def machine(asked: argparse.Namespace) -> str:
    return torch.cuda.get_device_name() if asked.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"


def precision(asked: argparse.Namespace) -> str:
    """In which memgrow multiplies here."""
    if asked.precision != "auto":
        return str(asked.precision)
    return "bfloat16" if multiplies_bfloat16(asked.device) else "float32"


def report(asked: argparse.Namespace) -> dict[str, Any]:
    from transformers import __version__ as transformers_version
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    stream = open_stream(asked)
    found: dict[str, Any] = {
        "command": recorded_command(__file__),
        "machine": machine(asked),
        "precision": precision(asked),
        "torch": torch.__version__,
        "transformers": transformers_version,
        "data": "made up" if asked.data is None else Path(asked.data).name,
    }
    measures = {"predict": measure_predict, "train": measure_train, "adapt": measure_adapt}
    unfinished = None if asked.out is None else asked.out.with_name(f"{asked.out.name}.unfinished")
    for part in asked.parts:
        print(f"{part}:", file=sys.stderr, flush=True)
        found[part] = measures[part](asked, stream)
        if unfinished is not None:  # what has been measured is not lost if the rest fails, and is no whole result
            unfinished.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if unfinished is not None:
        unfinished.replace(asked.out)
    return found


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="minilm", help="a name, a folder or a hub name")
    parser.add_argument("--data", type=Path, help="the folder of the sentiment corpus")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=2, help="of the CPU, where it computes")
    parser.add_argument(
        "--precision", choices=("auto", "float32", "bfloat16"), default="auto", help="in which memgrow multiplies"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--methods", nargs="+", help="that adapt")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=20000, help="that are predicted, and trained on, at most")
    parser.add_argument("--epochs", type=int, default=3, help="of training")
    parser.add_argument("--quick", action="store_true", help="few made-up texts, one round")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--alone", help=argparse.SUPPRESS)  # the only rival of a process of ours, for its memory
    return parser


def main() -> None:
    asked = options().parse_args()
    if asked.quick:
        asked.rounds, asked.texts, asked.epochs = 1, 100, 1
    if asked.device == "cpu":
        torch.set_num_threads(asked.threads)
    print(json.dumps(report(asked), indent=1))


if __name__ == "__main__":
    main()
