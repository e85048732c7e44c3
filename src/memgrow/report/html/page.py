"""The page of a report: what is decided by comes first, how it came about last."""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

from memgrow.errors import counted
from memgrow.evaluation.comparison import keeps_rows, sees_old_data
from memgrow.evaluation.history import AccuracyMatrix
from memgrow.report.comparison import legend, marked, verdict
from memgrow.report.html.curves import axes_of, curve_legend, panel
from memgrow.report.html.element import Html, element
from memgrow.report.html.heat_map import MANY, fits_on_paper, matrix_legend, matrix_map, matrix_scale
from memgrow.report.html.model_sections import (
    calibration_section,
    memory_section,
    settings_section,
    stages_section,
    tested_section,
)
from memgrow.report.html.parts import on_paper, section, table_html
from memgrow.report.html.strips import methods_table
from memgrow.report.html.training import training_section
from memgrow.report.lines import report_lines, shown_domains, tested_domains
from memgrow.report.matrix import is_readable
from memgrow.report.measures import Scale
from memgrow.report.run_report import RunReport
from memgrow.report.table import MISSING, Table, numbers
from memgrow.report.verdict import gain_and_cost

GENERATOR = "memgrow report"
POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # nothing is fetched and nothing is run, whatever is in a name


def render(report: RunReport, now: datetime | None = None) -> str:
    """The report as one HTML file; `now` is when it was made."""
    made = (now or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC")
    path = " → ".join("+".join(row.learned) for row in report.matrix.rows)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=GENERATOR),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("title", f"{path} · {report.method} · memgrow report"),
        element("style", Html(_style())),
    )
    sections = (part(report) for part in SECTIONS)
    body = element("body", element("main", _top(report, path), *sections, _foot(made)))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


@cache
def _style() -> str:
    return files("memgrow.report.html").joinpath("style.css").read_text(encoding="utf-8")


# The top: what was asked


def _top(report: RunReport, path: str) -> Html:
    gain, cost = gain_and_cost(report.matrix, report.measure)
    beside = verdict(report.comparison) if report.comparison is not None and report.measure.better == "higher" else ""
    over = f", mean of {counted(len(report.seeds), 'seed')}" if len(report.seeds) > 1 else ""
    keeps = ", which keeps rows of earlier domains" if keeps_rows(report.method) else ""
    return element(
        "header",
        element("p", "memgrow report", class_="kicker"),
        element("h1", path),
        element("p", f"Method {report.method}{keeps}{over}. {report.name}", class_="soft"),
        element("p", element("span", gain), " ", element("span", cost), class_="verdict"),
        element("p", f"In the comparison: {beside[0].lower()}{beside[1:]}", class_="beside") if beside else None,
        element("dl", *_tiles(report), class_="tiles"),
        *(element("p", f"Not among the figures: {one}", class_="warning") for one in report.failures),
    )


def _tiles(report: RunReport) -> Iterable[Html]:
    measure, matrix = report.measure, report.matrix
    figures = report.comparison.summary.get(report.method) if report.comparison is not None else None
    stages = report.history.stages if report.history is not None else ()
    lost = measure.forgetting(matrix)
    if stages:
        parameters, seconds = float(stages[-1].parameters), sum(stage.seconds for stage in stages)
    elif figures is not None:
        parameters, seconds = figures["parameters"].mean or 0.0, figures["seconds"].mean or 0.0
        lost = figures["forgetting"].mean  # that of the mean matrix is another number
    else:
        parameters = seconds = 0.0
    shown = {
        f"average {measure.name} at the end": measure.shown(measure.average(matrix)),
        measure.lost_name: MISSING if lost is None else measure.lost_text(lost),
        "parameters": f"{parameters:,.0f}",
        "seconds of training": f"{seconds:,.1f}",
    }
    for name, figure in shown.items():
        yield element("div", element("dt", name), element("dd", figure))


# Sections


def _matrix(report: RunReport) -> Html | None:
    if not any(row.scores for row in report.matrix.rows):
        return None
    if not is_readable(report.matrix):
        return section("Every domain", _domains_table(report))
    scale = _scale(report)
    name = report.measure.name
    shown = [
        element("p", "Read down a column: what became of a domain while later ones were learnt.", class_="soft"),
        matrix_map(report.matrix, scale, report.own_name, wide=True),
        matrix_legend(scale),
    ]
    if not fits_on_paper(len(report.matrix.domains)):
        shown = on_paper(shown, _domains_table(report))
    return section(f"{name[0].upper()}{name[1:]} after each stage", *shown)


def _others(report: RunReport) -> dict[str, AccuracyMatrix]:
    """The matrices of all methods but the one that the report is about."""
    comparison = report.comparison
    names = [name for name in comparison.order if name != report.own_name] if comparison is not None else []
    return {name: comparison.mean_matrix(name) for name in names} if comparison is not None else {}


def _scale(report: RunReport) -> Scale:
    """One scale for all matrices of a page, so that they can be compared."""
    return matrix_scale([report.matrix, *_others(report).values()], report.measure)


def _other_matrices(report: RunReport) -> Html | None:
    if not is_readable(report.matrix):
        return None
    others = {name: matrix for name, matrix in _others(report).items() if len(matrix.rows) > 1}
    if not others:
        return None
    scale = _scale(report)
    maps = [matrix_map(matrix, scale, marked(name)) for name, matrix in others.items()]
    columns = len(report.matrix.domains)
    shown = [element("div", *maps, class_="maps" if columns <= MANY else "maps broad"), matrix_legend(scale)]
    if not fits_on_paper(columns):
        shown = on_paper(
            shown, element("p", "They are too wide for paper: the page on a screen has them.", class_="soft")
        )
    return section("The other methods' matrices", *shown)


def _domains_table(report: RunReport) -> Html:
    matrix, measure = report.matrix, report.measure
    rows = []
    for name, stage in matrix.learned_at().items():
        lost = measure.lost_of(matrix, name)
        known = [score for at in range(stage, len(matrix.rows)) if (score := matrix.score(at, name)) is not None]
        figures = (matrix.score(stage, name), max(known, default=None), matrix.score(-1, name))
        rows.append((name, *map(measure.shown, figures), MISSING if lost is None else measure.lost_text(lost)))
    return table_html(Table(None, ["domain", *numbers("when learnt", "best", "at the end", "lost")], rows))


def _curves(report: RunReport) -> Html | None:
    matrix, stages = report.matrix, len(report.matrix.rows)
    lines, shown, learned = report_lines(report), shown_domains(report), matrix.learned_at()
    if stages < 2 or not shown:
        return None
    axes = axes_of(lines, shown, report.measure, stages)
    panels = [panel(name, lines, axes, report.measure, matrix, learned.get(name)) for name in shown]
    tested = len(tested_domains(report))
    some = f"Of {tested} domains, the {len(shown)} that lost most. " if len(shown) < tested else ""
    return section(
        "Each domain over the stages",
        element("p", f"{some}A dotted upright marks the stage in which the domain was learnt.", class_="soft"),
        curve_legend(lines, any(line.spread for line in lines)),
        element("div", *panels, class_="panels"),
    )


def _methods(report: RunReport) -> Html | None:
    if report.comparison is None or len(report.comparison.results) < 2:
        return None
    seeds = max(len(results) for results in report.comparison.results.values())
    apart = any(map(sees_old_data, report.comparison.results))
    below = " Methods below the line see data of earlier domains again." if apart else ""
    return section(
        "Methods side by side",
        methods_table(report.comparison, report.measure, report.method),
        element("p", _sentence(legend(report.comparison, seeds)), class_="soft"),
        element("p", f"A dot is a seed, an upright their mean.{below}", class_="soft"),
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


SECTIONS = (
    _matrix,
    _curves,
    _methods,
    _other_matrices,
    memory_section,
    calibration_section,
    tested_section,
    training_section,
    stages_section,
    settings_section,
)


def _foot(made: str) -> Html:
    said = "It holds figures and names of domains and labels; no text of any data."
    return element("footer", element("p", f"Made by memgrow report on {made}. {said}"))
