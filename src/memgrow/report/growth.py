"""What a stage added to a model, in words."""

from memgrow.methods import Grew

NAMES = {"slots": "slot", "hidden": "hidden unit", "words": "word", "columns": "column"}


def counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def growth(grew: Grew) -> str:
    # A new model is a column itself: that goes without saying.
    added = {what: count for what, count in vars(grew).items() if count and not (what == "columns" and grew.hidden)}
    return ", ".join(counted(count, NAMES[what]) for what, count in added.items()) or "nothing"
