"""Student's t: the interval and the p-value of an estimate, from its standard error and degrees of freedom."""

from memgrow.errors import SettingsError

CONFIDENCE = 0.95
NO_SPREAD = 1e-12  # below this a standard error is rounding; accuracies are at most 100


def interval(estimate: float, error: float | None, freedom: float) -> tuple[float | None, float | None]:
    """The 95% interval; none where nothing varies, for then there is nothing to judge by."""
    if error is None or error <= NO_SPREAD:
        return None, None
    half = _quantile(freedom, (1 + CONFIDENCE) / 2) * error
    return estimate - half, estimate + half


def two_sided(estimate: float, error: float | None, freedom: float) -> float | None:
    """The p-value of "the truth is zero": 1 where every difference is zero, none where nothing else can be said."""
    if error is None:
        return None
    if error <= NO_SPREAD:
        return 1.0 if abs(estimate) <= NO_SPREAD else None
    return min(1.0, 2 * _below(freedom, -abs(estimate) / error))


def _below(freedom: float, t: float) -> float:
    try:
        from scipy.special import stdtr
    except ImportError as error:
        raise _missing() from error
    return float(stdtr(freedom, t))


def _quantile(freedom: float, share: float) -> float:
    try:
        from scipy.special import stdtrit
    except ImportError as error:
        raise _missing() from error
    return float(stdtrit(freedom, share))


def _missing() -> SettingsError:
    return SettingsError("intervals and p-values need scipy: install it with `pip install 'memgrow[stats]'`")
