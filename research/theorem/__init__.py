"""Theorem 1 of the paper in numbers: what new slots and new hidden units do to the states of a model."""
