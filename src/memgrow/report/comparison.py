"""Methods side by side in the terminal: one line for each, and in words which one to take."""

from collections.abc import Iterator

from memgrow.errors import counted
from memgrow.evaluation.baselines import REFERENCES
from memgrow.evaluation.comparison import BASELINE, RETRAINING, Comparison, OverSeeds, keeps_rows, sees_old_data
from memgrow.evaluation.significance import NO_SPREAD, Paired
from memgrow.methods import RECOMMENDED
from memgrow.report.table import UNKNOWN, Column, Table, numbers, percent, perplexity_text

CLEAR, KEEPS, PERPLEXITY = "*", "†", "perpl."
FIGURES = ("average", f"against {BASELINE}", "forgot", PERPLEXITY, "parameters", "time")
FINE = 0.1  # averages below this are shown with a further digit, where such are common


def compared_table(comparison: Comparison, seeds: int) -> Table:
    """Mean and spread over the seeds. Methods that need old data stand below a line."""
    shown, replies = digits(comparison), comparison.kind.is_dialogue
    rows = []
    for method in comparison.order:
        values = comparison.summary[method]
        rows.append(
            (
                marked(method),
                _cell(values["average"], shown),
                difference(comparison.against(method), shown),
                _cell(values["forgetting"], shown),
                *([perplexity_text(values["perplexity"].mean or 0.0)] if replies else []),
                f"{values['parameters'].mean:,.0f}",
                f"{values['seconds'].mean:,.0f} s",
            )
        )
    beside = REFERENCES.keys() & comparison.results.keys()
    incremental = sum(not sees_old_data(method) for method in comparison.order)
    return Table(
        f"at the end, {comparison.kind.share}, {counted(seeds, 'seed')}",
        [Column("method", wrap="never"), *numbers(*(name for name in FIGURES if name != PERPLEXITY or replies))],
        rows,
        layout="narrow" if replies or beside else "roomy",  # a column or longer names have to fit into eighty letters
        lines_above=[incremental] if incremental else (),
    )


def demo_table(comparison: Comparison, seeds: int) -> Table:
    """One line for each method, in the order in which they were asked for: mean and, with several seeds, spread."""
    rows = []
    for method, values in comparison.summary.items():
        scores = [_cell(values[name], 1) for name in ("average", "forgetting")]
        rows.append((marked(method), *scores, f"{values['parameters'].mean:,.0f}", f"{values['seconds'].mean:.1f}"))
    names = ("average", "forgot", "parameters", "seconds")
    columns = [Column("method"), *(Column(name, right=True) for name in names)]
    return Table(f"at the end, {counted(seeds, 'seed')}", columns, rows)


def demo_verdict(comparison: Comparison, seeds: int) -> Iterator[str]:
    """What to conclude: of the default against fine-tuning, of the others against the default, and where to go on."""
    if {BASELINE, RECOMMENDED} <= set(comparison.results):
        fine, usual = (comparison.summary[name] for name in (BASELINE, RECOMMENDED))
        end = f"ends {_apart(usual['average'], fine['average'], 'above', 'below')} fine-tuning (F)"
        lost = _apart(fine["forgetting"], usual["forgetting"], "less", "more")
        forgets = f" and forgets {lost}" if lost else ""
        yield f"{RECOMMENDED}, the default, {end}{forgets}; neither has kept any data of earlier domains."
    for name in comparison.results:
        paired = comparison.against(name, RECOMMENDED)
        if name not in (BASELINE, RECOMMENDED) and paired is not None:
            data = ", and keeps rows of earlier domains" if keeps_rows(name) else ""
            yield f"{name} ends {difference(paired)} points against the default{data}."
    doubt = "One seed, on made-up domains" if seeds == 1 else "Made-up domains"
    yield f"{doubt}: that is what a method can do. What it does on yours, memgrow compare FILES... tells."


def _apart(first: OverSeeds, second: OverSeeds, above: str, below: str) -> str:
    """How far the first mean is above or below the second, in words; nothing where one of them is not known."""
    if first.mean is None or second.mean is None:
        return ""
    gap = first.mean - second.mean
    return f"{percent(abs(gap))} points {above if gap >= 0 else below}"


def domains_table(comparison: Comparison) -> Table:
    """The score of each method on each domain when all have been learnt."""
    ends = {method: comparison.mean_matrix(method) for method in comparison.order}
    rows = [
        (domain, *(percent(matrix.score(-1, domain), digits=digits(comparison)) for matrix in ends.values()))
        for domain in next(iter(ends.values())).domains
    ]
    columns = [Column("domain", wrap="letters"), *(Column(marked(name), right=True, wrap="letters") for name in ends)]
    return Table(f"each domain at the end, {comparison.kind.unit}", columns, rows)


def digits(comparison: Comparison) -> int:
    """The number of digits after the point: BLEU-2 of real replies is about one or two of a hundred."""
    averages = [comparison.summary[method]["average"].mean or 0.0 for method in comparison.order]
    return 2 if comparison.kind.is_dialogue and max(averages, default=0.0) < FINE else 1


def difference(paired: Paired | None, shown: int = 1) -> str:
    """The mean difference and its spread; marked where its 95% interval leaves zero out."""
    if paired is None:
        return UNKNOWN
    mean = percent(paired.difference, sign=True, digits=shown)
    return mean + _spread(paired.std, shown) + (CLEAR if _clear(paired) else "")


def verdict(comparison: Comparison) -> str:
    """Names the method which ends best without old data, with a word of doubt where it is one seed's."""
    best, *others = [name for name in comparison.order if not sees_old_data(name)] or [""]
    level = [name for name in others if (paired := comparison.against(best, name)) and _may_be_zero(paired)]
    equal = [name for name in others if (paired := comparison.against(best, name)) and paired.difference == 0]
    beside = f" ({' and '.join(level)} not clearly below)" if level else ""
    beside = f" (and so does {' and '.join(equal)})" if equal else beside
    rivals = {BASELINE: "fine-tuning", RETRAINING: "retraining on everything"}
    paired_with = {name: paired for name in rivals if (paired := comparison.against(best, name)) is not None}
    if not paired_with:
        return ""
    against = [
        f"{difference(paired, digits(comparison))} points against {rivals[name]}"
        for name, paired in paired_with.items()
    ]
    doubt = "" if all(paired.std is not None for paired in paired_with.values()) else " One seed: another may differ."
    return f"Without old data, {best} ends best{beside}: {' and '.join(against)}.{doubt}"


def legend(comparison: Comparison, seeds: int) -> str:
    """The meaning of the signs in the table, as far as there are any."""
    parts = ["± is the standard deviation over seeds; differences are taken seed by seed"] if seeds > 1 else []
    pairs = [paired for name in comparison.order if (paired := comparison.against(name)) is not None]
    if any(map(_clear, pairs)):
        parts.append(f"{CLEAR}: the 95% interval of the difference leaves zero out")
    if any(paired.low is None and (paired.std or 0.0) > NO_SPREAD for paired in pairs):
        parts.append("95% intervals, which tell what is clear, need scipy (pip install 'memgrow[stats]')")
    if any(map(keeps_rows, comparison.results)):
        parts.append(f"{KEEPS}: keeps rows of earlier domains, which a model's folder then holds as text")
    beside = [f"{name} ({one.about})" for name, one in REFERENCES.items() if name in comparison.results]
    parts += [f"by scikit-learn: {' and '.join(beside)}"] if beside else []
    if comparison.kind.is_dialogue:
        parts.append(
            f"{PERPLEXITY}: perplexity of the replies given, the geometric mean over domains; it takes all unknown "
            "words as one, so it does not compare methods with and without new words"
        )
    return "; ".join(parts)


def marked(name: str) -> str:
    """The name of a method, with a mark if it keeps rows of earlier domains."""
    return f"{name} {KEEPS}" if keeps_rows(name) else name


def _clear(paired: Paired) -> bool:
    """Whether the interval of a difference leaves zero out."""
    return paired.low is not None and not _may_be_zero(paired)


def _may_be_zero(paired: Paired) -> bool:
    """Whether the interval has zero in it: where there is none, a difference is neither known to be clear nor not."""
    return paired.low is not None and paired.high is not None and paired.low <= 0 <= paired.high


def _cell(value: OverSeeds, shown: int) -> str:
    return percent(value.mean, digits=shown) + _spread(value.spread, shown)


def _spread(value: float | None, shown: int) -> str:
    return "" if value is None else f" ± {percent(value, digits=shown)}"
