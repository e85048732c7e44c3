"""Whether texts are better read in lower case: the sentiment stream, as it is written and in capitals.

    python benchmarks/case.py --out results/case.json

Small models learn the four domains in turn by the default method, with and without `lowercase`. They are tried on the
validation parts after the last domain; test examples are not looked at.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch

from memgrow import Learner
from memgrow.data import Domain, Stream
from memgrow.data.corpora import open_corpus
from memgrow.training.defaults import SMALL
from recorded_command import recorded_command


def in_capitals(domain: Domain) -> Domain:
    return Domain(domain.name, validation=[replace(one, text=one.text.upper()) for one in domain.validation])


def measure(stream: Stream, seed: int, epochs: int, lowercase: bool) -> dict[str, float]:
    """Mean validation accuracy over the domains, and the share of their words that the model does not know."""
    learner = Learner.create(
        model=replace(SMALL.model, lowercase=lowercase),
        training=replace(SMALL.training, epochs=epochs),
        seed=seed,
        device="cpu",
    )
    for domain in stream:
        learner.adapt(replace(domain, test=()))
    figures = {"words": float(len(learner.vocabulary))}
    for written, domains in (("as written", list(stream)), ("in capitals", [in_capitals(one) for one in stream])):
        figures[f"{written}, accuracy"] = fmean(learner.evaluate(domains, "validation").values())
        texts = [one for domain in domains for one in domain.validation]
        figures[f"{written}, unknown words"] = learner.unknown_words(texts)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--limit", type=int, default=1200, help="training examples of each domain")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    stream = open_corpus("sentiment", limit=asked.limit).stream
    found: dict[str, list[dict[str, float]]] = {}
    for lowercase in (False, True):
        name = "in lower case" if lowercase else "with capitals"
        found[name] = [measure(stream, seed, asked.epochs, lowercase) for seed in range(asked.seeds)]
        print(name, found[name], flush=True)
    means = {name: {key: round(fmean(one[key] for one in some), 4) for key in some[0]} for name, some in found.items()}
    about = {"limit": asked.limit, "epochs": asked.epochs, "seeds": asked.seeds, "domains": list(stream.names)}
    command = recorded_command(__file__)
    asked.out.write_text(json.dumps({"command": command, "about": about, "read": means}, indent=1) + "\n")


if __name__ == "__main__":
    main()
