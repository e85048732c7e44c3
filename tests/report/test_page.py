"""The report as a page: it stands alone, its figures are the history's, and names are never HTML."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from memgrow.evaluation.attention import MemoryUse, SlotUse
from memgrow.evaluation.comparison import Comparison, RunResult
from memgrow.evaluation.history import AccuracyMatrix, Curve, Grew, History, Stage
from memgrow.report.html.page import render
from memgrow.report.measures import MEASURES, Scale
from memgrow.report.run_report import RunReport, report_of_comparison
from memgrow.report.verdict import gain_and_cost

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
VOID = {"meta", "br", "hr"}
ACCURACY, PERPLEXITY = MEASURES["accuracy"], MEASURES["perplexity"]


class Page(HTMLParser):
    """Reads a page, and fails where an element is not closed; cells are texts with the classes they stand in."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.cells: list[tuple[str, str]] = []
        self.text = ""
        self.feed(content)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "td":
            self.cells.append((dict(attrs).get("class") or "", ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data
        if "td" in self.open:
            looks, before = self.cells[-1]
            self.cells[-1] = (looks, before + data)

    def map_cells(self) -> list[tuple[set[str], str]]:
        """The cells of heat maps."""
        kinds = {*(f"h{step}" for step in range(9)), "zero", "none"}
        return [(set(looks.split()), text) for looks, text in self.cells if kinds & set(looks.split())]


def history_of(*rows: tuple[str, dict[str, float]]) -> History:
    history = History()
    for name, scores in rows:
        stage = Stage(
            (name,), "F+M+V", Grew(4, 0, 12), 12_345, 390, 20, 18, 0.987, 12.3, "", date="2026-01-31T10:00:00"
        )
        history.add(stage, scores)
    return history


def of_model(history: History, measure=ACCURACY, **further) -> RunReport:
    return RunReport("model", "F+M+V", measure, history.matrix, (7,), history, **further)


def compared(*values: float, name: str = "b") -> RunReport:
    def run(value: float) -> RunResult:
        matrix = AccuracyMatrix().with_row(["a"], {"a": value, name: 0.3}).with_row([name], {"a": value / 2, name: 0.9})
        return RunResult(matrix, 1000, 2.5)

    whole = RunResult(AccuracyMatrix().with_row(["a", name], {"a": 0.95, name: 0.97}), 900, 1.5)
    results = {
        method: {seed: run(value + at / 50) for seed, value in enumerate(values)}
        for at, method in enumerate(("F", "F+V"))
    }
    results["multi-task"] = dict.fromkeys(range(len(values)), whole)
    return report_of_comparison(Comparison(results), "compare.json", {"model": {"hidden": 5}})


TWO = history_of(("a", {"a": 0.812, "b": 0.3125}), ("b", {"a": 0.7, "b": 0.9371}))
MEMORY = MemoryUse(
    {"a": 12, "b": 9},
    {"a": 4, "b": 4},
    {"a": {"a": 0.75, "b": 0.25}, "b": {"a": 0.375, "b": 0.625}},
    (SlotUse("bank 1", 3, "a", 0.125, {"a": 0.5, "b": 0.25}),),
)


@pytest.mark.parametrize(("measure", "axis"), [(ACCURACY, "validation accuracy, %"), (PERPLEXITY, "validation perpl")])
def test_training_is_shown_epoch_by_epoch_with_the_epoch_that_was_kept(measure, axis):
    history = history_of(("a", {"a": 0.8}), ("b", {"a": 0.8, "b": 0.9}))
    assert "epoch by epoch" not in Page(render(of_model(history, measure), NOW)).text  # as of 0.1.0
    curve = Curve((1.25, 0.9, 0.75), (0.5, 0.75, 0.625))
    history.stages[1] = replace(history.stages[1], best_epoch=2, epochs=3, curve=curve)
    page = Page(render(of_model(history, measure), NOW))
    assert "Training, epoch by epoch" in page.text
    assert "b, loss 1.250 → 0.750" in page.text
    assert axis in page.text
    points = [looks for tag, name, looks in page.attributes if (tag, name) == ("circle", "class")][-3:]
    assert points == ["point own hollow", "point own", "point own hollow"]


@pytest.mark.parametrize("report", [of_model(TWO, memory=MEMORY), compared(0.8), compared(0.8, 0.6)])
def test_a_page_is_well_formed_and_needs_nothing_beside_it(report):
    content = render(report, NOW)
    page = Page(content)
    assert content.startswith("<!doctype html>")
    assert not {"script", "link", "img", "iframe", "object", "a", "form"} & set(page.tags)
    assert not [
        one for one in page.attributes if one[1] in {"src", "href", "srcset", "style"} or one[1].startswith("on")
    ]
    assert not re.search(r"url\(|@import|https?:|//", content)
    assert ("meta", "content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes


def test_the_matrix_has_the_figures_of_the_history_and_tells_what_was_not_learnt_yet():
    cells = Page(render(of_model(TWO), NOW)).map_cells()
    assert [text for _, text in cells] == ["81.2", "31.2", "70.0", "93.7"]
    assert ["zero" in looks for looks, _ in cells] == [False, True, False, False]
    assert ["new" in looks for looks, _ in cells] == [True, False, False, True]


def test_what_was_not_tested_is_a_dot_without_a_colour():
    history = history_of(("a", {"a": 0.5}), ("b", {"b": 0.25}))
    assert Page(render(of_model(history), NOW)).map_cells()[2] == ({"none"}, "·")


def test_the_better_perplexity_is_the_lower_one_and_has_the_stronger_colour():
    history = history_of(("a", {"a": 1 / 20, "b": 1 / 900}), ("b", {"a": 1 / 80, "b": 1 / 10}))
    page = Page(render(of_model(history, PERPLEXITY), NOW))
    cells = page.map_cells()
    assert [text for _, text in cells] == ["20.00", "900", "80.00", "10.00"]
    steps = {
        text: max(int(look[1]) for look in looks if look[0] == "h") for looks, text in cells if "zero" not in looks
    }
    assert steps["10.00"] == 8 > steps["20.00"] > steps["80.00"] == 0
    assert "worse 80.00" in page.text
    assert "10.00 better" in page.text
    assert "from 900 to 10.00" in page.text
    assert "× 4.00" in page.text


def test_higher_accuracy_has_the_stronger_colour_and_small_differences_look_small():
    scale = Scale.over(ACCURACY, [0.5, 0.9])
    assert [scale.step(score, 9) for score in (0.5, 0.7, 0.9)] == [0, 4, 8]
    near = Scale.over(ACCURACY, [0.90, 0.91])
    assert near.step(0.91, 9) - near.step(0.90, 9) <= 1
    assert near.worst == pytest.approx(0.81)
    assert Scale.over(PERPLEXITY, [1 / 10, 1 / 11]).worst == pytest.approx(1 / 15)


def test_every_method_stands_in_the_comparison_with_its_means():
    report = compared(0.8, 0.6)
    page = Page(render(report, NOW))
    found = [text for _, text in page.cells]
    for method in report.comparison.results:
        assert method in page.text
        for name in ("average", "forgetting"):
            figure = report.comparison.summary[method][name]
            if figure.mean is not None:
                assert f"{100 * figure.mean:.1f} ± {100 * figure.spread:.1f}" in found
    assert report.method == "F+V"
    assert "fine-tuning" in page.text
    assert "retraining on everything" in page.text


def test_a_page_counts_the_seeds_of_the_method_that_it_is_about():
    whole = compared(0.8, 0.6, 0.7).comparison.results
    partly = Comparison({**whole, "F+V": {2: whole["F+V"][2]}})
    chosen = {method: report_of_comparison(partly, "x", {}, method=method) for method in ("F", "F+V")}
    assert {method: report.seeds for method, report in chosen.items()} == {"F": (0, 1, 2), "F+V": (2,)}
    assert "Method F, mean of 3 seeds." in Page(render(chosen["F"], NOW)).text
    assert "Method F+V. " in Page(render(chosen["F+V"], NOW)).text


def test_the_attention_of_texts_and_the_most_read_slot_are_shown():
    page = Page(render(of_model(TWO, memory=MEMORY), NOW))
    assert [text for _, text in page.map_cells()][4:] == ["75.0", "25.0", "37.5", "62.5", "50.0", "50.0"]
    assert "bank 1, slot 3" in page.text
    assert "37.50" in [text for _, text in page.cells]
    assert "no texts" in Page(render(of_model(TWO), NOW)).text


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", '"><img src=x onerror=y>', "a&b", "\x1b[31m", "\u202eabc", "]]>", "x" * 300]
)
def test_names_are_never_html(name):
    history = history_of(("a", {"a": 0.5, name: 0.25}), (name, {"a": 0.4, name: 0.75}))
    memory = replace(MEMORY, texts={name: 3}, slots={name: 2}, shares={name: {name: 1.0}}, most_read=())
    for report in (of_model(history, memory=memory, facts={"labels": name}), compared(0.8, name=name)):
        content = render(report, NOW)
        page = Page(content)
        assert not {"script", "img"} & set(page.tags)
        assert "\x1b" not in content
        assert "\u202e" not in content
        if name.isprintable():
            assert name in page.text


@pytest.mark.parametrize("rows", [1, 2, 40])
def test_any_number_of_domains_makes_a_page(rows):
    names = [f"d{number}" for number in range(rows)]
    history = history_of(*((name, dict.fromkeys(names, 0.5)) for name in names))
    page = Page(render(of_model(history), NOW))
    assert page.tags.count("figure") == (0 if rows == 1 else min(rows, 12))


def test_the_verdict_says_what_the_last_domain_brought_and_what_it_cost():
    assert gain_and_cost(TWO.matrix, ACCURACY) == (
        "Learning b took its accuracy from 31.2% to 93.7%, 62.5 points.",
        "It cost the earlier domain 11.2 points (a 81.2% → 70.0%).",
    )
    three = history_of(("a", {"a": 0.5, "b": 0.5}), ("b", {"a": 0.5, "b": 0.6}), ("c", {"a": 0.4, "b": 0.7, "c": 0.9}))
    assert gain_and_cost(three.matrix, ACCURACY) == (
        "c was learnt, and ends at an accuracy of 90.0%.",
        "It cost the 2 earlier domains nothing: they gained 0.0 points on the mean, though one lost (a 50.0% → 40.0%).",
    )


def test_the_verdict_says_how_many_lost_though_the_mean_gained():
    before, now = {"a": 0.80, "b": 0.80, "c": 0.60}, {"a": 0.77, "b": 0.78, "c": 0.70, "d": 0.9}
    matrix = history_of(("a", {}), ("b", {}), ("c", before), ("d", now)).matrix
    assert gain_and_cost(matrix, ACCURACY)[1].endswith(", though 2 lost (most of all a 80.0% → 77.0%).")


def test_the_verdict_does_not_make_up_what_was_not_tested():
    gain, cost = gain_and_cost(history_of(("a", {"a": 0.5}), ("b", {"b": 0.25})).matrix, ACCURACY)
    assert gain == "b was learnt, and ends at an accuracy of 25.0%."
    assert "not known" in cost
    assert "cost none" in gain_and_cost(history_of(("a", {"a": 0.5})).matrix, ACCURACY)[1]
    assert "not tested" in gain_and_cost(history_of(("a", {})).matrix, ACCURACY)[0]
