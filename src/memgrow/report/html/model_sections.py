"""The sections of a page that tell of a model: what its memory is read for, how sure it is, how it came about."""

from memgrow.errors import counted
from memgrow.evaluation.attention import MemoryUse
from memgrow.report.history import rows_kept
from memgrow.report.html.element import Html, element
from memgrow.report.html.heat_map import attention_map, fits_on_paper
from memgrow.report.html.parts import on_paper, section, table_html
from memgrow.report.learner import growth
from memgrow.report.run_report import RunReport, versions
from memgrow.report.table import MISSING, Column, Table, numbers, percent, validation_text


def memory_section(report: RunReport) -> Html:
    memory = report.memory
    if memory is None:
        return section("What the memory is read for", element("p", report.no_memory, class_="soft"))
    apart = (
        "Each domain's slots are asked apart, and shares need not add up to 100: what is left of one went to nothing. "
        if memory.apart
        else "Where a row is like the last one, texts do not tell one domain's slots from another's. "
    )
    shown = [attention_map(memory)]
    if not fits_on_paper(len(memory.slots)):
        shown = on_paper(shown, element("p", "It is too wide for paper: the page on a screen has it.", class_="soft"))
    return section(
        "What the memory is read for",
        element(
            "p",
            f"How the attention of each domain's test texts divides among the domains' slots. {apart}",
            class_="soft",
        ),
        *shown,
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


def calibration_section(report: RunReport) -> Html | None:
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
    return section(
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


def tested_section(report: RunReport) -> Html | None:
    if report.tested is None:
        return None
    return section("On the data given", table_html(report.tested))


def stages_section(report: RunReport) -> Html | None:
    if report.history is None:
        return None
    replies = report.measure.better == "lower"
    rows = [
        (
            str(number),
            "+".join(stage.learned),
            stage.method + (f" ({counted(kept, 'row')} kept)" if (kept := rows_kept(stage)) else ""),
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
    columns: list[str | Column] = [*numbers("#"), "domain", "method", Column("date", wrap="never"), "grew"]
    columns += numbers("examples", "best epoch", "validation", "parameters", "seconds")
    return section("Stages", table_html(Table(None, columns, rows)))


def settings_section(report: RunReport) -> Html:
    lists = []
    for title, values in report.settings.items():
        rows = [(name, MISSING if value is None else str(value)) for name, value in values.items()]
        lists.append(element("div", element("h3", title), table_html(Table(None, ["setting", "value"], rows))))
    seeds = {"seeds" if len(report.seeds) > 1 else "seed": ", ".join(map(str, report.seeds))}
    facts = [*{**seeds, **report.facts, **versions()}.items()]
    lists.append(
        element(
            "div",
            element("h3", "seeds, and versions that made this page"),
            table_html(Table(None, ["what", "which"], facts)),
        )
    )
    return section("Settings", element("div", *lists, class_="settings"))
