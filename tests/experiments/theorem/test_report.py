"""The whole report: figures for a file, tables for a terminal, a picture."""

import io
import json
import struct
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from memgrow.data import Domain
from memgrow.errors import DataError, SettingsError
from memgrow.experiments.theorem.report import TheoremReport, parts, theorem_report
from memgrow.learner import Learner
from memgrow.report.theorem import theorem_tables
from memgrow.report.theorem_plot import draw_theorem


@pytest.fixture(scope="module")
def learner(stream, tiny, short):
    learner = Learner.create("F+M+V", model=tiny, training=short, device="cpu")
    learner.adapt(stream[0])
    return learner


@pytest.fixture(scope="module")
def ticks():
    return []


@pytest.fixture(scope="module")
def report(learner, stream, ticks):
    models = {"a model with a long name [bold]": learner, "b": learner}
    return theorem_report(models, stream[:2], samples=10, draws=2, examples=5, tick=ticks.append)


@pytest.mark.slow
def test_the_report_is_json_and_each_part_was_told_of(report, ticks):
    written = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert TheoremReport.from_json(written) == report
    assert TheoremReport.from_json(written).to_json() == report.to_json()
    assert len(ticks) == parts(models=2, domains=2, draws=2)


def test_each_model_is_measured_on_each_domain_with_the_same_examples(report, stream):
    first, second, third, fourth = report.measured
    assert [first.domain, second.domain] == [domain.name for domain in stream[:2]]
    assert replace(first, model="b") == third
    assert replace(second, model="b") == fourth
    assert first.examples == 5


def test_without_a_model_there_are_the_numbers_alone():
    assert theorem_report(samples=2).measured == ()


def test_what_cannot_be_measured_is_refused_before_anything_is_drawn(learner):
    ticks: list[str] = []
    with pytest.raises(DataError, match="empty has no test examples"):
        theorem_report({"m": learner}, [Domain("empty")], tick=ticks.append)
    for wrong in ({"samples": 1}, {"draws": 0}):
        with pytest.raises(SettingsError, match="2 or more"):
            theorem_report(tick=ticks.append, **wrong)
    assert ticks == []


def test_the_tables_fit_and_hold_every_row(report):
    console = Console(width=80, file=io.StringIO())
    for shown in theorem_tables(report):
        console.print(shown)
    out = console.file.getvalue()
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    assert "[bold]" in out
    for name in (*report.drawn, *report.tied, *report.measured[0].effects):
        assert name in out
    for sweep in report.swept:
        assert sweep.shape in out


@pytest.mark.slow
@pytest.mark.parametrize("measured", [True, False])
def test_the_picture_is_a_png(report, tmp_path, measured):
    path = tmp_path / "theorem.png"
    draw_theorem(report if measured else replace(report, measured=()), path)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    assert width > height if not measured else 1000 < height < 1500


def test_without_matplotlib_it_says_what_to_install(report, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SettingsError, match=r"pip install 'memgrow\[plots\]'"):
        draw_theorem(report, tmp_path / "x.png")
