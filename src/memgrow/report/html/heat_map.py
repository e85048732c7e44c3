"""Heat maps as tables: they can be read aloud, searched and copied, and fit a telephone."""

from collections.abc import Iterable, Sequence

from memgrow.evaluation.attention import MemoryUse
from memgrow.evaluation.history import AccuracyMatrix
from memgrow.report.html.element import Html, element, joined
from memgrow.report.measures import Measure, Scale
from memgrow.report.table import UNKNOWN, percent

STEPS = 9  # colours: h0 to h8 in style.css
MANY, CROWDED, PRINTED = 6, 10, 15  # columns beyond which they are narrower on paper, narrower still, and do not fit


def fits_on_paper(columns: int) -> bool:
    """Whether a printed page has room for a map of so many columns."""
    return columns <= PRINTED


def matrix_scale(matrices: Iterable[AccuracyMatrix], measure: Measure) -> Scale:
    """One scale for several matrices, over the scores of domains that had been learnt."""
    return Scale.over(measure, [score for matrix in matrices for score in _learnt_scores(matrix)])


def _learnt_scores(matrix: AccuracyMatrix) -> list[float]:
    learned = matrix.learned_at()
    return [
        score
        for stage, row in enumerate(matrix.rows)
        for name, score in row.scores.items()
        if stage >= learned.get(name, len(matrix.rows))
    ]


def matrix_map(matrix: AccuracyMatrix, scale: Scale, caption: str, wide: bool = False) -> Html:
    """Stages down, domains across; what was not learnt yet stands apart, as in the paper's Table 3."""
    domains, learned = matrix.domains, matrix.learned_at()
    rows = []
    for stage, row in enumerate(matrix.rows):
        names = "+".join(row.learned)
        cells = [_score_cell(matrix, scale, stage, name, learned.get(name, len(matrix.rows))) for name in domains]
        head = element("th", element("b", f"{stage + 1}"), " ", names, scope="row", title=names)
        rows.append(element("tr", head, *cells))
    return _map(caption, "after learning", f"{scale.measure.axis}, on", domains, rows, wide)


def _score_cell(matrix: AccuracyMatrix, scale: Scale, stage: int, domain: str, learned: int) -> Html:
    score = matrix.score(stage, domain)
    if score is None:
        return element("td", UNKNOWN, class_="none", title=f"{domain}: not tested after stage {stage + 1}")
    kind = f"h{scale.step(score, STEPS)}" if stage >= learned else "zero"
    when = "" if stage >= learned else ", before it was learnt"
    title = f"{domain} after stage {stage + 1}{when}: {scale.measure.shown(score)}"
    return element("td", _bare(scale, score), class_=f"{kind} new" if stage == learned else kind, title=title)


def _bare(scale: Scale, score: float) -> str:
    """A figure without its unit, which the axis has."""
    return scale.measure.shown(score).removesuffix("%")


def matrix_legend(scale: Scale) -> Html:
    """Which colour is better, and what the other marks mean."""
    swatches = (element("i", class_=f"swatch h{step}") for step in range(STEPS))
    return element(
        "p",
        element("span", "worse ", _bare(scale, scale.worst), class_="nowrap"),
        element("span", *swatches, class_="swatches", aria_hidden="true"),
        element("span", _bare(scale, scale.best), " better", class_="nowrap"),
        element("span", element("i", class_="swatch new"), " just learnt", class_="nowrap key"),
        element("span", element("i", class_="swatch zero"), " not learnt yet (zero-shot)", class_="nowrap key"),
        element("span", f"{UNKNOWN} not tested", class_="nowrap key"),
        class_="legend",
    )


def attention_map(memory: MemoryUse) -> Html:
    """Whose texts down, whose slots across; the last row is what they would get if all slots were read alike."""
    owners, even, most = list(memory.slots), memory.even, memory.darkest
    rows = [
        element(
            "tr",
            element("th", domain, element("small", f" {memory.texts[domain]:,} texts"), scope="row"),
            *(_share_cell(shares[owner], most, f"texts of {domain}, slots of {owner}") for owner in owners),
        )
        for domain, shares in memory.shares.items()
    ]
    if not memory.apart:
        cells = [element("td", percent(even[owner]), class_="zero") for owner in owners]
        rows.append(element("tr", element("th", "an even share", scope="row"), *cells, class_="apart"))
    caption = "Attention of a domain's texts, % " + ("of what its slots could get" if memory.apart else "of all")
    return _map(caption, "texts of", "slots of", owners, rows)


def _share_cell(share: float, most: float, what: str) -> Html:
    step = min(STEPS - 1, int(STEPS * share / most))
    return element("td", percent(share), class_=f"h{step}", title=f"{what}: {percent(share)}%")


def _map(caption: str, down: str, across: str, names: Sequence[str], rows: Sequence[Html], wide: bool = True) -> Html:
    head = joined(
        element(
            "tr",
            element("th", down, scope="col", rowspan="2", class_="axis"),
            element("th", across, scope="colgroup", colspan=str(len(names)), class_="axis across"),
        ),
        element("tr", *(element("th", name, scope="col", title=name) for name in names)),
    )
    kinds = {"wide": wide, "many": len(names) > MANY, "crowded": len(names) > CROWDED}
    table = element(
        "table",
        element("caption", caption),
        element("thead", head),
        element("tbody", *rows),
        class_=" ".join(["map", *(kind for kind, holds in kinds.items() if holds)]),
    )
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)
