"""Train streams and keep every domain's weights, to compare ways of reading them.

    python -m research.memory.study --data DATA --encoder minilm --out FOLDER [--workers 12] [--seconds 540]

DATA has the folders sentiment, reviews, intents, topics and multinli. A run is a stream, a method and a seed. It writes
one .npz file: for each domain's test examples the label, and the logits of the last model and of each domain's weights;
and one .json file with the accuracies, by rank, of entries that are approximated.
"""

import argparse
import copy
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from memgrow import Learner
from memgrow.data import Domain, Stream
from memgrow.data.batches import Encoded
from memgrow.methods import METHODS
from memgrow.methods.base import FinishedDomain, Method, Trainable, everything
from memgrow.methods.registry import MethodSpec, find_method
from memgrow.models import Classifier, Model, PretrainedEncoder
from memgrow.models.router import features, gaussian_key
from research.common.pool import Job, file_of, run_jobs
from research.memory.streams import STREAMS, stream_of

RANKS = (8, 16, 32)
MOST_LABELS = 8  # logits of more labels are not kept, only the best label


class FixedTable(Method):
    """The word table of the encoder does not train."""

    def start_domain(self, old: Model | None, model: Model, data: Encoded) -> Trainable:
        table = cast(PretrainedEncoder, model.encoder).word_table
        names = {name for name, parameter in model.named_parameters() if parameter is table}
        return Trainable({name: rows for name, rows in everything(model).rows_from.items() if name not in names})


class Projected(FixedTable):
    """After a domain, the difference of each matrix to the pretrained one is cut to a rank."""

    rank: ClassVar[int] = 16

    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        encoder = cast(PretrainedEncoder, domain.model.encoder)
        base = PretrainedEncoder.create(encoder.settings, encoder.files).to(domain.device).state_dict()
        state = encoder.state_dict()
        encoder.load_state_dict(truncated(state, base, self.rank))
        return {}


def register() -> None:
    """The methods that are only of this study."""
    default = find_method("finetune+ema")
    for name, part in (("fixed-table", FixedTable), ("projected", Projected)):
        METHODS[name] = MethodSpec(name, name, parts=(*default.parts, part))


@torch.no_grad()
def truncated(state: Mapping[str, Tensor], base: Mapping[str, Tensor], rank: int) -> dict[str, Tensor]:
    """Weights whose differences to `base` are of that rank; smaller parameters as they are."""
    found = dict(state)
    for name, tensor in state.items():
        known = base.get(name)
        if (
            known is None
            or known.shape != tensor.shape
            or tensor.dim() != 2
            or rank * sum(tensor.shape) >= tensor.numel()
        ):
            continue
        if len(tensor) > 20_000:  # the word table
            found[name] = known
            continue
        u, s, v = torch.linalg.svd((tensor - known).float(), full_matrices=False)
        found[name] = known + (u[:, :rank] * s[:rank]) @ v[:rank]
    return found


def share(values: Tensor, labels: Sequence[int]) -> float:
    return round(100 * float((values == torch.tensor(list(labels))).double().mean()), 2)


def padded(logits: Tensor, own: Tensor, labels: int) -> Tensor:
    """Logits over all labels, of which a domain has only its own."""
    found = (logits[:, own].amin(1, keepdim=True) - 10).repeat(1, labels)
    found[:, own] = logits[:, own]
    return found


def with_weights(model: Classifier, state: Mapping[str, Tensor]) -> Classifier:
    new = copy.deepcopy(model)
    new.load_state_dict(dict(state))
    return new


def train(stream: Stream, method: str, seed: int, encoder: str, device: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The record and the arrays of one run."""
    learner = Learner.create(method, encoder=encoder, seed=seed, device=device)
    if method == "rehearsal":
        learner.use(method, replace(learner.options, rehearse=100))
    models: list[Classifier] = []
    before: list[float | None] = []
    after: list[float] = []
    began = time.monotonic()
    domains = [stream[-1]] if learner.method.joint else list(stream)
    for domain in domains:
        known = [one for one in domain.validation if one.label in (learner.labels or ())]
        before.append(float(np.mean(learner.correct(domain, "validation"))) if learner.model and known else None)
        plain = Domain(domain.name, domain.train, domain.validation)
        learner.adapt(plain, earlier=list(stream)[:-1] if learner.method.joint else (), threads=1)
        after.append(float(np.mean(learner.correct(domain, "validation"))))
        models.append(copy.deepcopy(learner.classifier()))
    seconds = time.monotonic() - began
    record: dict[str, Any] = {"before": before, "after": after, "seconds": round(seconds, 1)}
    model = learner.classifier()
    tests = [learner.split(domain, "test") for domain in stream]
    last = [model.plain_logits(data) for data in tests]
    record["last"] = [share(one.argmax(1), data.labels) for one, data in zip(last, tests, strict=True)]
    arrays: dict[str, Any] = {}
    if learner.method.joint or method in ("rehearsal", "ridge"):
        return record, arrays
    labels = list(learner.labels or ())
    own = [torch.tensor(sorted(labels.index(label) for label in domain.labels)) for domain in stream]
    entries = [
        [padded(one.plain_logits(data), mine, model.labels) for one, mine in zip(models, own, strict=True)]
        for data in tests
    ]
    told = [
        share(row[number].argmax(1), data.labels) for number, (row, data) in enumerate(zip(entries, tests, strict=True))
    ]
    record["told"] = told
    pretrained = cast(PretrainedEncoder, model.encoder)
    base = PretrainedEncoder.create(pretrained.settings, pretrained.files).to(model.device).eval()
    record |= by_rank(models, tests, own, base)
    scores = routed(learner, stream, tests, base)
    for number, (data, row, score) in enumerate(zip(tests, entries, scores, strict=True)):
        arrays[f"labels{number}"] = np.array(data.labels, np.int16)
        arrays[f"router{number}"] = score.numpy().astype(np.float16)
        if model.labels <= MOST_LABELS:
            arrays[f"last{number}"] = last[number].numpy().astype(np.float16)
            arrays[f"entries{number}"] = torch.stack(row, 1).numpy().astype(np.float16)
        else:
            chosen = torch.stack(row, 1)[torch.arange(len(score)), score.argmax(1)].softmax(1)
            p = last[number].softmax(1)
            arrays[f"half{number}"] = ((chosen + p) / 2).argmax(1).numpy().astype(np.int16)
            arrays[f"last{number}"] = last[number].argmax(1).numpy().astype(np.int16)
            arrays[f"entries{number}"] = torch.stack(row, 1).argmax(2).numpy().astype(np.int16)
    return record, arrays


def by_rank(
    models: list[Classifier], tests: list[Encoded], own: list[Tensor], base: PretrainedEncoder
) -> dict[str, Any]:
    """Accuracy of each domain's weights on its test, cut to a rank: from the pretrained ones, or from the next ones."""
    found: dict[str, Any] = {}
    pretrained = {f"encoder.{name}": tensor for name, tensor in base.state_dict().items()}
    size = models[-1].labels
    for rank in RANKS:
        scores, chain = [], []
        for model, data, mine in zip(models, tests, own, strict=True):
            cut = with_weights(model, truncated(model.state_dict(), pretrained, rank))
            scores.append(share(padded(cut.plain_logits(data), mine, size).argmax(1), data.labels))
        found[f"base {rank}"] = scores
    state = models[-1].state_dict()
    for model, data, mine in reversed(list(zip(models, tests, own, strict=True))):
        state = truncated(model.state_dict(), state, RANKS[0])
        cut = with_weights(model, state)
        chain.append(share(padded(cut.plain_logits(data), mine, size).argmax(1), data.labels))
    found[f"chain {RANKS[0]}"] = chain[::-1]
    return found


def routed(learner: Learner, stream: Stream, tests: list[Encoded], base: PretrainedEncoder) -> list[Tensor]:
    """Log-probabilities of domains for each test text, by the router of the domain memory."""
    from memgrow.models.domain_memory import LABELS, DomainMemory, Entry

    entries = []
    for domain in stream:
        data = learner.split(domain, "train")
        key = gaussian_key(data, features(base, data))
        tensors = {LABELS: torch.tensor(sorted(set(data.labels))), **key}
        entries.append(Entry(domain.name, (), {}, False, tensors))
    memory = DomainMemory(entries, base, "always")
    return [memory.scores(data) for data in tests]


# Many runs


def jobs() -> Iterator[Job]:
    """Runs, those that matter most first."""
    every = [name for name in STREAMS if name != "intents-10"]
    for seed in range(3):
        yield from ((name, "finetune+ema", seed) for name in every)
        yield from ((name, "multi-task", seed) for name in every if name[-2:] not in ("-2", "-3"))
    for seed in range(3):
        yield from ((name, "finetune", seed) for name in every)
    choosing = ("six-reviews", "banking", "mixed-reviews", "topics")
    for seed in range(3):
        for method in ("projected", "fixed-table", "in-domain", "lora"):
            yield from ((name, method, seed) for name in choosing)
    for seed in range(3):
        yield "intents-10", "finetune+ema", seed
        yield "intents-10", "multi-task", seed
        yield "intents", "rehearsal", seed
        yield "intents-10", "finetune", seed
        yield "banking", "rehearsal", seed
    for seed in range(3, 5):
        yield from ((name, "finetune+ema", seed) for name in every)
        yield from ((name, "multi-task", seed) for name in every if name[-2:] not in ("-2", "-3"))


def do(job: Job, given: argparse.Namespace) -> None:
    register()
    name, method, seed = job
    stream = stream_of(name, given.data, seed)
    record, arrays = train(stream, method, seed, given.encoder, given.device)
    record = {"stream": name, "method": method, "seed": seed, "domains": list(stream.names), **record}
    record["validation"] = [len(domain.validation) for domain in stream]
    file_of(given.out, job, ".json").write_text(json.dumps(record) + "\n", encoding="utf-8")
    if arrays:
        np.savez_compressed(file_of(given.out, job, ".npz"), **arrays)
    print(*job, record["last"], record.get("told"), record["seconds"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.memory.study", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no run after so many")
    parser.add_argument("--only", default="", help="runs whose name holds this text")
    given = parser.parse_args()
    chosen = [job for job in jobs() if given.only in ".".join(map(str, job))]
    run_jobs(do, chosen, given.workers, given.seconds, given)


if __name__ == "__main__":
    main()
