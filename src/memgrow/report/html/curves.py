"""Curves as inline SVG: each domain's score over the stages, the chosen method beside what it is measured by."""

from collections.abc import Sequence

from memgrow.evaluation.history import AccuracyMatrix
from memgrow.report.html.axes import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axes
from memgrow.report.html.element import Html, element
from memgrow.report.lines import Line, stage_marks
from memgrow.report.measures import Measure

LETTERS = 8  # of a stage's name below its axis


def axes_of(lines: Sequence[Line], domains: Sequence[str], measure: Measure, stages: int) -> Axes:
    """The same axes for all panels, so that domains can be compared."""
    scores = [
        score + sign * (line.spread or {}).get((stage, name), 0.0)
        for line in lines
        for name in domains
        for stage, score in line.points(name, stages)
        for sign in (1, -1)
    ]
    return Axes.over(stages, [measure.figure(score) for score in scores], measure.better == "lower")


def panel(
    domain: str, lines: Sequence[Line], axes: Axes, measure: Measure, matrix: AccuracyMatrix, learned: int | None
) -> Html:
    """The curves of one domain. Before it was learnt, lines are thin and points hollow."""
    parts: list[Html] = [*axes.grid(), *_axis_names(axes, measure, matrix)]
    if learned is not None and axes.stages > 1 and learned > 0:
        x = axes.x(learned)
        parts.append(element("line", x1=x, x2=x, y1=float(TOP), y2=float(HEIGHT - BOTTOM), class_="learnt"))
    for line in reversed(lines):  # the first is on top
        parts += _curve(line, domain, axes, measure, learned)
    label = f"{measure.axis} on {domain} after each stage"
    drawing = element("svg", element("title", label), *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img")
    return element("figure", element("figcaption", element("b", domain)), drawing, class_="panel")


def _axis_names(axes: Axes, measure: Measure, matrix: AccuracyMatrix) -> list[Html]:
    marks, below = stage_marks(matrix, LETTERS)
    parts = [element("text", measure.axis, x=4.0, y=14.0, class_="axis")]
    for stage, short in marks.items():
        name = element("title", "+".join(matrix.rows[stage].learned))
        at = {"x": axes.x(stage), "y": float(HEIGHT - BOTTOM + 16)}
        parts.append(element("text", short, name, **at, class_="tick middle"))
    return [
        *parts,
        element("text", below, x=float((LEFT + WIDTH - RIGHT) / 2), y=float(HEIGHT - 8), class_="axis middle"),
    ]


def _curve(line: Line, domain: str, axes: Axes, measure: Measure, learned: int | None) -> list[Html]:
    points = line.points(domain, axes.stages)
    if not points:
        return []
    level = len(line.matrix.rows) == 1 and axes.stages > 1
    after = points if learned is None or level else [point for point in points if point[0] >= learned]
    before = [] if after is points else [point for point in points if learned is not None and point[0] <= learned]
    parts = [_band(line, domain, points, axes, measure)] if line.spread and not level else []
    for some, kind in ((before, "before"), (after, "")):
        if len(some) > 1:
            path = " ".join(f"{axes.x(stage):.1f},{axes.y(measure.figure(score)):.1f}" for stage, score in some)
            parts.append(element("polyline", points=path, class_=f"curve {line.kind} {kind}".rstrip()))
    for stage, score in points if not level else ():
        hollow = " hollow" if learned is None or stage < learned else ""
        title = element("title", f"{line.name} after stage {stage + 1}: {measure.shown(score)}")
        parts.append(
            _mark(line.kind, axes.x(stage), axes.y(measure.figure(score)), f"point {line.kind}{hollow}", title)
        )
    return parts


def _mark(kind: str, x: float, y: float, looks: str, title: Html) -> Html:
    """A round point for the method in question, a square one for others: not by colour alone."""
    if kind == "own":
        return element("circle", title, cx=x, cy=y, r=4.0, class_=looks)
    return element("rect", title, x=x - 3.5, y=y - 3.5, width=7.0, height=7.0, class_=looks)


def _band(line: Line, domain: str, points: Sequence[tuple[int, float]], axes: Axes, measure: Measure) -> Html:
    """One standard deviation over seeds on either side."""
    spread = line.spread or {}
    sides = [[], []]  # type: list[list[str]]
    for stage, score in points:
        away = spread.get((stage, domain), 0.0)
        for side, sign in zip(sides, (1, -1), strict=True):
            side.append(f"{axes.x(stage):.1f},{axes.y(measure.figure(max(score + sign * away, 1e-12))):.1f}")
    return element("polygon", points=" ".join([*sides[0], *reversed(sides[1])]), class_=f"band {line.kind}")


def curve_legend(lines: Sequence[Line], spread: bool) -> Html:
    keys = [
        element(
            "span",
            element("svg", *_sample(line), viewBox="0 0 34 12", class_="sample", aria_hidden="true"),
            " ",
            line.name,
            class_="nowrap key",
        )
        for line in lines
    ]
    notes = ["hollow: before the domain was learnt"] + (["band: ± one standard deviation over seeds"] if spread else [])
    return element("p", *keys, *(element("span", note, class_="nowrap key") for note in notes), class_="legend")


def _sample(line: Line) -> list[Html]:
    stroke = element("polyline", points="1,6 33,6", class_=f"curve {line.kind}")
    if len(line.matrix.rows) == 1 and line.kind == "all":
        return [stroke]
    return [stroke, _mark(line.kind, 17.0, 6.0, f"point {line.kind}", element("title", line.name))]
