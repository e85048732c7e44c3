"""What a model knows, as names and values."""

from typing import Any

from memgrow.learner import Learner
from memgrow.nn import count_parameters


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
        "slots of each domain, in each bank": slots,
        "banks": sum(len(column.banks) for column in model.encoder.columns if column.slots),
        "words": len(learner.vocabulary) - 2,
        "hidden units": [column.hidden_size for column in model.encoder.columns],
        "parameters": count_parameters(model),
    }
