"""The page of a report: what is decided by comes first, how it came about last."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

from memgrow.errors import counted
from memgrow.experiments.attention import MemoryUse
from memgrow.experiments.comparison import BASELINE, RETRAINING
from memgrow.report.comparison import legend, verdict
from memgrow.report.html.curves import Line, axes_of, curve_legend, panel
from memgrow.report.html.element import Html, element, joined
from memgrow.report.html.heat_map import attention_map, matrix_legend, matrix_map, matrix_scale
from memgrow.report.html.strips import methods_table
from memgrow.report.learner import growth
from memgrow.report.matrix import MANY
from memgrow.report.measures import Scale
from memgrow.report.run_report import RunReport, versions
from memgrow.report.table import MISSING, Column, Table, numbers, percent, validation_text
from memgrow.report.verdict import gain_and_cost

GENERATOR = "memgrow report"
POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # nothing is fetched and nothing is run, whatever is in a name
PANELS = 12  # domains that have curves of their own


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
    sections = (section for part in SECTIONS if (section := part(report)) is not None)
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
    return element(
        "header",
        element("p", "memgrow report", class_="kicker"),
        element("h1", path),
        element("p", f"Method {report.method}{over}. {report.name}", class_="soft"),
        element("p", element("span", gain), " ", element("span", cost), class_="verdict"),
        element("p", beside, class_="beside") if beside else None,
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
    others = {}
    if report.comparison is not None:
        methods = [name for name in report.comparison.order if name != report.method or report.history is not None]
        others = {name: report.comparison.mean_matrix(name) for name in methods}
    many = max(len(report.matrix.rows), len(report.matrix.domains)) > MANY
    if many:
        return _section("Every domain", _domains_table(report))
    scale = matrix_scale([report.matrix, *others.values()], lambda scores: Scale.over(report.measure, scores))
    own = report.method if report.history is None else f"this model ({report.method})"
    small = [matrix_map(matrix, scale, name) for name, matrix in others.items() if len(matrix.rows) > 1]
    return _section(
        f"{report.measure.name.capitalize() if report.measure.name != 'BLEU-2' else 'BLEU-2'} after each stage",
        element("p", "Read down a column: what became of a domain while later ones were learnt.", class_="soft"),
        matrix_map(report.matrix, scale, own, wide=True),
        matrix_legend(scale),
        element("div", *small, class_="maps") if small else None,
    )


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
    if stages < 2:
        return None
    lines = [_line(report, report.method, "own")]
    if report.history is not None:
        lines = [Line(f"this model ({report.method})", "own", matrix)]
    known = report.comparison.results if report.comparison is not None else {}
    for name, kind, about in ((BASELINE, "fine", "fine-tuning"), (RETRAINING, "all", "retraining on everything")):
        if name in known and (name != report.method or report.history is not None):
            line = _line(report, name, kind)
            lines.append(Line(f"{name}: {about}", kind, line.matrix, line.spread))
    learned = matrix.learned_at()
    worst = sorted(matrix.domains, key=lambda name: -(_lost(report, name)))[:PANELS]
    shown = [name for name in matrix.domains if name in worst]
    axes = axes_of(lines, shown, report.measure, stages)
    names = ["+".join(row.learned) for row in matrix.rows]
    panels = [panel(name, lines, axes, report.measure, names, learned.get(name)) for name in shown]
    some = (
        f"Of {len(matrix.domains)} domains, the {PANELS} that lost most. " if len(shown) < len(matrix.domains) else ""
    )
    return _section(
        "Each domain over the stages",
        element("p", f"{some}A dotted upright marks the stage in which the domain was learnt.", class_="soft"),
        curve_legend(lines, any(line.spread for line in lines)),
        element("div", *panels, class_="panels"),
    )


def _lost(report: RunReport, domain: str) -> float:
    known = domain in report.matrix.learned_at()
    return (report.measure.lost_of(report.matrix, domain) or 0.0) if known else -1.0


def _line(report: RunReport, method: str, kind: str) -> Line:
    if report.comparison is None:
        return Line(method, kind, report.matrix)
    matrix = report.comparison.mean_matrix(method)
    spread = {
        (stage, domain): away
        for stage, row in enumerate(matrix.rows)
        for domain in row.scores
        if (away := report.spread(method, stage, domain)) is not None
    }
    return Line(method, kind, matrix, spread or None)


def _methods(report: RunReport) -> Html | None:
    if report.comparison is None or len(report.comparison.results) < 2:
        return None
    seeds = len(report.seeds)
    return _section(
        "Methods side by side",
        methods_table(report.comparison, report.measure, report.method),
        element("p", _sentence(legend(report.comparison, seeds)), class_="soft"),
        element(
            "p",
            "A dot is a seed, an upright their mean. Methods below the line see the data of all domains at once.",
            class_="soft",
        ),
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _memory(report: RunReport) -> Html:
    memory = report.memory
    if memory is None:
        return _section("What the memory is read for", element("p", report.no_memory, class_="soft"))
    apart = (
        "Each domain's slots are asked apart, and shares need not add up to 100: what is left of one went to nothing. "
        if memory.apart
        else "Where a row is like the last one, texts do not tell one domain's slots from another's. "
    )
    return _section(
        "What the memory is read for",
        element(
            "p",
            f"How the attention of each domain's test texts divides among the domains' slots. {apart}",
            class_="soft",
        ),
        attention_map(memory),
        element("h3", "The slots that are read most"),
        table_html(_most_read(memory)),
    )


def _most_read(memory: MemoryUse) -> Table:
    rows = []
    for one in memory.most_read:
        reader = max(one.shares, key=lambda name: one.shares[name])
        rows.append(
            (
                f"{one.bank}, slot {one.slot}",
                one.domain,
                percent(one.mean, digits=2),
                f"{one.mean / one.even:.1f}",
                f"{reader} ({percent(one.shares[reader], digits=2)})",
            )
        )
    columns: list[str | Column] = [
        "slot",
        "of domain",
        *numbers("share of its bank, %", "times an even share"),
        Column("read most by texts of (%)"),
    ]
    return Table(None, columns, rows)


def _calibration(report: RunReport) -> Html | None:
    known = report.calibration.domains
    if not known:
        return None
    rows = [
        (
            name,
            f"{one.after.examples:,}",
            f"{one.temperature:.2f}",
            percent(one.before.ece),
            percent(one.after.ece),
            percent(one.after.confidence),
            percent(one.after.accuracy),
        )
        for name, one in known.items()
    ]
    figures = ("examples", "temperature", "ECE before, %", "ECE after, %", "confidence, %", "accuracy, %")
    return _section(
        "Can the probabilities be believed?",
        element(
            "p",
            "The expected calibration error (ECE) is how far confidence and accuracy lie apart: here on each domain's "
            "validation examples when it was learnt, before and after the temperature that was fitted to them. "
            f"Probabilities are made at the last temperature, {report.calibration.temperature:.2f}.",
            class_="soft",
        ),
        table_html(Table(None, ["domain", *numbers(*figures)], rows)),
    )


def _tested(report: RunReport) -> Html | None:
    if report.tested is None:
        return None
    return _section("On the data given", table_html(report.tested))


def _stages(report: RunReport) -> Html | None:
    if report.history is None:
        return None
    replies = report.measure.better == "lower"
    rows = [
        (
            str(number),
            "+".join(stage.learned),
            stage.method,
            (stage.date or MISSING)[:10],
            growth(stage.grew),
            f"{stage.examples:,}",
            f"{stage.best_epoch}/{stage.epochs}",
            validation_text(stage.validation, replies),
            f"{stage.parameters:,}",
            f"{stage.seconds:,.1f}",
        )
        for number, stage in enumerate(report.history.stages, 1)
    ]
    columns: list[str | Column] = [*numbers("#"), "domain", "method", "date", "grew"]
    columns += numbers("examples", "best epoch", "validation", "parameters", "seconds")
    return _section("Stages", table_html(Table(None, columns, rows)))


def _settings(report: RunReport) -> Html:
    lists = []
    for section, values in report.settings.items():
        rows = [(name, MISSING if value is None else str(value)) for name, value in values.items()]
        lists.append(element("div", element("h3", section), table_html(Table(None, ["setting", "value"], rows))))
    seeds = {"seeds" if len(report.seeds) > 1 else "seed": ", ".join(map(str, report.seeds))}
    facts = [*{**seeds, **report.facts, **versions()}.items()]
    lists.append(
        element(
            "div",
            element("h3", "seeds, and versions that made this page"),
            table_html(Table(None, ["what", "which"], facts)),
        )
    )
    return _section("Settings", element("div", *lists, class_="settings"))


SECTIONS = (_matrix, _curves, _methods, _memory, _calibration, _tested, _stages, _settings)


def _section(title: str, *children: str | None) -> Html:
    return element("section", element("h2", title), *children)


def _foot(made: str) -> Html:
    said = "It holds figures and names of domains and labels; no text of any data."
    return element("footer", element("p", f"Made by memgrow report on {made}. {said}"))


def table_html(table: Table) -> Html:
    """A table of the terminal's, for a page."""
    columns = [Column(column) if isinstance(column, str) else column for column in table.header]
    looks = ["number" if column.right else None for column in columns]

    def row(cells: Sequence[object], name: str) -> Html:
        return element("tr", *(element(name, str(cell), class_=look) for cell, look in zip(cells, looks, strict=True)))

    head = element("thead", row([column.name for column in columns], "th"))
    body = element("tbody", *(row(cells, "td") for cells in table.rows))
    return element("div", element("table", joined(head, body)), class_="scroll")
