"""How a model meets a new domain."""

from memgrow.methods.arrival import Grew, grow_for
from memgrow.methods.past import MethodSettings, Past
from memgrow.methods.table import METHODS, Method, find_method
from memgrow.methods.trains import Trains

__all__ = ["METHODS", "Grew", "Method", "MethodSettings", "Past", "Trains", "find_method", "grow_for"]
