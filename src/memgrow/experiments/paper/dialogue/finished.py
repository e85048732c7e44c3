"""What the records of a row's runs say, seed by seed."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from memgrow.experiments.paper.dialogue.measures import loss
from memgrow.experiments.paper.protocol import Protocol
from memgrow.experiments.paper.rows import Results, Row
from memgrow.experiments.paper.sheet import summary
from memgrow.experiments.reply_records import ReplyRecord
from memgrow.experiments.run import Record

Tried = Mapping[int, Mapping[str, ReplyRecord]]
"""By seed and domain."""


def walks(row: Row, protocol: Protocol, results: Results, seeds: int) -> dict[int, Sequence[Record]]:
    """The stages of each seed whose run has succeeded."""
    runs = results.get(row.on(protocol), {})
    asked = {seed: row.run(protocol, seed) for seed in range(seeds)}
    return {seed: runs[run] for seed, run in asked.items() if run in runs}


def tried(walked: Mapping[int, Sequence[Record]], part: str) -> Tried:
    """As the models are at the end."""
    return {seed: walk[-1].replies[part] for seed, walk in walked.items()}


def costs(walked: Mapping[int, Sequence[Record]]) -> dict[str, Any]:
    """Parameters at the end, and what all stages of a run took."""
    sizes = [walk[-1].stage.parameters for walk in walked.values()]
    return {
        "parameters": round(fmean(sizes)) if sizes else None,
        "epochs": summary([float(sum(record.stage.epochs for record in walk)) for walk in walked.values()]),
        "seconds": summary([sum(record.stage.seconds for record in walk) for walk in walked.values()]),
    }


def losses(given: Tried, domain: str) -> list[float | None]:
    """Nats to a token, by seed."""
    return [loss(by_domain[domain]) for by_domain in given.values()]
