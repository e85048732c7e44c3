"""How a model meets a new domain."""

from memgrow.methods.growth import Grew, check_growth, grow_for
from memgrow.methods.plugin import MethodSettings, Past, Several
from memgrow.methods.table import LETTERS, METHODS, RECOMMENDED, Method, find_method
from memgrow.methods.trains import Trains

__all__ = [
    "LETTERS",
    "METHODS",
    "RECOMMENDED",
    "Grew",
    "Method",
    "MethodSettings",
    "Past",
    "Several",
    "Trains",
    "check_growth",
    "find_method",
    "grow_for",
]
