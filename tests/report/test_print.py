"""The page on paper: no column is lost, however many domains there are."""

import os
import re
import shutil
import subprocess

import pytest

from memgrow.evaluation.attention import MemoryUse
from memgrow.evaluation.history import AccuracyMatrix
from memgrow.report.html.page import render
from memgrow.report.measures import MEASURES
from memgrow.report.run_report import RunReport
from tests.support.browser import browser_program

PERPLEXITY = MEASURES["perplexity"]


def report_of(count: int, measure=MEASURES["accuracy"]) -> RunReport:
    """Every domain ends with a score of its own."""
    names = [f"category {number}" for number in range(count)]
    scores = {name: (4321 + 7 * at) / 10_000 for at, name in enumerate(names)}
    if measure is PERPLEXITY:
        scores = {name: 1 / (1.23e30 + at * 1e29) for at, name in enumerate(names)}
    matrix = AccuracyMatrix()
    for name in names:
        matrix = matrix.with_row([name], scores)
    shares = {reader: dict.fromkeys(names, 1 / count) for reader in names}
    memory = MemoryUse(dict.fromkeys(names, 9), dict.fromkeys(names, 4), shares)
    return RunReport("x", "F", measure, matrix, (0,), memory=memory)


@pytest.mark.parametrize(("count", "screen", "paper"), [(6, 0, 0), (15, 0, 0), (16, 2, 2), (25, 2, 2), (26, 1, 1)])
def test_a_matrix_that_is_too_wide_for_paper_is_a_table_there(count, screen, paper):
    page = render(report_of(count))
    assert page.count('class="screen"') == screen
    assert page.count('class="paper"') == paper
    assert ("when learnt" in page) == (count > 15)


@pytest.mark.extras
@pytest.mark.parametrize(
    ("count", "measure"), [(12, MEASURES["accuracy"]), (10, PERPLEXITY), (15, PERPLEXITY), (20, PERPLEXITY)]
)
def test_a_printed_page_has_the_figures_of_every_domain(count, measure, tmp_path):
    program, reader = browser_program(), shutil.which("pdftotext")
    if reader is None:
        pytest.skip("what is printed was not read: there is no pdftotext here (on Debian: poppler-utils)")
    report = report_of(count, measure)
    (tmp_path / "page.html").write_text(render(report), encoding="utf-8")
    options = ["--headless", "--disable-gpu", f"--print-to-pdf={tmp_path / 'page.pdf'}"]
    options += ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    page = (tmp_path / "page.html").as_uri()
    subprocess.run([program, *options, page], check=True, capture_output=True, timeout=120)
    read = [reader, "-layout", tmp_path / "page.pdf", "-"]
    words = re.split(r"\s+", subprocess.run(read, check=True, capture_output=True, text=True).stdout)
    for score in report.matrix.rows[-1].scores.values():
        assert words.count(measure.shown(score).removesuffix("%")) >= (count if count <= 15 else 1)
