"""A hundred domains in one model: time a batch, memory, saving and loading, and accuracy, as domains arrive.

    python benchmarks/hundred_domains.py --out results/hundred-domains.json --picture docs/hundred-domains.png
    python benchmarks/hundred_domains.py --domains 6 --quick

A generated stream: each domain has things of its own to speak of, and its own reading of four words that all share
(what is good in one domain is bad in another). A small Transformer, made here with random weights, learns the first
domain whole and the others by frozen+M; a BiLSTM learns by F+M+V. Each learns the stream twice: a text reads the slots
of the `nearest` domain alone (domains_read: 1), or of `all` (there 25 domains are learnt, and the others only grown).
Then the models after some of the domains take turns: a training step and an answer to a batch of 32 texts, of the
newest domain or of all, in seconds of the CPU, the median of rounds. What counts is the ratio to the model of one
domain in the same run. With `--encoder minilm` the same is timed at the size of a real encoder, whose slots are grown
and not trained. What `--out` knows of other kinds and readings stays.
"""

import argparse
import copy
import hashlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from memgrow.data import Domain, Example, Stream
from memgrow.data.batches import Encoded, collate
from memgrow.defaults import FINE_TUNING
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import Classifier, Model, ModelSettings, PretrainedEncoder, PretrainedSettings, build
from memgrow.report.plots import new_figure
from memgrow.training.loop import TrainingSettings
from memgrow.training.plain_stepper import PlainStepper

READINGS = {"all": 0, "nearest": 1}
KINDS = ("transformer", "bilstm")
TITLES, TICKS = {"transformer": "Transformer, frozen+M", "bilstm": "BiLSTM, F+M+V"}, (0.5, 1, 1.5, 3, 10, 30)
MARKS = (1, 10, 25, 50, 100)
SHARED, THINGS = 4, 6
SPECIALS = ("[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]")
WIDTH, LAYERS, SLOTS, BATCH = 64, 2, 32, 32
LARGE_SLOTS = 4096  # of each domain, where saving and loading are timed


# The stream, and an encoder that knows its words


def words_of(count: int, seed: str) -> list[str]:
    chance, found = random.Random(seed), {}
    while len(found) < count:
        found["".join(chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(3))] = None
    return list(found)


def make_stream(domains: int, sizes: Sequence[int]) -> Stream:
    words = words_of(SHARED + THINGS * domains, "words")
    shared, things = words[:SHARED], words[SHARED:]
    return Stream(
        make_domain(f"d{number:03}", shared, things[THINGS * number : THINGS * (number + 1)], sizes)
        for number in range(domains)
    )


def make_domain(name: str, shared: Sequence[str], things: Sequence[str], sizes: Sequence[int]) -> Domain:
    chance = random.Random(name)
    good = set(chance.sample(shared, SHARED // 2))
    parts = []
    for size in sizes:
        rows = []
        for _ in range(size):
            word = chance.choice(shared)
            said = [*chance.sample(things, 3), word]
            chance.shuffle(said)
            rows.append(Example(" ".join(said), label="good" if word in good else "bad"))
        parts.append(tuple(rows))
    return Domain(name, *parts)


def make_encoder(folder: Path, stream: Stream) -> Path:
    """A small random BERT with a piece for each word of the stream, in the layout of Hugging Face's folders."""
    from transformers import BertConfig, BertModel

    words = sorted({word for domain in stream for example in domain.train for word in example.text.split()})
    numbers = {word: number for number, word in enumerate((*SPECIALS, *words))}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0))
    tokenizer.add_special_tokens(list(SPECIALS))
    config = BertConfig(
        vocab_size=len(numbers),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        intermediate_size=2 * WIDTH,
        max_position_embeddings=32,
        pad_token_id=2,
        initializer_range=0.2,
    )
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


# Learning


def make_learner(kind: str, domains_read: int, encoder: Path, epochs: int) -> Learner:
    usual: dict[str, Any] = {"epochs": epochs, "patience": epochs, "batch": BATCH}
    if kind == "transformer":
        sizes = {"slots": SLOTS, "domains_read": domains_read, "memory_layers": "1", "dropout": 0.0}
        return Learner.create(
            "frozen+M",
            model=PretrainedSettings(encoder=str(encoder), **sizes),
            training=replace(FINE_TUNING, **usual, rate=3e-3, new_rate=0.02, warm_up=0),
            options=MethodSettings(slots=SLOTS),
            device="cpu",
        )
    return Learner.create(
        "F+M+V",
        model=ModelSettings(embedding=64, hidden=32, slots=SLOTS, perceptron=32, domains_read=domains_read),
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


def saved_and_loaded(learner: Learner, stream: Stream) -> dict[str, float]:
    """Seconds a GiB of saving and loading a model whose domains are large."""
    model = copy.deepcopy(learner.trained())
    for domain in stream:
        model.grow(slots=LARGE_SLOTS, domain=f"{domain.name} once more")
    large = Learner.create("frozen+M", model=learner.settings, training=learner.training, device="cpu")
    large.take(replace(learner.learnt, model=model))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "m"
        saving = seconds_of(lambda: large.save(place), time.perf_counter)
        loading = seconds_of(lambda: Learner.load(place, "cpu"), time.perf_counter)
        again = seconds_of(lambda: large.save(place))
        loading_again = seconds_of(lambda: Learner.load(place, "cpu"))
        size = sum(path.stat().st_size for path in place.iterdir() if path.is_file()) / 2**30
    return {
        "GiB": size,
        "save, s a GiB": saving / size,
        "load, s a GiB": loading / size,
        "save, s of the CPU a GiB": again / size,
        "load, s of the CPU a GiB": loading_again / size,
    }


def real_size(name: str, stream: Stream, marks: Sequence[int], rounds: int) -> dict[str, Any]:
    """The same timing on a real encoder, whose slots are grown and noted but not trained."""
    found = {}
    for reading, domains_read in READINGS.items():
        settings = PretrainedSettings(encoder=name, slots=256, domains_read=domains_read, dropout=0.0)
        learner = Learner.create("frozen+M", model=settings, device="cpu")
        model = build("text", learner.settings, 0, 2, stream[0].name, learner.encoder)
        assert isinstance(model.encoder, PretrainedEncoder)
        learner.take(replace(learner.learnt, task="text", labels=("bad", "good"), model=model))
        kept = []
        for number, domain in enumerate(stream, 1):
            old = copy.deepcopy(model) if number in marks and number > 1 else None
            if number > 1:
                model.grow(slots=256, domain=domain.name)
            model.encoder.note_texts(learner.encode(domain.train))
            if number in marks:
                kept.append(mark_of(learner, old, stream, number))
        found[reading] = with_ratios(timed(kept, rounds))
        note(f"{name}, {reading}: {found[reading]['ratio']}")
    return found


def with_ratios(seconds: dict[str, dict[int, float]]) -> dict[str, Any]:
    """Times, and those at the last mark as a multiple of those at the first."""
    ratio = {name: by[max(by)] / by[min(by)] for name, by in seconds.items()}
    return {"seconds": seconds, "ratio": ratio}


def keep(path: Path | None, found: dict[str, Any]) -> None:
    if path is not None:
        path.write_text(json.dumps(found, indent=1) + "\n")


def draw(found: dict[str, Any], path: Path) -> None:
    """Time a training step against the number of domains, as a multiple of that of one domain."""
    figure = new_figure(8.2, 3.4)
    axes = figure.subplots(1, len(KINDS), sharey=True)
    for axis, kind in zip(axes, KINDS, strict=True):
        for (reading, one), style in zip(found[kind].items(), ("--", "-"), strict=True):
            for name, colour in (("training step", "#1f4e79"), ("answers, one domain", "#b0642a")):
                by = {int(domains): seconds for domains, seconds in one["seconds"][name].items()}
                axis.plot(list(by), [by[n] / by[1] for n in by], style, color=colour, marker=".")
                axis.plot([], [], style, color=colour, label=f"{name}, {reading} read")
        axis.axhline(1.5, color="#8a8a8a", linewidth=0.8, linestyle=":")
        axis.set(title=TITLES[kind], xlabel="domains", yscale="log")
        axis.set_yticks(TICKS, map(str, TICKS))
        axis.minorticks_off()
    axes[0].set_ylabel("CPU time a batch, one domain = 1")
    axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=130, metadata={"Description": checksum_of(found)})


def checksum_of(found: dict[str, Any]) -> str:
    """Tells by which results a picture was drawn."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def note(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domains", type=int, default=100)
    parser.add_argument("--compared", type=int, default=25, help="domains that are learnt by reading all of them too")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--readings", nargs="+", choices=READINGS, default=list(READINGS))
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
    torch.set_num_threads(asked.threads)
    sizes = (24, 8, 8) if asked.quick else (64, 16, 16)
    stream = make_stream(asked.domains, sizes)
    marks = sorted({*(mark for mark in MARKS if mark < asked.domains), asked.domains})
    known = json.loads(asked.out.read_text()) if asked.out and asked.out.exists() else {}
    found: dict[str, Any] = known | {
        "command": "benchmarks/hundred_domains.py --encoder minilm --out results/hundred-domains.json",
        "domains": asked.domains,
        "threads": asked.threads,
        "batch": BATCH,
        "slots": SLOTS,
    }
    with tempfile.TemporaryDirectory() as folder:
        encoder = make_encoder(Path(folder) / "tiny", stream)
        for kind in asked.kinds:
            found.setdefault(kind, {})
            for reading in asked.readings:
                domains_read = READINGS[reading]
                learner = make_learner(kind, domains_read, encoder, 1 if asked.quick else asked.epochs)
                kept, told = learn(learner, stream, marks, asked.compared, f"{kind}, {reading}")
                times = with_ratios(timed(kept, 2 if asked.quick else asked.rounds))
                recall = recall_of(learner, stream) if domains_read else None
                found[kind][reading] = {**told, **times, "own domain read": recall}
                keep(asked.out, found)
                note(f"{kind}, {reading}: {times['ratio']}, own domain read: {recall}")
            if kind == "transformer" and "nearest" in asked.readings and not asked.quick:
                found["saving"] = saved_and_loaded(learner, stream)
                keep(asked.out, found)
                note(f"{found['saving']}")
    if asked.encoder:
        found["real"] = {
            "encoder": asked.encoder,
            "timed": real_size(asked.encoder, stream, [1, asked.domains], 2),
        }
    keep(asked.out, found)
    if asked.picture:
        draw(found, asked.picture)


if __name__ == "__main__":
    main()
