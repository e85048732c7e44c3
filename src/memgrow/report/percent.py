"""Shares as people read them."""

UNKNOWN = "·"


def percent(value: float | None, sign: bool = False, digits: int = 1) -> str:
    return UNKNOWN if value is None else f"{100 * value:{'+' if sign else ''}.{digits}f}"
