"""Methods: how a model learns a new domain. `base` has the contract, `registry` the names, one file each method."""

from memgrow.methods.base import CombinedMethod, FinishedDomain, Method, Trainable
from memgrow.methods.registry import (
    ADDITIONS,
    METHODS,
    RECOMMENDED,
    RECOMMENDED_FOR_CAUSAL,
    RECOMMENDED_FOR_ENCODERS,
    RECOMMENDED_FOR_REPLIES,
    MethodSettings,
    MethodSpec,
    find_method,
)

__all__ = [
    "ADDITIONS",
    "METHODS",
    "RECOMMENDED",
    "RECOMMENDED_FOR_CAUSAL",
    "RECOMMENDED_FOR_ENCODERS",
    "RECOMMENDED_FOR_REPLIES",
    "CombinedMethod",
    "FinishedDomain",
    "Method",
    "MethodSettings",
    "MethodSpec",
    "Trainable",
    "find_method",
]
