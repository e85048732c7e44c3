"""How often the drift monitor is wrong, how soon it notices a new domain, and how far probabilities can be believed.

    python benchmarks/drift.py --out results/drift.json

On the demo's stream and on the sentiment corpus (`memgrow data get sentiment`), each domain in turn is left out and a
small model learns the others. Known texts are test examples of what it has learnt; of the demo they are made anew, by
other seeds. Three questions, each in one run:

- false alarms: windows of known texts, of one domain or of several in random proportions, that are called new;
- noticing: known texts come, until at a random moment a share of them is of the domain that was left out; counted are
  the new texts until the alarm;
- the model's own vectors in the place of random features: windows of the first domain that are called new when it has
  just been learnt, and when the model has learnt one domain more.

Beside that: calibration errors on test examples at the end, at temperature 1 and at the one that was fitted, and how
much of the time of `adapt` goes into what is noted of a domain.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any

import numpy as np
import torch
from memgrow.adaptation import Adaptation

from memgrow.data import Domain, Example, Stream, synthetic_stream
from memgrow.data.batches import collate
from memgrow.data.corpora import open_corpus
from memgrow.evaluation.drift import ALPHA, WINDOW, DomainReference, Window, judge
from memgrow.evaluation.random_features import DIRECTIONS
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from recorded_command import recorded_command

MODEL = ModelSettings(embedding=32, hidden=32, slots=32, perceptron=64)
TRAINING = TrainingSettings(rate=3e-3, epochs=4, patience=2, min_documents=2)
METHOD = "F+M+V"
LIMIT = 1500  # training examples of a domain
SHARES = (1.0, 0.5, 0.2)  # of new texts, once they come
PATIENCE = 3000  # new texts without an alarm after which it counts as not noticed
SEEDS = range(101, 111)  # that make new texts of the demo


def demo() -> tuple[Stream, dict[str, list[Example]]]:
    """The stream, and texts of its domains that are no training or validation examples."""
    stream = synthetic_stream()
    learnt = {one.texts for domain in stream for one in (*domain.train, *domain.validation)}
    fresh = {name: list[Example]() for name in stream.names}
    for seed in SEEDS:
        for domain in synthetic_stream(train=0, validation=0, test=300, seed=seed):
            fresh[domain.name] += [one for one in domain.test if one.texts not in learnt]
    return stream, fresh


def sentiment() -> tuple[Stream, dict[str, list[Example]]]:
    stream = open_corpus("sentiment", limit=LIMIT).stream
    return stream, {domain.name: list(domain.test) for domain in stream}


STREAMS = {"demo": demo, "sentiment": sentiment}


class Timed:
    """Adds up the seconds of what is noted of a domain."""

    def __init__(self) -> None:
        self.seconds, inner = 0.0, Adaptation.described

        def described(adaptation: Adaptation, learnt: Any) -> Any:
            began = time.perf_counter()
            found = inner(adaptation, learnt)
            self.seconds += time.perf_counter() - began
            return found

        Adaptation.described = described  # type: ignore[method-assign]


def learn(domains: Sequence[Domain], seed: int, folder: Path) -> Learner:
    learner = Learner.create(METHOD, model=MODEL, training=TRAINING, seed=seed, device="cpu")
    for domain in domains:
        learner.adapt(domain, folder=folder, keep_versions=5)
    return learner


class Texts:
    """Texts of domains with the model's confidence in each answer, drawn by chance."""

    def __init__(self, learner: Learner, texts: dict[str, list[Example]], rng: random.Random) -> None:
        self.rng, self.by_name = rng, {}
        for name, examples in texts.items():
            answers = learner.predict(examples)
            self.by_name[name] = [(one, answer.confidence) for one, answer in zip(examples, answers, strict=True)]

    def of(self, name: str, count: int) -> list[tuple[Example, float]]:
        return self.rng.sample(self.by_name[name], count)

    def mixed(self, names: Sequence[str], count: int) -> list[tuple[Example, float]]:
        weights = [self.rng.expovariate(1) for _ in names]  # uniform on the simplex, but for a factor
        chosen = self.rng.choices(names, weights, k=count)
        return [text for name in names for text in self.of(name, chosen.count(name))]

    def endless(self, names: Sequence[str]) -> Iterator[tuple[Example, float]]:
        while True:
            yield self.rng.choice(self.by_name[self.rng.choice(names)])


def false_alarms(learner: Learner, texts: Texts, known: Sequence[str], windows: int, size: int) -> dict[str, Any]:
    """Alarms among windows of one domain, and of several; also of each test by itself."""
    found: dict[str, Any] = {}
    for kind in ("one domain", "several"):
        monitor, verdicts = learner.drift_monitor(size, ALPHA), []
        for number in range(windows):
            drawn = texts.of(known[number % len(known)], size) if kind == "one domain" else texts.mixed(known, size)
            verdicts += monitor.add([one for one, _ in drawn], [sure for _, sure in drawn])
        by_test = {name: sum(one.tests[name] <= ALPHA for one in verdicts) for name in verdicts[0].tests}
        found[kind] = {"windows": windows, "alarms": sum(one.p <= ALPHA for one in verdicts), "each alone": by_test}
    return found


def noticing(learner: Learner, texts: Texts, known: Sequence[str], new: str, runs: int) -> dict[str, Any]:
    found = {}
    for share in SHARES:
        counts: list[int | None] = []
        for _ in range(runs):
            monitor, usual = learner.drift_monitor(), texts.endless(known)
            before = [next(usual) for _ in range(texts.rng.randrange(WINDOW))]
            monitor.add([one for one, _ in before], [sure for _, sure in before])
            counts.append(_until_alarm(monitor, texts, usual, new, share))
        noticed = sorted(one for one in counts if one is not None)
        found[f"{share:g}"] = {"runs": runs, "noticed": len(noticed), "texts": noticed}
    return found


def _until_alarm(monitor: Any, texts: Texts, usual: Iterator[Any], new: str, share: float) -> int | None:
    """New texts until the alarm that they raise; None: there was none. They come 10 at a time."""
    strange, count = texts.endless([new]), 0
    while count < PATIENCE * share:
        some = []
        for _ in range(10):
            is_new = texts.rng.random() < share
            count += is_new
            some.append(next(strange) if is_new else next(usual))
        if any(one.p <= ALPHA for one in monitor.add([one for one, _ in some], [sure for _, sure in some])):
            return count
    return None


# The model's own vectors


@torch.no_grad()
def vectors(learner: Learner, examples: Sequence[Example]) -> np.ndarray:
    """What the encoder makes of texts, as one row for each example."""
    model, data = learner.classifier().eval(), learner.encode(examples, labelled=False)
    rows = []
    for start in range(0, len(examples), 100):
        batch = collate(data, list(range(start, min(start + 100, len(examples)))), learner.device)
        rows.append(model.features(model.encoder(batch.words, batch.lengths)))
    return torch.cat(rows).double().numpy()


def waves(rows: np.ndarray, centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Random Fourier features of vectors that have been standardised."""
    directions = np.random.default_rng(0).normal(size=(rows.shape[1], DIRECTIONS)) / rows.shape[1] ** 0.5
    projected = (rows - centre) / scale @ directions
    return np.concatenate((np.cos(projected), np.sin(projected)), axis=1) / DIRECTIONS**0.5


def own_vectors(folder: Path, first: Domain, texts: list[Example], windows: int, rng: random.Random) -> dict[str, Any]:
    """Alarms among windows of the first domain, by the model's own vectors as they were noted when it was learnt."""
    models = [Learner.load(folder, "cpu", version=number) for number in (1, 2)]
    rows = vectors(models[0], first.train[:1000])
    centre, scale = rows.mean(0), rows.std(0) + 1e-9
    features = waves(rows, centre, scale)
    covariance = np.cov(features, rowvar=False)
    spread = [float(np.trace(np.linalg.matrix_power(covariance, power))) for power in (1, 2, 3)]
    noted = DomainReference(1, len(rows), tuple(features.mean(0)), (spread[0], spread[1], spread[2]), None, None)
    found = {"windows": windows}
    for name, model in zip(("when it has just been learnt", "one domain later"), models, strict=True):
        seen = waves(vectors(model, texts), centre, scale)
        alarms = 0
        for _ in range(windows):
            mean = seen[rng.sample(range(len(seen)), WINDOW)].mean(0)
            alarms += judge(Window(WINDOW, mean, None, None), {first.name: noted}).p <= ALPHA
        found[name] = alarms
    return found


def calibration(learner: Learner, domains: Sequence[Domain]) -> list[dict[str, Any]]:
    return [
        {
            "domain": domain.name,
            "newest": number == len(domains) - 1,
            "at temperature 1": learner.reliability(domain, temperature=1.0).ece,
            "calibrated": learner.reliability(domain).ece,
            "temperature": learner.calibration.temperature,
        }
        for number, domain in enumerate(domains)
    ]


def measure(name: str, windows: int, runs: int, timed: Timed) -> dict[str, Any]:
    stream, fresh = STREAMS[name]()
    rng, found = random.Random(0), []
    learning = noting = 0.0
    for number, left_out in enumerate(stream):
        known = [domain for domain in stream if domain is not left_out]
        names = [domain.name for domain in known]
        with tempfile.TemporaryDirectory() as scratch:
            began, before = time.perf_counter(), timed.seconds
            learner = learn(known, number, Path(scratch, "model"))
            learning, noting = learning + time.perf_counter() - began, noting + timed.seconds - before
            new = {left_out.name: list(left_out.train) + fresh[left_out.name]}
            texts = Texts(learner, {**{one: fresh[one] for one in names}, **new}, rng)
            one = {
                "left out": left_out.name,
                "learnt": names,
                "false alarms": false_alarms(learner, texts, names, windows, WINDOW),
                "noticing": noticing(learner, texts, names, left_out.name, runs),
                "own vectors": own_vectors(Path(scratch, "model"), known[0], fresh[names[0]], windows, rng),
                "calibration": calibration(learner, known),
            }
            found.append(one)
        print(json.dumps(one)[:600], flush=True)
    texts_of = {domain.name: len(fresh[domain.name]) for domain in stream}
    return {"rounds": found, "known texts": texts_of, "share of adapt for notes": noting / learning}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--streams", nargs="+", choices=tuple(STREAMS), default=list(STREAMS))
    parser.add_argument("--windows", type=int, default=250, help="of each kind and round")
    parser.add_argument("--runs", type=int, default=40, help="of each share and round")
    given = parser.parse_args()
    torch.set_num_threads(1)
    timed = Timed()
    streams = {name: measure(name, given.windows, given.runs, timed) for name in given.streams}
    for one in streams.values():
        alarms = [kind for part in one["rounds"] for kind in part["false alarms"].values()]
        print(sum(kind["alarms"] for kind in alarms), "false alarms of", sum(kind["windows"] for kind in alarms))
        for share in map("{:g}".format, SHARES):
            counts = [count for part in one["rounds"] for count in part["noticing"][share]["texts"]]
            print(share, "noticed after", quantiles(counts, n=4) if len(counts) > 1 else counts)
        errors = [part for round_ in one["rounds"] for part in round_["calibration"]]
        print({kind: fmean(part[kind] for part in errors) for kind in ("at temperature 1", "calibrated")})
    if given.out:
        settings = {"window": WINDOW, "alpha": ALPHA, "method": METHOD, "limit": LIMIT}
        found = {"command": recorded_command(__file__), **settings, "streams": streams}
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
