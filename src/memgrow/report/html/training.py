"""How each stage was trained, epoch by epoch, as inline SVG: validation, and the loss with an axis of its own."""

from memgrow.evaluation.history import Stage
from memgrow.report.html.axes import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axes
from memgrow.report.html.element import Html, element
from memgrow.report.html.parts import section
from memgrow.report.measures import Measure, validation_axis
from memgrow.report.run_report import RunReport

MOST = 12  # stages that have a panel: the latest
TICKS = 8  # epochs that are numbered, about


def training_section(report: RunReport) -> Html | None:
    """A panel for each stage that was trained; of very many the latest."""
    stages = [] if report.history is None else [one for one in report.history.stages if one.curve.validation]
    if not stages:
        return None
    shown = stages[-MOST:]
    some = f"The latest {MOST} of {len(stages)} stages. " if len(shown) < len(stages) else ""
    return section(
        "Training, epoch by epoch",
        element(
            "p",
            f"{some}Line with points: {validation_axis(report.measure)}; the filled point is the epoch that was kept. "
            "Dashes: the training loss, from its highest to its lowest.",
            class_="soft",
        ),
        element("div", *(training_panel(stage, report.measure) for stage in shown), class_="panels"),
    )


def training_panel(stage: Stage, measure: Measure) -> Html:
    """Validation and loss of one stage by epoch."""
    figures = [measure.figure(score) for score in stage.curve.validation]
    axes = Axes.over(len(figures), figures, measure.better == "lower")
    name = "+".join(stage.learned)
    parts = [*axes.grid(), element("text", validation_axis(measure), x=4.0, y=14.0, class_="axis")]
    for epoch in range(0, len(figures), max(1, round(len(figures) / TICKS))):
        at = {"x": axes.x(epoch), "y": float(HEIGHT - BOTTOM + 16)}
        parts.append(element("text", str(epoch + 1), **at, class_="tick middle"))
    middle = float((LEFT + WIDTH - RIGHT) / 2)
    parts.append(element("text", "epoch", x=middle, y=float(HEIGHT - 8), class_="axis middle"))
    losses = [loss for loss in stage.curve.loss if loss is not None]
    if len(losses) == len(figures) > 1:
        low, high = min(losses), max(losses)
        room = HEIGHT - BOTTOM - TOP
        heights = [TOP + room * (high - loss) / ((high - low) or 1.0) for loss in losses]
        path = " ".join(f"{axes.x(epoch):.1f},{y:.1f}" for epoch, y in enumerate(heights))
        parts.append(element("polyline", points=path, class_="curve fine"))
    if len(figures) > 1:
        path = " ".join(f"{axes.x(epoch):.1f},{axes.y(figure):.1f}" for epoch, figure in enumerate(figures))
        parts.append(element("polyline", points=path, class_="curve own"))
    for epoch, figure in enumerate(figures):
        looks = "point own" if epoch + 1 == stage.best_epoch else "point own hollow"
        title = element("title", f"epoch {epoch + 1}: {measure.shown(stage.curve.validation[epoch])}")
        parts.append(element("circle", title, cx=axes.x(epoch), cy=axes.y(figure), r=3.0, class_=looks))
    fell = f", loss {losses[0]:.3f} → {losses[-1]:.3f}" if losses else ""
    label = element("title", f"{validation_axis(measure)} of {name}, and the loss, by epoch")
    drawing = element("svg", label, *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img")
    return element("figure", element("figcaption", element("b", name), fell), drawing, class_="panel")
