"""A domain from what is known of it: held-out rows are halved, and the parts that nobody gave are drawn."""

from collections.abc import Sequence

from memgrow.data.domain import Domain
from memgrow.data.pools import HELD_OUT, Pool
from memgrow.data.records import Record
from memgrow.data.splits import PARTS, draw, fair_slice

SHARE = 0.1  # of the rows for training, for each part that has to be drawn from them


def complete(
    name: str, pool: Pool, group: str | None = None, limit: int | None = None, seed: int = 0
) -> tuple[Domain, tuple[str, ...]]:
    """The domain in three parts, each of at most `limit` examples, and what its user should know of the drawing."""
    parts = {part: list(pool.records[part]) for part in PARTS}
    notices = []
    by = f"by group {group}" if group else "by text"
    if pool.records[HELD_OUT]:
        halves = _draw(pool.records[HELD_OUT], {"validation": 0.5, "test": 0.5}, seed)
        for part, records in halves.items():
            parts[part] += records
        notices.append(f"validation and test are each half of {_list(pool.files[HELD_OUT])}, drawn {by}")
    missing = [part for part in PARTS if not parts[part] and part != "train"]
    if parts["train"] and missing:
        shares = {"train": 1 - SHARE * len(missing)} | dict.fromkeys(missing, SHARE)
        parts |= _draw(parts["train"], shares, seed)
        drawn = " and ".join(f"{part} ({SHARE:.0%})" for part in missing)
        were = "were" if len(missing) > 1 else "was"
        notices.append(f"{drawn} {were} drawn from {_list(pool.files['train'])} {by}")
        empty = [part for part in missing if not parts[part]]
        if empty:
            notices.append(
                f"{name} has no {' and no '.join(empty)} part, as there are too few different rows to draw from"
            )
    kept = {part: fair_slice([record.example for record in records], limit, seed) for part, records in parts.items()}
    return Domain(name, **kept), tuple(notices)


def _draw(records: Sequence[Record], shares: dict[str, float], seed: int) -> dict[str, list[Record]]:
    drawn = draw(records, [record.group for record in records], shares, seed)
    return {part: list(members) for part, members in drawn.items()}


def _list(files: Sequence[str]) -> str:
    return " and ".join(files)
