"""Slots that nobody reads are given up, and what that costs is measured on the texts that are at hand."""

import copy
import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import fmean

import torch
from torch import Tensor

from memgrow.data import Domain
from memgrow.data.batches import Encoded, collate
from memgrow.errors import DataError, ModelError, SettingsError, listed
from memgrow.history import Stage
from memgrow.learner import Learner
from memgrow.learnt import Learnt
from memgrow.methods import Grew
from memgrow.models import Classifier, Model
from memgrow.nn import Growth, count_parameters
from memgrow.progress import NoProgress, Progress, Step

METHOD = "prune"  # what the history calls it


@dataclass(frozen=True)
class PrunedDomain:
    """A domain whose texts were at hand: its slots in each bank, and its answers, before and after."""

    slots: int
    slots_left: int
    examples: int
    accuracy: float
    accuracy_left: float
    changed: float  # share of the answers that are another label


@dataclass(frozen=True)
class Pruning:
    """What pruning a model would come to; nothing has changed until a learner takes `learnt`."""

    learnt: Learnt
    domains: Mapping[str, PrunedDomain]
    bytes: int  # of the model's weights
    bytes_left: int

    @property
    def slots(self) -> int:
        """The number of slots of each bank that are given up."""
        return sum(one.slots - one.slots_left for one in self.domains.values())


def plan_pruning(
    learner: Learner, domains: Iterable[Domain], below: float = 0.0, progress: Progress | None = None
) -> Pruning:
    """Find the slots of these domains that their test texts read least, and measure what doing without them costs.

    A slot goes if it gets at most the share `below` of what its segment of slots is read; 0: if it is never read. The
    slots of domains that are not given are left alone: nobody knows who reads them.
    """
    began, tested = time.monotonic(), list(domains)
    learner.refuse_told("pruning")
    model = learner.classifier()
    if not 0 <= below < 1:
        raise SettingsError(f"below is a share of what is read, from 0 up to 1, not {below}")
    names = [domain.name for domain in tested]
    owners = {segment.domain for bank in model.banks[:1] for segment in bank.segments}
    if strange := [name for name in names if name not in owners]:
        raise DataError(
            f"the model has no slots of {listed(strange)}; those of {listed(sorted(owners)) or 'nobody'} are there: "
            "give files, or --by values, that are named like the domains"
        )
    reads = _reads(learner, tested, progress or NoProgress())
    pruned, kept = _without(model, _kept(model, reads, set(names), below))
    plugins = copy.deepcopy(learner.plugins)
    plugins.keep_rows(kept)
    before, after = _answers(learner, tested), _answers(learner, tested, pruned)
    told = {}
    for name in names:
        (was, right), (now, _) = before[name], after[name]
        accuracy, left = (float((answers == right).double().mean()) for answers in (was, now))
        slots, slots_left = (_slots_of(one, name) for one in (model, pruned))
        changed = float((was != now).double().mean())
        told[name] = PrunedDomain(slots, slots_left, len(right), accuracy, left, changed)
    stage = _stage(learner, pruned, told, kept, time.monotonic() - began)
    history = copy.deepcopy(learner.history)
    history.add(stage, {name: one.accuracy_left for name, one in told.items()})
    learnt = replace(learner.learnt, model=pruned, plugins=plugins, history=history)
    return Pruning(learnt, told, *map(_bytes, (model, pruned)))


def _reads(learner: Learner, domains: Sequence[Domain], progress: Progress) -> list[Tensor]:
    """For each bank how often each slot is read, by weight, (N): without and with the texts' domain being told."""
    model = learner.classifier().eval()
    counts = [torch.zeros(len(bank), dtype=torch.float64) for bank in model.banks]
    for number, domain in enumerate(domains):
        if not domain.test:
            raise DataError(f"{domain.name} has no test examples to see what is read by")
        data = learner.encode(domain.test, labelled=False)
        for told in (None, *([domain.name] if domain.name in learner.parts else [])):
            with learner.answering_for(told):
                _count(learner.classifier().eval(), data, counts)
        progress.step(Step("slots that are read", 1, 1, number + 1, len(domains)))
    return counts


@torch.no_grad()
def _count(model: Classifier, data: Encoded, counts: Sequence[Tensor]) -> None:
    for indices in model.in_batches(data):
        batch = collate(data, indices, model.device)
        found = model.encoder.slot_weights(batch.words, batch.lengths)
        if not found:
            raise ModelError("this model's encoder does not tell which slots are read: nothing can be pruned")
        for count, weights in zip(counts, found, strict=True):
            count += weights.double().sum((0, 1)).cpu()


def _kept(model: Classifier, reads: Sequence[Tensor], names: set[str], below: float) -> list[list[Tensor]]:
    """For each bank and segment the slots that stay, numbered within it.

    All banks have segments of one size: where one needs more slots than another, the other keeps its next best.
    """
    kept: list[list[Tensor]] = [[] for _ in model.banks]
    for number, segment in enumerate(model.banks[0].segments):
        parts = [
            count[bank.segments[number].start : bank.segments[number].stop]
            for count, bank in zip(reads, model.banks, strict=True)
        ]
        most = len(parts[0])
        if segment.domain in names:
            wanted = [int((part > below * part.sum()).sum()) for part in parts]
            most = max(1, *wanted)
        for own, part in zip(kept, parts, strict=True):
            own.append(part.argsort(descending=True, stable=True)[:most].sort().values)
    return kept


def _without(model: Classifier, kept: Sequence[Sequence[Tensor]]) -> tuple[Classifier, dict[str, Tensor]]:
    """A copy of the model with these slots alone, and the rows that are left of each parameter, by name."""
    new = copy.deepcopy(model)
    growth = Growth()
    left: dict[str, Tensor] = {}
    for part, some in zip(new.encoder.growing, kept, strict=True):
        name = next(name for name, module in new.named_modules() if module is part)
        left |= {f"{name}.{parameter}": rows for parameter, rows in part.plan_pruning(growth, some).items()}
    growth.commit()
    return new, left


def _answers(
    learner: Learner, domains: Sequence[Domain], model: Classifier | None = None
) -> dict[str, tuple[Tensor, Tensor]]:
    """For each domain the labels, by number, that its test texts are answered with, and the right ones.

    A domain that was imported is told.
    """
    own, found = learner.model, {}
    try:
        learner.model = model or own
        for domain in domains:
            with learner.answering_for(domain.name if _is_apart(learner, domain.name) else None):
                data = learner.encode(domain.test, strange=True)
                found[domain.name] = (learner.classifier().logits(data).argmax(-1), torch.tensor(data.labels))
        return found
    finally:
        learner.model = own


def _is_apart(learner: Learner, name: str) -> bool:
    """Whether a domain was imported, so that it answers only where it is told."""
    return any("imported" in stage.note and name in stage.learned for stage in learner.history.stages)


def _stage(
    learner: Learner, pruned: Model, told: Mapping[str, PrunedDomain], kept: Mapping[str, Tensor], seconds: float
) -> Stage:
    digest = hashlib.sha256("".join(stage.fingerprint for stage in learner.history.stages).encode())
    for name, rows in sorted(kept.items()):
        digest.update(f"{name} {rows.tolist()}".encode())
    return Stage(
        learned=tuple(told),
        method=METHOD,
        grew=Grew(),
        parameters=count_parameters(pruned),
        examples=sum(one.examples for one in told.values()),
        epochs=0,
        best_epoch=0,
        validation=fmean(one.accuracy_left for one in told.values()),
        seconds=round(seconds, 3),
        fingerprint=digest.hexdigest(),
        note={
            "slots": {name: one.slots for name, one in told.items()},
            "slots_left": {n: told[n].slots_left for n in told},
        },
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _slots_of(model: Model, domain: str) -> int:
    return sum(segment.stop - segment.start for segment in model.banks[0].segments if segment.domain == domain)


def _bytes(model: Model) -> int:
    return sum(tensor.nbytes for tensor in model.state_dict().values())
