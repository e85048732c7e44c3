"""The picture of accuracy matrices."""

import io
import struct
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from memgrow.errors import SettingsError
from memgrow.evaluation.comparison import Comparison, RunResult
from memgrow.evaluation.history import AccuracyMatrix, Curve, Grew, Stage
from memgrow.evaluation.metrics import Confusion
from memgrow.report import confusion
from memgrow.report.measures import MEASURES
from memgrow.report.plots import ACCURACY, Look, draw_matrices
from memgrow.report.run_plots import draw_training, save_pictures
from memgrow.report.run_report import report_of_comparison
from tests.support.pictures import kept_figures

MATRIX = (
    AccuracyMatrix().with_row(["a"], {"a": 0.8, "b": 0.0}).with_row(["b"], {"b": 0.7}).with_row(["$c_$"], {"$c_$": 1.0})
)


def size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG."""
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    return width, height


@pytest.fixture
def texts(monkeypatch):
    """Every figure that is written into a field of a matrix."""
    from matplotlib.axes import Axes

    written, plain = [], Axes.text

    def text(axis, x, y, s, **named):
        written.append(s)
        return plain(axis, x, y, s, **named)

    monkeypatch.setattr(Axes, "text", text)
    return written


def test_two_methods_are_a_png_of_two_fields_side_by_side(tmp_path):
    draw_matrices({"F": MATRIX, "F+M+V": MATRIX}, tmp_path / "x.png", "a title")
    width, height = size(tmp_path / "x.png")
    assert 1000 < width < 1400
    assert 500 < height < 800


@pytest.mark.slow
def test_many_methods_make_rows_instead_of_an_endless_strip(tmp_path):
    draw_matrices({str(number): MATRIX for number in range(6)}, tmp_path / "x.png", "a title")
    width, height = size(tmp_path / "x.png")
    assert width < 2500
    assert 1000 < height < 1400


def test_a_hole_is_a_dot_and_zero_is_a_figure(tmp_path, texts):
    draw_matrices({"F": MATRIX}, tmp_path / "x.png", "a title")
    assert texts == ["80", "0", "·", "·", "70", "·", "·", "·", "100"]


def test_the_picture_of_a_report_does_not_make_up_forgetting_where_there_is_none(tmp_path, monkeypatch):
    drawn = kept_figures(monkeypatch)
    together = AccuracyMatrix().with_row(["a", "b"], {"a": 0.8, "b": 0.9})
    comparison = Comparison({"multi-task": {0: RunResult(together, 1000, 1.0)}})
    save_pictures(report_of_comparison(comparison, "x", {}), tmp_path)
    assert {figure.axes[0].get_title() for figure in drawn} == {"multi-task: average 85.0"}


def test_every_figure_stands_out_from_its_ground(tmp_path, monkeypatch):
    from matplotlib import colormaps
    from matplotlib.axes import Axes
    from matplotlib.colors import to_rgb

    written, plain = [], Axes.text

    def text(axis, x, y, s, **named):
        written.append((int(s), named))
        return plain(axis, x, y, s, **named)

    def luminance(colour):  # as WCAG defines it
        channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), channels, strict=True))

    monkeypatch.setattr(Axes, "text", text)
    names = [str(percent) for percent in range(30, 101)]
    matrix = AccuracyMatrix().with_row(names[:1], {name: int(name) / 100 for name in names})
    draw_matrices({"F": matrix}, tmp_path / "x.png", "")
    assert len(written) == len(names)
    for percent, named in written:
        ground = colormaps["viridis"]((percent - 30) / 70)[:3]
        alpha = named.get("alpha", 1.0)
        ink = [alpha * c + (1 - alpha) * g for c, g in zip(to_rgb(named["color"]), ground, strict=True)]
        darker, lighter = sorted((luminance(ink), luminance(ground)))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, percent
    assert [named["fontstyle"] for _, named in written[:2]] == ["normal", "italic"]


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SettingsError, match=r"pip install 'memgrow\[plots\]'"):
        draw_matrices({"F": MATRIX}, tmp_path / "x.png", "")


def test_the_lower_perplexity_has_the_lighter_colour_as_the_better_one(tmp_path, texts):
    matrix = AccuracyMatrix().with_row(["a"], {"a": 1 / 20, "b": 1 / 900}).with_row(["b"], {"a": 1 / 80, "b": 1 / 10})
    draw_matrices({"F": matrix}, tmp_path / "x.png", "", measure=MEASURES["perplexity"])
    assert texts == ["20.00", "900", "80.00", "10.00"]
    look = Look.of(MEASURES["perplexity"], [matrix])
    assert look.is_light(look.measure.place(1 / 10))
    assert not look.is_light(look.measure.place(1 / 900))
    assert look.end_texts == ("900", "10.00")


@pytest.mark.parametrize("epochs", [1, 2, 15])
def test_there_is_no_half_an_epoch(epochs, monkeypatch):
    from matplotlib.figure import Figure

    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    curve = Curve((0.5,) * epochs, (0.75,) * epochs)
    stage = Stage(("a",), "F", Grew(), 1, 1, epochs, 1, 0.75, 1.0, "", curve=curve)
    draw_training([stage], ACCURACY, io.BytesIO())
    ticks = drawn[0].axes[0].get_xticks()
    assert len(ticks)
    assert all(tick == int(tick) for tick in ticks)


@pytest.mark.parametrize("domains", [["books"], ["books", "reviews_of_electronics_and_of_parts_for_them", "dvds"]])
def test_titles_of_confusion_matrices_keep_clear_of_each_other_and_of_the_bar(domains, monkeypatch):
    drawn = kept_figures(monkeypatch)
    found = Confusion(("good", "bad"), ((9, 1), (2, 8)))
    title = "/home/somebody/reviews/models/the-second-attempt: labels and answers"
    confusion.draw_confusions(dict.fromkeys(domains, found), io.BytesIO(), title)
    *heads, whole = [*(axis.title for axis in drawn[0].axes if axis.get_title()), drawn[0]._suptitle]
    bar = drawn[0].axes[-1].get_window_extent()
    boxes = [head.get_window_extent() for head in heads]
    assert len(boxes) == len(domains)
    assert not any(one.overlaps(other) for one, other in pairwise([*boxes, bar]))
    assert whole.get_window_extent().x0 >= 0
    assert whole.get_window_extent().x1 <= drawn[0].bbox.x1
    assert not any(whole.get_window_extent().overlaps(box) for box in boxes)
