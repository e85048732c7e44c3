"""What turns a column's states into words. The newest head answers."""

from torch import nn

from memgrow.models.responder.output import Output
from memgrow.models.responder.reading import Reading
from memgrow.nn import Growth
from memgrow.nn.growth import Layout


class Head(nn.Module):
    """Attention to the message, the joining layer, and the output layer.

    The joint vector has `hidden` numbers; in a tied model as many as a word's vector, whatever grows.
    """

    def __init__(self, encoded: int, decoded: int, hidden: int, words: int, tied: int | None) -> None:
        super().__init__()
        size = hidden if tied is None else tied
        self.reading = Reading(encoded, decoded, size)
        self.output = Output(size, words, tied is not None)

    def plan(self, growth: Growth, encoded: Layout, decoded: Layout, hidden: int) -> None:
        """Make wider states part of a larger growth."""
        units = hidden if self.output.weight is not None else 0
        self.reading.plan(growth, encoded, decoded, units)
        self.output.plan_units(growth, units)
