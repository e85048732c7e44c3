"""What a model knows, as names and values."""

from typing import Any

from rich.table import Table
from rich.text import Text

from memgrow.learner import Learner
from memgrow.nn import MemoryBank, count_parameters


def about(learner: Learner) -> dict[str, Any]:
    model = learner.trained()
    newest = model.encoder.newest
    slots: dict[str, int] = {}
    for segment in newest.banks[0].segments:
        slots[segment.domain] = slots.get(segment.domain, 0) + segment.stop - segment.start
    return {
        "task": learner.task,
        "labels": list(learner.labels or ()),
        "method": learner.method.name,
        "domains": list(learner.history.domains),
        "slots_in_each_bank": slots,
        "banks": sum(isinstance(part, MemoryBank) and len(part) > 0 for part in model.modules()),
        "words": len(learner.vocabulary) - 2,
        "hidden_units": [column.hidden_size for column in model.encoder.columns],
        "parameters": count_parameters(model),
    }


def about_table(learner: Learner) -> Table:
    """The same for the terminal."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in about(learner).items():
        table.add_row(name.replace("_", " "), Text(_in_words(value)))
    return table


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_in_words(part)}" for name, part in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_in_words, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
