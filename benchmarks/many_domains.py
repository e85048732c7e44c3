"""What a hundred domains cost: learning one more, predicting, saving and loading, with 1, 10 and 100 domains.

    python benchmarks/many_domains.py --data SENTIMENT --out results/many-domains.json

MiniLM learns two domains of the sentiment corpus, 128 rows each. The entries of the others are copies of the first
one's, whose differences change sign so that the weights stay finite. Their keys are those of 20 other texts each, and
their records are copies. A batch has 64 texts, from the keys of as many domains as there are (mixed), or the same text
64 times (one domain). The methods are the default, the default without memory, and independent domains. Where all
domains conflict each text reads its entry ("always"); where none does, the newest weights answer what they are sure of
("mean"). The first batch, for which weights of entries are rebuilt, is timed separately.

Seconds are processor time of one thread, medians of rounds in which the counts of domains take turns. `written` are
bytes of files that a save writes, `linked` of those that it shares with the version before.
"""

import argparse
import copy
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from memgrow.data import Domain, Example
from memgrow.data.corpora import open_corpus
from memgrow.data.disk import atomic_write, pack_json
from memgrow.evaluation.history import AccuracyMatrix, History, Row
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models.domain_memory import UP, DomainMemory
from memgrow.models.router import KEY, TEXTS, VARIANCE, key_of
from memgrow.nn.device import multiplies_bfloat16
from memgrow.training.settings import FINE_TUNING
from recorded_command import recorded_command

COUNTS = (1, 10, 100)
TEXTS_AT_ONCE, ROWS, KEY_ROWS = 64, 128, 20
WAYS = {
    "finetune+ema+memory": ("finetune+ema+memory", MethodSettings()),
    "finetune+ema": ("finetune+ema", MethodSettings()),
    "lora+memory, independent": ("lora+memory", MethodSettings(independent=True)),
}
KEYS = (KEY, VARIANCE, TEXTS)


def with_domains(two: Learner, count: int, rows: Sequence[Example]) -> Learner:
    """A learner of so many domains, made from one of two; `rows` are those of the keys."""
    state, memory = two.state, two.state.memory
    names = [f"domain {number}" for number in range(1, count + 1)]
    first, last = state.history.stages
    stages = [replace(first, learned=(name,), fingerprint=name) for name in names[:-1]]
    stages.append(replace(last, learned=(names[-1],)))
    history = History(
        stages,
        AccuracyMatrix(tuple(Row((name,), dict.fromkeys(names[: i + 1], 0.8765)) for i, name in enumerate(names))),
        dict.fromkeys(names, 0.5),
        dict.fromkeys(names, tuple(two.labels or ())),
    )
    a, b = (one.learned[0] for one in state.history.stages)
    model = copy.deepcopy(two.classifier())
    if memory is not None:
        old, newest = memory.entries()
        entries = []
        for number, name in enumerate(names):
            data = two.encode(rows[number * KEY_ROWS : (number + 1) * KEY_ROWS])
            sign = -1.0 if number % 2 and not memory.independent else 1.0
            own = {n: sign * t if n.endswith(UP) else t for n, t in old.tensors.items()} | key_of(
                data, memory.base, False
            )
            kept = newest.tensors | {n: own[n] for n in KEYS}
            entries.append(replace(old, name=name, tensors=own if number + 1 < count else kept))
        model.memory = DomainMemory(entries, memory.base, memory.read)
    state = replace(
        state,
        model=model,
        history=history,
        calibration=replace(
            state.calibration,
            domains={n: replace(state.calibration.domains[a], stage=i) for i, n in enumerate(names, 1)},
        ),
        reference=replace(state.reference, domains=dict.fromkeys(names, state.reference.domains[b])),
    )
    return Learner(two.config, state, two.device)


def seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def taking_turns(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            taken[name].append(seconds(call))
    return {name: round(median(found), 5) for name, found in taken.items()}


def measure(way: str, parts: Sequence[Domain], keys: Sequence[Example], rounds: int) -> dict[str, Any]:
    method, options = WAYS[way]
    training = replace(FINE_TUNING, epochs=1)
    two = Learner.create(method, encoder="minilm", training=training, options=options, device="cpu")
    for part in parts[:2]:
        two.adapt(part)
    learners = {str(count): with_domains(two, count, keys) for count in COUNTS}
    found: dict[str, Any] = {"read": {}}
    mixed = [replace(one, label=None) for one in keys[::KEY_ROWS][:TEXTS_AT_ONCE]]
    one_domain = [mixed[0]] * TEXTS_AT_ONCE
    readings = ["always", "mean"] if two.state.memory is not None and not two.state.memory.independent else [None]
    for read in readings:
        for kind, texts in (("mixed", mixed), ("one domain", one_domain)):
            for learner in learners.values():
                if (memory := learner.state.memory) is not None:
                    entries = [replace(one, carried=1.0) for one in memory.entries()]
                    learner.classifier().memory = DomainMemory(entries, memory.base, read or memory.read)
            case = ", ".join(filter(None, (read, kind)))
            calls = {name: partial(learner.predict, texts) for name, learner in learners.items()}
            found[f"first batch, {case}"] = taking_turns(calls, 1)
            found[f"predict, {case}"] = taking_turns(calls, rounds)
            for name, learner in learners.items():
                if (memory := learner.state.memory) is not None:
                    chosen = memory.scores(learner.encode(texts, labeled=False)).argmax(-1)
                    found["read"].setdefault(case, {})[name] = len(chosen.unique())
            print(way, case, found[f"predict, {case}"], found["read"].get(case), flush=True)
    costs: dict[str, dict[str, float]] = {name: {} for name in ("learn", "save", "load", "written", "linked")}
    for name, learner in learners.items():
        with TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            learner.save(folder)
            costs["load"][name] = median(seconds(partial(Learner.load, folder, "cpu")) for _ in range(3))
            costs["learn"][name] = seconds(partial(learner.adapt, parts[2]))
            costs["save"][name] = seconds(partial(learner.save, folder))
            version = folder / "versions" / "0002"
            sizes = {True: 0, False: 0}
            for file in version.iterdir():
                sizes[file.stat().st_nlink > 1] += file.stat().st_size
            costs["written"][name], costs["linked"][name] = sizes[False], sizes[True]
        print(way, name, {cost: values[name] for cost, values in costs.items()}, flush=True)
    found |= costs
    ratios = {
        name: round(values[str(COUNTS[-1])] / values["1"], 2)
        for name, values in found.items()
        if name not in ("read", "linked")
    }
    return {**found, "100 domains / 1 domain": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the sentiment corpus: memgrow data where sentiment")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    stream = open_corpus(given.data).stream
    domains = [stream[n] for n in (1, 2, 3)]
    parts = [
        Domain(one.name, *(tuple(rows[:: len(rows) // ROWS][:ROWS]) for rows in (one.train, one.validation)))
        for one in domains
    ]
    rows = stream[0].train
    keys = rows[:: len(rows) // (COUNTS[-1] * KEY_ROWS)][: COUNTS[-1] * KEY_ROWS]
    for way in given.ways:
        found = measure(way, parts, keys, given.rounds)
        if given.out:
            earlier = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
            about = {"command": recorded_command(__file__, earlier=earlier.get("command")), "texts": TEXTS_AT_ONCE}
            about |= {"threads": 1, "rows": ROWS, "bfloat16": multiplies_bfloat16("cpu")}
            atomic_write(given.out, pack_json({**about, "ways": {**earlier.get("ways", {}), way: found}}))


if __name__ == "__main__":
    main()
