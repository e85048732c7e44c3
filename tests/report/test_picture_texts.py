"""Titles and names in pictures: inside the picture and clear of each other, however many and however long they are."""

import io
import warnings
from itertools import pairwise
from math import radians, sin

import pytest

from memgrow.evaluation.attention import MemoryUse
from memgrow.evaluation.comparison import Comparison, RunResult
from memgrow.evaluation.history import AccuracyMatrix
from memgrow.evaluation.metrics import Confusion
from memgrow.report.confusion import draw_confusions
from memgrow.report.picture_layout import path_text
from memgrow.report.plots import DPI, draw_comparison, draw_matrices
from memgrow.report.run_plots import draw_attention, draw_curves, save_pictures
from memgrow.report.run_report import report_of_comparison
from tests.support.pictures import kept_figures

LONG = "reviews of kitchen appliances and household goods {} of 2019 to 2024"
STREAMS = {
    "two": ["books", "dvds"],
    "ten": [f"category {number}" for number in range(10)],
    "long": [LONG.format(number) for number in range(3)],
    "many": [f"domain {number}" for number in range(25)],
}
LABELS = {
    "three": ["good", "bad", "neither"],
    "ten": [
        "business",
        "technology",
        "entertainment",
        "politics",
        "sport",
        "science",
        "health",
        "law",
        "art",
        "weather",
    ],
    "long": [LONG.format(number) for number in range(3)],
    "forty": [f"category {number}" for number in range(40)],
}


@pytest.fixture(autouse=True)
def _no_warnings():
    """matplotlib warns where a picture has no room for its texts."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def compared(names: list[str]) -> Comparison:
    matrix = AccuracyMatrix()
    for stage, name in enumerate(names):
        matrix = matrix.with_row([name], {one: 0.9 if at <= stage else 0.5 for at, one in enumerate(names)})
    return Comparison({method: {seed: RunResult(matrix, 1000, 1.0) for seed in (0, 1)} for method in ("F", "F+V")})


def check_texts(figure) -> None:
    """Titles and names lie in the picture, and names keep clear of their neighbours."""
    titles = [figure._suptitle, *(axis.title for axis in figure.axes)]
    texts = [one for one in titles if one is not None and one.get_text()]
    if (legend := next(iter(figure.legends), None)) is not None:
        texts.append(legend)
    heads = [axis.title.get_window_extent() for axis in figure.axes if axis.get_title()]
    heads += [axis.get_window_extent() for axis in figure.axes[-1:] if not axis.get_title()]  # the bar of colours
    assert not any(one.overlaps(other) for one, other in pairwise(heads))
    for axis in figure.axes:
        for marks in (axis.get_xticklabels(), axis.get_yticklabels()):
            seen = [mark for mark in marks if mark.get_text()]
            texts += seen if len(axis.get_images()) else []
            boxes = [mark.get_window_extent() for mark in seen]
            if seen and seen[0].get_rotation() in (0, 90):
                assert not any(one.overlaps(other) for one, other in pairwise(boxes))
            elif len(seen) > 1:  # slanted lines are as far apart as their beginnings are, seen along them
                apart = (boxes[1].x0 + boxes[1].x1 - boxes[0].x0 - boxes[0].x1) / 2 * sin(radians(20))
                assert apart >= seen[0].get_fontsize() * DPI / 72
    for text in texts:
        box = text.get_window_extent()
        assert figure.bbox.x0 - 1 <= box.x0 <= box.x1 <= figure.bbox.x1 + 1, text
        assert figure.bbox.y0 - 1 <= box.y0 <= box.y1 <= figure.bbox.y1 + 1, text


@pytest.mark.parametrize("names", STREAMS.values(), ids=STREAMS)
def test_methods_compared_have_their_title_within_the_picture(names, monkeypatch):
    drawn = kept_figures(monkeypatch)
    draw_comparison(compared(names), io.BytesIO(), f"{path_text(names)} (3 seeds)")
    check_texts(drawn[0])


@pytest.mark.parametrize("names", STREAMS.values(), ids=STREAMS)
def test_matrices_have_room_for_the_names_of_their_domains(names, monkeypatch):
    drawn, found = kept_figures(monkeypatch), compared(names)
    matrices = {name: found.mean_matrix(name) for name in found.results}
    draw_matrices(matrices, io.BytesIO(), path_text(names))
    check_texts(drawn[0])
    steep = {mark.get_rotation() for mark in drawn[0].axes[0].get_xticklabels()}
    assert steep == ({20} if names == STREAMS["two"] else {90})


@pytest.mark.parametrize("names", STREAMS.values(), ids=STREAMS)
def test_curves_number_the_stages_where_names_have_no_room(names, monkeypatch):
    drawn = kept_figures(monkeypatch)
    draw_curves(report_of_comparison(compared(names), "x", {}), io.BytesIO())
    check_texts(drawn[0])
    marks = [mark.get_text() for mark in drawn[0].axes[0].get_xticklabels()]
    assert marks[0] == {"two": "books", "long": "reviews of…"}.get(
        next(k for k, v in STREAMS.items() if v == names), "1"
    )
    assert len(marks) <= 12


def test_the_attention_of_many_domains_has_room_for_their_names(monkeypatch):
    names = STREAMS["ten"]
    drawn = kept_figures(monkeypatch)
    shares = {reader: dict.fromkeys(names, 0.1) for reader in names}
    draw_attention(MemoryUse(dict.fromkeys(names, 9), dict.fromkeys(names, 4), shares), io.BytesIO())
    check_texts(drawn[0])


def test_more_domains_than_one_can_read_have_no_matrix(tmp_path):
    names = [f"d{number}" for number in range(26)]
    written = save_pictures(report_of_comparison(compared(names), "x", {}), tmp_path)
    assert {path.stem for path in written} == {"curves", "methods"}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("domains", [["news"], ["news", "mail", "shop"]])
def test_a_confusion_matrix_has_room_for_the_names_of_its_labels(labels, domains, monkeypatch):
    drawn = kept_figures(monkeypatch)
    counts = tuple(tuple(100 if one == other else 3 for other in labels) for one in labels)
    found = Confusion(tuple(labels), counts)
    draw_confusions(dict.fromkeys(domains, found), io.BytesIO(), "model: labels and answers")
    check_texts(drawn[0])


def test_a_path_of_domains_is_short_enough_for_a_title():
    assert path_text(["a", "b"]) == "a → b"
    assert path_text([f"d{number}" for number in range(30)]) == "d0 → d1 → d2 → … → d29 (30 domains)"
    assert path_text([LONG, "b"]) == "reviews of kitchen… → b"
