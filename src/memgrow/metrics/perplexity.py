"""Perplexity: among how many words a model is in doubt, on average, at each word of a reply."""

import numpy as np
from numpy.typing import ArrayLike

from memgrow.errors import DataError


def perplexity(losses: ArrayLike, tokens: ArrayLike) -> float:
    """From the summed negative log-likelihood (in nats) and the count of tokens, of all replies or of each.

    The mark that ends a reply is a token like any other. Beyond what a float holds it is infinite.
    """
    loss, count = float(np.sum(losses, dtype=np.float64)), float(np.sum(tokens, dtype=np.float64))
    if np.shape(losses) != np.shape(tokens) or count <= 0 or not loss >= 0:
        raise DataError(
            f"no perplexity follows from a loss of {loss:g} over {count:g} tokens; give losses of 0 or more, "
            "with as many counts, of at least one token"
        )
    with np.errstate(over="ignore"):
        return float(np.exp(loss / count))
