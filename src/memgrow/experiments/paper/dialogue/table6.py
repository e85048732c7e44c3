"""Table 6: what the proposed method replies to messages of both domains, chosen by rule and not by hand."""

from dataclasses import asdict
from typing import Any

from memgrow.experiments.paper.dialogue.finished import walks
from memgrow.experiments.paper.dialogue.protocol import PAIR
from memgrow.experiments.paper.protocol import PROPOSED, Protocol
from memgrow.experiments.paper.rows import Results, Row

NOTES = (
    f"Replies by {PROPOSED}, seed 0, once it has learnt both domains, to test messages at even distances from the "
    "first on. A message is given by its number in the test part, from 0, and the start of its SHA-256: its text "
    "stays with the corpus.",
)


def rows(protocol: Protocol) -> list[Row]:
    return [Row(PROPOSED, PROPOSED, PAIR)]


def make(protocol: Protocol, results: Results, seeds: int) -> dict[str, Any]:
    (row,) = rows(protocol)
    walked = walks(row, protocol, results, seeds).get(0)
    said = {name: walked[-1].replies["test"][name].scores for name in PAIR} if walked else {}
    samples = [
        {"domain": name, **asdict(sample)} for name, some in said.items() if some is not None for sample in some.samples
    ]
    return {"samples": samples, "notes": list(NOTES)}
