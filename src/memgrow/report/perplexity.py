"""Perplexities as people read them."""

WIDE, HUGE = 100, 1e6  # from these on without a fraction, and as a power of ten: a failed run's may have any size


def perplexity_text(value: float) -> str:
    return f"{value:.2f}" if value < WIDE else f"{value:,.0f}" if value < HUGE else f"{value:.1e}"
