"""Shares as people read them."""

UNKNOWN = "·"


def percent(value: float | None, sign: bool = False) -> str:
    if value is None:
        return UNKNOWN
    return f"{100 * value:+.1f}" if sign else f"{100 * value:.1f}"
