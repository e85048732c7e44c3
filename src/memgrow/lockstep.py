"""The former place of `adapt_together`, now in `memgrow.training.stacked`; kept for code written for 0.1.0."""

from memgrow.training.stacked.together import adapt_together, correct_together

__all__ = ["adapt_together", "correct_together"]
