"""The accuracy matrix and what follows from it."""

from memgrow.metrics.matrix import AccuracyMatrix, Row

__all__ = ["AccuracyMatrix", "Row"]
