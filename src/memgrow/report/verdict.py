"""The verdict of a report: what the new domain brought, and what it cost the old ones, a sentence each."""

from collections.abc import Mapping
from statistics import fmean, geometric_mean

from memgrow.errors import counted, listed
from memgrow.evaluation.history import AccuracyMatrix
from memgrow.report.measures import Measure
from memgrow.report.table import percent


def gain_and_cost(matrix: AccuracyMatrix, measure: Measure) -> tuple[str, str]:
    """Two sentences about the stage that was learnt last."""
    if not matrix.rows:
        return "Nothing has been learnt yet.", "So there is nothing to lose."
    return _gain(matrix, measure), _cost(matrix, measure)


def _gain(matrix: AccuracyMatrix, measure: Measure) -> str:
    new = matrix.rows[-1].learned
    known = [score for name in new if (score := matrix.score(-1, name)) is not None]
    if not known:
        return f"{listed(new)} was learnt last, and not tested."
    if len(new) > 1:
        average = measure.shown(measure.mean(known))
        return f"{listed(new)} were learnt together, and end at a mean {measure.name} of {average}."
    before = _before(matrix, new[0])
    now = measure.shown(known[0])
    if before is None:
        return f"{new[0]} was learnt, and ends at {_a(measure)} of {now}."
    went = "took" if known[0] > before else "brought nothing, and took"
    by = _by(measure, before, known[0])
    return f"Learning {new[0]} {went} its {measure.name} from {measure.shown(before)} to {now}{by}."


def _cost(matrix: AccuracyMatrix, measure: Measure) -> str:
    new = matrix.rows[-1].learned
    earlier = [name for name in matrix.learned_at() if name not in new]
    if not earlier:
        return "No domain was learnt before, so it cost none."
    pairs = {
        name: (before, now)
        for name in earlier
        if (before := _before(matrix, name)) is not None and (now := matrix.score(-1, name)) is not None
    }
    if not pairs:
        return (
            "What it cost the earlier domains is not known, as they were not tested after it (--watch FILE tests them)."
        )
    costs = {name: lost for name, pair in pairs.items() if (lost := measure.lost(*pair)) is not None}
    if not costs:
        return "What it cost the earlier domains cannot be said: their perplexity was infinite before."
    what = "the earlier domain" if len(earlier) == 1 else f"the {len(costs):,} earlier domains"
    if len(costs) < len(earlier):
        which = "were tested again" if len(costs) == len(pairs) else "can be compared"
        what = f"the {len(costs)} of {counted(len(earlier), 'earlier domain')} that {which}"
    worst = max(costs, key=lambda name: costs[name])
    moved = f"{worst} {measure.shown(pairs[worst][0])} → {measure.shown(pairs[worst][1])}"
    most = moved if len(costs) == 1 else f"most of all {moved}"
    if measure.better == "lower":
        times = geometric_mean(costs.values())
        if times > 1:
            return f"It raised the perplexity of {what} × {times:.2f} on the mean ({most})."
        though = _though(costs, moved, 1)
        return f"It cost {what} nothing: perplexity is × {times:.2f} of what it was before{though}."
    lost = round(fmean(costs.values()), 6) + 0.0
    if lost > 0:
        return f"It cost {what} {_points(lost, measure)}{' on the mean' if len(costs) > 1 else ''} ({most})."
    gained = f"they gained {_points(abs(lost), measure)} on the mean" if len(costs) > 1 else moved
    return f"It cost {what} nothing: {gained}{_though(costs, moved, 0)}."


def _though(costs: Mapping[str, float], moved: str, nothing: float) -> str:
    """A mean hides who lost."""
    lost = sum(cost > nothing for cost in costs.values())
    if not lost:
        return ""
    return f", though one lost ({moved})" if lost == 1 else f", though {lost:,} lost (most of all {moved})"


def _before(matrix: AccuracyMatrix, domain: str) -> float | None:
    """The last score of a domain before the last stage."""
    known = [score for row in matrix.rows[:-1] if (score := row.scores.get(domain)) is not None]
    return known[-1] if known else None


def _points(share: float, measure: Measure) -> str:
    digits = 1 if measure.name == "accuracy" else 2
    return f"{percent(share, digits=digits)} points"


def _by(measure: Measure, before: float, now: float) -> str:
    return f", {_points(abs(now - before), measure)}" if measure.better == "higher" else ""


def _a(measure: Measure) -> str:
    return f"an {measure.name}" if measure.name[0] in "aeiou" else f"a {measure.name}"
