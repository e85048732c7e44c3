"""The study as the released code has it, and frozen+M against F+M: `python -m research.paper.released DATA`.

DATA is a folder with MultiNLI; the genres are fiction, then government. The code (github.com/nabihach/IDA) has a GRU
whose last states are read, 300 slots and then 500, dropout of 0.1, ten epochs, and a softmax before torch's
cross-entropy, which applies another one. The figures of each method are those of the epoch with the best validation
score on the target, or on both genres. Finished runs are kept; the same command goes on.
"""

import argparse
import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow import METHODS, Domain, Learner, MethodSettings, ModelSettings, TrainingSettings
from memgrow.data.batches import Batch, Encoded
from memgrow.methods import Method, MethodSpec
from memgrow.methods.base import Weights
from memgrow.models import Model
from research.common.corpora import limited, open_multinli
from research.paper.protocol import PAIR

RESULTS = Path(__file__).parents[2] / "results" / "paper"
STUDIES = ("twice", "once", "frozen")
ADDED = ("", "+vocab", "+slots", "+slots+vocab")


class Snapshots(Method):
    """Keeps the weights of each epoch, for another choice among them."""

    def start_domain(self, old: Model | None, model: Model, data: Encoded) -> None:
        self.epochs: list[dict[str, Tensor]] = []

    def evaluation_weights(self, model: Model, optimizer: torch.optim.Optimizer) -> Weights:
        self.epochs.append({name: tensor.cpu().clone() for name, tensor in model.state_dict().items()})
        return {}


class SoftmaxTwice(Snapshots):
    """Makes the loss the cross-entropy of the softmax of probabilities."""

    tasks = ("text", "pair")

    def loss(self, model: Model, batch: Batch, logits: Tensor | None) -> Tensor | None:
        assert logits is not None
        return F.cross_entropy(logits.softmax(-1), batch.labels) - F.cross_entropy(logits, batch.labels)


for name, part in {"twice": SoftmaxTwice, "once": Snapshots}.items():
    METHODS[name] = MethodSpec(name, f"fine-tune as released, the softmax {name}", parts=(part,))


def study(name: str, seed: int, given: argparse.Namespace) -> tuple[Learner, list[str]]:
    """A learner that has learned nothing, and the methods by which it goes on."""
    size = given.hidden
    model = ModelSettings(embedding=size, hidden=size, perceptron=size)
    training = TrainingSettings(rate=given.rate, epochs=20)
    first, methods = "finetune", ["frozen+slots", "finetune+slots", "finetune"]
    if name != "frozen":
        first, methods = name, [name + added for added in ADDED]
        model = replace(model, cell="gru", pooling="last", slots=300, dropout=0.1)
        training = replace(training, epochs=10, patience=10)
    options = MethodSettings(slots=500)
    learner = Learner.create(first, model=model, training=training, options=options, seed=seed, device=given.device)
    return learner, methods


def runs(given: argparse.Namespace, known: set[tuple[str, int]]) -> Iterator[dict[str, Any]]:
    source, target = (limited(domain, train=given.pairs) for domain in open_multinli(given.data, PAIR).stream)
    for seed in range(given.seeds):
        for name in given.studies:
            learner, methods = study(name, seed, given)
            wanted = [method for method in methods if (method, seed) not in known]
            if wanted:
                learner.adapt(source, vectors=given.vectors)
            for method in wanted:
                twin = copy.deepcopy(learner)
                twin.use(method)
                stage = twin.adapt(target)
                about = {"study": name, "method": method, "seed": seed}
                about["source before"] = percent(learner.evaluate(source)[source.name])
                yield {**about, "selection": "target", "epoch": stage.best_epoch, **scores(twin, source, target)}
                if name != "frozen":
                    best = select_on_both(twin, [source, target])
                    yield {**about, "selection": "both", "epoch": best, **scores(twin, source, target)}


def select_on_both(learner: Learner, genres: list[Domain]) -> int:
    """Give the learner the weights of the epoch that is best on the validation parts of both genres."""
    model, (part, *_) = learner.trained(), learner.state.method_state.parts
    assert isinstance(part, Snapshots)
    found = []
    for weights in part.epochs:
        model.load_state_dict(weights)
        found.append(sum(learner.evaluate(genres, "validation").values()))
    best = max(range(len(found)), key=found.__getitem__)
    model.load_state_dict(part.epochs[best])
    return best + 1


def scores(learner: Learner, source: Domain, target: Domain) -> dict[str, float]:
    found = learner.evaluate([source, target])
    return {"source": percent(found[source.name]), "target": percent(found[target.name])}


def percent(share: float) -> float:
    return round(100 * share, 2)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.paper.released", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--studies", nargs="+", choices=STUDIES, default=STUDIES)
    parser.add_argument("--pairs", type=int, help="training pairs of each genre; default: all")
    parser.add_argument("--hidden", type=int, default=300)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--vectors", type=Path, help="word vectors")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=RESULTS / "released.json")
    given = parser.parse_args()
    value: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {"runs": []}
    settings = f"--pairs {given.pairs} --hidden {given.hidden} --rate {given.rate:g}" if given.pairs else ""
    value["command"] = f"python -m research.paper.released DATA {settings}".strip()
    known = {(one["method"], one["seed"]) for one in value["runs"]}
    for one in runs(given, known):
        value["runs"].append(one)
        print(one, flush=True)
        given.out.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
