"""Tables and sentences of a comparison of methods."""

from memgrow.errors import counted
from memgrow.evaluation.baselines import REFERENCES
from memgrow.evaluation.comparison import BASELINE, RETRAINING, Comparison, OverSeeds, keeps_rows, sees_old_data
from memgrow.evaluation.metrics import NO_SPREAD, Paired
from memgrow.evaluation.tables import UNKNOWN, Column, Table, numbers, percent, perplexity_text

CLEAR, KEEPS = "*", "†"


def marked(name: str) -> str:
    """The name of a method, marked if it keeps rows of earlier domains."""
    return f"{name} {KEEPS}" if keeps_rows(name) else name


def over_seeds(value: OverSeeds, shown: int = 1) -> str:
    return UNKNOWN if value.mean is None else percent(value.mean, digits=shown) + _spread(value.spread, shown)


def difference(paired: Paired | None, shown: int = 1) -> str:
    """The mean difference and its spread, marked where its 95% interval excludes zero."""
    if paired is None:
        return UNKNOWN
    mean = percent(paired.difference, sign=True, digits=shown)
    return mean + _spread(paired.std, shown) + (CLEAR if _is_clear(paired) else "")


def compared_table(comparison: Comparison, seeds: int) -> Table:
    """One row per method, mean and spread over the seeds; methods that see old data below a line."""
    shown, replies = comparison.measure.digits, comparison.kind == "bleu2"
    rows = []
    for method in comparison.order:
        values = comparison.summary[method]
        row = [marked(method), over_seeds(values["average"], shown), difference(comparison.against(method), shown)]
        row.append(over_seeds(values["forgetting"], shown))
        row += [perplexity_text(values["perplexity"].mean or 0.0)] if replies else []
        rows.append([*row, f"{values['parameters'].mean:,.0f}", f"{values['seconds'].mean:,.0f} s"])
    names = ("average", f"vs. {BASELINE}", "forgot", *(["perpl."] if replies else []), "parameters", "time")
    incremental = sum(not sees_old_data(method) for method in comparison.order)
    return Table(
        f"at the end, {comparison.measure.axis}, {counted(seeds, 'seed')}",
        [Column("method", wrap=False), *numbers(*names)],
        rows,
        lines_above=[incremental] if 0 < incremental < len(rows) else (),
    )


def ends_table(comparison: Comparison) -> Table:
    """The final score of each method on each domain, their average, and what was forgotten."""
    ends = {method: comparison.mean_matrix(method) for method in comparison.results}
    names = next(iter(ends.values())).domains
    rows = []
    for method, matrix in ends.items():
        scores, figures = [percent(matrix.score(-1, name)) for name in names], comparison.summary[method]
        rows.append((marked(method), *scores, over_seeds(figures["average"]), over_seeds(figures["forgetting"])))
    columns = [Column("method", wrap=False), *numbers(*names, "average", "forgot")]
    return Table("test accuracy at the end, %", columns, rows)


def ends_sentence(comparison: Comparison) -> str:
    """The three figures of fine-tuning, the best method that sees no old data, and retraining on everything."""
    best = next((one for one in comparison.order if not sees_old_data(one) and one != BASELINE), None)
    called = {BASELINE: "Fine-tuning", **({best: best} if best else {}), RETRAINING: "retraining on everything"}
    ends = [
        f"{called[name]} ends at {over_seeds(comparison.summary[name]['average'])}%"
        for name in called
        if name in comparison.results
    ]
    kept = ", with rows of old data kept" if best and keeps_rows(best) else "; rows of old data kept: 0"
    return f"{', '.join(ends)}{kept}."


def domains_table(comparison: Comparison) -> Table:
    """The final score of each method on each domain."""
    ends = {method: comparison.mean_matrix(method) for method in comparison.order}
    rows = [
        (domain, *(percent(matrix.score(-1, domain), digits=comparison.measure.digits) for matrix in ends.values()))
        for domain in next(iter(ends.values())).domains
    ]
    columns: list[str | Column] = ["domain", *(Column(marked(name), right=True) for name in ends)]
    return Table(f"each domain at the end, {comparison.measure.axis}", columns, rows)


def verdict(comparison: Comparison) -> str:
    """The best method that sees no old data, against fine-tuning and retraining."""
    best = next((name for name in comparison.order if not sees_old_data(name)), "")
    rivals = {BASELINE: "fine-tuning", RETRAINING: "retraining on everything"}
    paired = {rivals[name]: one for name in rivals if (one := comparison.against(best, name)) is not None}
    if not paired:
        return ""
    against = [f"{difference(one, comparison.measure.digits)} points against {name}" for name, one in paired.items()]
    doubt = " One seed: another may differ." if any(one.std is None for one in paired.values()) else ""
    return f"Without old data, {best} ends best: {' and '.join(against)}.{doubt}"


def legend(comparison: Comparison, seeds: int) -> str:
    parts = ["± is the standard deviation over seeds; differences are paired by seed"] if seeds > 1 else []
    pairs = [paired for name in comparison.order if (paired := comparison.against(name)) is not None]
    if any(map(_is_clear, pairs)):
        parts.append(f"{CLEAR}: the 95% interval of the difference excludes zero")
    if any(paired.low is None and (paired.std or 0.0) > NO_SPREAD for paired in pairs):
        parts.append("95% intervals need scipy (pip install 'memgrow[stats]')")
    if any(map(keeps_rows, comparison.results)):
        parts.append(f"{KEEPS}: keeps rows of earlier domains as text in the model's folder")
    references = [f"{name} ({one.about})" for name, one in REFERENCES.items() if name in comparison.results]
    parts += [f"by scikit-learn: {' and '.join(references)}"] if references else []
    if comparison.kind == "bleu2":
        parts.append("perpl.: geometric mean; do not compare methods with and without new words by it")
    return "; ".join(parts)


def _is_clear(paired: Paired) -> bool:
    return paired.low is not None and paired.high is not None and not paired.low <= 0 <= paired.high


def _spread(value: float | None, shown: int) -> str:
    return "" if value is None else f" ± {percent(value, digits=shown)}"
