"""The evaluation of one model with other weights than its own."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

from memgrow.data.batches import Encoded
from memgrow.methods.plugin import Parameters
from memgrow.models import Model, Tally


@contextmanager
def with_weights(model: Model, weights: Parameters) -> Iterator[None]:
    """Within, these weights, by name, stand in the place of the model's own."""
    own = dict(model.named_parameters())
    other = [(own[name], weight) for name, weight in weights.items() if weight is not own[name]]
    held = [parameter.detach().clone() for parameter, _ in other]
    with torch.no_grad():
        for parameter, weight in other:
            parameter.copy_(weight)
    try:
        yield
    finally:
        with torch.no_grad():
            for (parameter, _), before in zip(other, held, strict=True):
                parameter.copy_(before)


def tally_each(model: Model, data: Encoded, variants: Iterable[Parameters]) -> list[Tally]:
    """The model's answers with each of some weights in turn; those that are not named are its own."""
    tallies = []
    for weights in variants:
        with with_weights(model, weights):
            tallies.append(model.tally(data))
    return tallies
