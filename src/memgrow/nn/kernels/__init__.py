"""The recurrence, in several ways behind one function."""

from memgrow.nn.kernels.naive import CELLS, Memory, State, Weights, attend, recur

__all__ = ["CELLS", "Memory", "State", "Weights", "attend", "recur"]
