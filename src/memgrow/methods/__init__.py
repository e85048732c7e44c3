"""The methods by which a model learns a new domain: their table, what grows, what trains, and the plugins."""

from memgrow.methods.growth import Grew, check_method, grow_for
from memgrow.methods.plugin import Evaluate, MethodSettings, OptimiserState, Plugin
from memgrow.methods.plugins import Plugins
from memgrow.methods.table import (
    LETTERS,
    METHODS,
    RECOMMENDED,
    RECOMMENDED_FOR_ENCODERS,
    RECOMMENDED_FOR_REPLIES,
    Method,
    find_method,
)
from memgrow.methods.trains import Trains

Past = Plugin  # its name in 0.1.0

__all__ = [
    "LETTERS",
    "METHODS",
    "RECOMMENDED",
    "RECOMMENDED_FOR_ENCODERS",
    "RECOMMENDED_FOR_REPLIES",
    "Evaluate",
    "Grew",
    "Method",
    "MethodSettings",
    "OptimiserState",
    "Past",
    "Plugin",
    "Plugins",
    "Trains",
    "check_method",
    "find_method",
    "grow_for",
]
