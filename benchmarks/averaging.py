"""How far back towards the old weights, and by which rule? What may better `keep: auto`, on pairs of sentiment domains.

    python benchmarks/averaging.py --out results/averaging.json

A small model learns one domain and then another by F+V. From the weights before and after, each rule makes weights of
its own by the new domain's validation part alone; they are tried on the test parts of both domains. For every ordered
pair of the stream's domains; a seed's figure is the mean over the pairs. These test parts are of a stream for choosing.
"""

import argparse
import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import permutations
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from memgrow.methods.old_weights import SHARES, TOLERANCE, Figure, choose_share, go_back

from memgrow import Learner
from memgrow.data import Domain, Stream
from memgrow.data.corpora import open_corpus
from memgrow.metrics.significance import paired_over_seeds
from memgrow.storage import atomic_write, finite, pack_json
from recorded_command import recorded_command

PARTS = {"words": "encoder.embedding", "recurrence": "encoder.columns", "head": "heads"}
HELD_OUT = 500  # examples for validation, and for test, of a domain at most
Shares = Mapping[str, float]
"""How much of the old weights each part of the model takes."""


class Mixer:
    """A learner whose weights are any mixture of those before and after a domain, and what validation says of it."""

    def __init__(self, old: Learner, new: Learner, domain: Domain) -> None:
        assert old.model is not None
        assert new.model is not None
        self.learner, self.domain = copy.deepcopy(new), domain
        assert self.learner.model is not None
        self.before, self.after, self.now = (
            {name: parameter.detach() for name, parameter in model.named_parameters()}
            for model in (old.model, new.model, self.learner.model)
        )

    def mix(self, shares: Shares) -> Learner:
        for name, weight in self.now.items():
            weight.copy_(self.after[name])
        for part, share in shares.items():
            go_back({name: w for name, w in self.before.items() if name.startswith(PARTS[part])}, self.now, share)
        return self.learner

    def validate(self, shares: Shares) -> dict[str, Figure]:
        """Accuracy and mean log-probability of the right label, each with its standard error."""
        right = [one.label for one in self.domain.validation]
        answers = self.mix(shares).predict(self.domain.validation)
        hits = [float(one.label == label) for one, label in zip(answers, right, strict=True)]
        logs = [math.log(max(one.probabilities[label], 1e-9)) for one, label in zip(answers, right, strict=True)]
        return {name: _figure(values) for name, values in (("accuracy", hits), ("loss", logs))}


def _figure(values: Sequence[float]) -> Figure:
    mean = fmean(values)
    return Figure(mean, math.sqrt(fmean((one - mean) ** 2 for one in values) / len(values)))


def alike(share: float) -> Shares:
    return dict.fromkeys(PARTS, share)


def part_by_part(mixer: Mixer, start: float) -> Shares:
    """From one share for all, each part in turn goes back as far as validation allows while the others stay."""
    shares = dict(alike(start))
    for part in PARTS:
        tried = {share: mixer.validate({**shares, part: share})["accuracy"] for share in SHARES[::4]}
        shares[part] = choose_share(tried)
    return shares


def rules(mixer: Mixer) -> dict[str, Shares]:
    """What each rule takes."""
    tried = {share: mixer.validate(alike(share)) for share in SHARES[::2]}

    def auto(what: str, errors: float) -> float:
        return choose_share({share: one[what] for share, one in tried.items()}, errors)

    usual = auto("accuracy", TOLERANCE)
    return {
        "nothing": alike(0.0),
        "half": alike(0.5),
        "auto": alike(usual),
        "auto, a quarter of an error": alike(auto("accuracy", 0.25)),
        "auto, one error": alike(auto("accuracy", 1.0)),
        "auto, by loss": alike(auto("loss", TOLERANCE)),
        "auto, part by part": part_by_part(mixer, usual),
    }


def measure(first: Learner, old: Domain, new: Domain) -> dict[str, float]:
    """By rule, the mean test accuracy on both domains."""
    found = {}
    for method, also in (("F+V", ""), ("F+V+E", ", of E")):
        second = copy.deepcopy(first)
        second.use(method)
        second.adapt(new)
        mixer = Mixer(first, second, new)
        chosen = rules(mixer)
        if also:  # E alone, and E and A together
            chosen = {name: chosen[name] for name in ("nothing", "auto")}
        for name, shares in chosen.items():
            found[name + also] = fmean(mixer.mix(shares).evaluate([old, new]).values())
    return found


def learn_pairs(stream: Stream, seed: int) -> dict[str, float]:
    found: list[dict[str, float]] = []
    first: dict[str, Learner] = {}
    for old, new in permutations(stream, 2):
        if old.name not in first:
            first[old.name] = Learner.create("F+V", seed=seed, device="cpu")
            first[old.name].adapt(old)
        found.append(measure(first[old.name], old, new))
        print(f"seed {seed}, {old.name} then {new.name}", flush=True)
    return {name: fmean(one[name] for one in found) for name in found[0]}


def compared(each: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """The average of each rule over the seeds, and against `auto`, seed by seed."""
    ends = {name: [found[name] for found in each] for name in each[0]}
    rows = {
        name: {"average": fmean(some), "against_auto": asdict(paired_over_seeds(some, ends["auto"]))}
        for name, some in ends.items()
    }
    for name, row in rows.items():
        print(f"{name}: {100 * row['average']:.1f}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=800, help="training examples of each domain")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    whole = open_corpus("sentiment", limit=asked.limit).stream
    stream = Stream([replace(one, validation=one.validation[:HELD_OUT], test=one.test[:HELD_OUT]) for one in whole])
    about = {
        "limit": asked.limit,
        "domains": list(stream.names),
        "command": recorded_command(__file__),
    }
    each: list[dict[str, float]] = []
    for seed in range(asked.seeds):
        each.append(learn_pairs(stream, seed))
        if seed:  # one seed has no interval
            atomic_write(asked.out, pack_json(finite({**about, "seeds": seed + 1, "rows": compared(each)})))


if __name__ == "__main__":
    main()
