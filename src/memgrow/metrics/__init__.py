"""The accuracy matrix and what follows from it."""

from memgrow.metrics.matrix import AccuracyMatrix, Row, perplexity_of

__all__ = ["AccuracyMatrix", "Row", "perplexity_of"]
