"""Methods side by side: a table in which every seed is a dot on a line, the mean a stroke."""

from memgrow.evaluation.comparison import Comparison, OverSeeds, sees_old_data
from memgrow.report.comparison import difference, digits, marked
from memgrow.report.html.element import Html, element
from memgrow.report.measures import Measure
from memgrow.report.table import MISSING, percent, perplexity_text

WIDTH, HEIGHT, INSET = 150, 22, 6
PANELS = ("average", "forgetting")
DIGITS = 2  # of an end of a strip in percent, at most
NEAREST = 2e-4  # of two ends, whose texts then differ


def methods_table(comparison: Comparison, measure: Measure, chosen: str) -> Html:
    """Average, forgetting, parameters and time of each method; those that need old data stand below a line."""
    ranges = {name: _range(comparison, name) for name in PANELS}
    replies = comparison.kind.is_dialogue
    unit = "" if replies else ", %"
    head = [
        element("th", "method", scope="col"),
        element("th", f"average {measure.name} at the end{unit}", _axis(ranges["average"]), scope="col"),
        element("th", measure.lost_name, _axis(ranges["forgetting"]), scope="col"),
        element("th", "against F, points", scope="col", class_="number"),
        *([element("th", "perplexity", scope="col", class_="number")] if replies else []),
        element("th", "parameters", scope="col", class_="number"),
        element("th", "time, s", scope="col", class_="number"),
    ]
    rows: list[Html] = []
    before = False
    for method in comparison.order:
        apart, before = sees_old_data(method) and not before and bool(rows), sees_old_data(method)
        looks = " ".join(kind for kind, on in (("chosen", method == chosen), ("line", apart)) if on)
        rows.append(element("tr", *_cells(comparison, method, ranges, replies), class_=looks or None))
    table = element("table", element("thead", element("tr", *head)), element("tbody", *rows), class_="methods")
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label="methods side by side")


def _cells(comparison: Comparison, method: str, ranges: dict[str, tuple[float, float]], replies: bool) -> list[Html]:
    figures, shown = comparison.summary[method], digits(comparison)
    cells = [element("th", marked(method), scope="row")]
    for name in PANELS:
        number = element("span", _with_spread(figures[name], shown), class_="number")
        cells.append(element("td", element("span", _strip(figures[name], ranges[name]), number, class_="seeds")))
    cells.append(element("td", difference(comparison.against(method), shown).replace("·", MISSING), class_="number"))
    if replies:
        cells.append(element("td", perplexity_text(figures["perplexity"].mean or 0.0), class_="number"))
    cells.append(element("td", f"{figures['parameters'].mean:,.0f}", class_="number"))
    cells.append(element("td", f"{figures['seconds'].mean:,.1f}", class_="number"))
    return cells


def _range(comparison: Comparison, name: str) -> tuple[float, float]:
    """From the lowest seed to the highest, and to zero where differences begin."""
    values = [one for figures in comparison.summary.values() for one in figures[name].seeds.values()]
    values += [0.0] if name == "forgetting" else []
    low, high = min(values, default=0.0), max(values, default=1.0)
    return (low, high) if high - low >= NEAREST else (low - 0.01, high + 0.01)


def _strip(figure: OverSeeds, ends: tuple[float, float]) -> Html | None:
    if figure.mean is None:
        return None
    room = WIDTH - 2 * INSET

    def at(value: float) -> float:
        return INSET + room * (value - ends[0]) / (ends[1] - ends[0])

    middle = HEIGHT / 2
    dots = [element("circle", cx=at(value), cy=middle, r=3.5, class_="seed") for value in figure.seeds.values()]
    line = element("line", x1=float(INSET), x2=float(WIDTH - INSET), y1=middle, y2=middle, class_="grid")
    mean = element("line", x1=at(figure.mean), x2=at(figure.mean), y1=3.0, y2=HEIGHT - 3.0, class_="mean")
    return element("svg", line, *dots, mean, viewBox=f"0 0 {WIDTH} {HEIGHT}", class_="strip", aria_hidden="true")


def _axis(ends: tuple[float, float]) -> Html:
    """The ends of a strip, with as few digits as tell them apart."""
    texts = [[percent(end, digits=digits) for end in ends] for digits in range(DIGITS + 1)]
    low, high = next((pair for pair in texts if pair[0] != pair[1]), texts[-1])
    return element("span", element("span", low), element("span", high), class_="ends", aria_hidden="true")


def _with_spread(figure: OverSeeds, shown: int) -> str:
    if figure.mean is None:
        return MISSING
    mean = percent(round(figure.mean, shown + 2) + 0.0, digits=shown)  # no minus before a zero
    return mean if figure.spread is None else f"{mean} ± {percent(figure.spread, digits=shown)}"
