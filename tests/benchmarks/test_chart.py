"""The README's chart of speed shows what results/ holds."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def chart():
    spec = importlib.util.spec_from_file_location("chart", ROOT / "benchmarks/chart.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["chart"] = module
    spec.loader.exec_module(module)
    return module


def test_there_is_a_panel_for_each_file_that_is_there(chart, tmp_path):
    for name in (chart.LAYER, chart.CLASSIFIER):
        shutil.copy(ROOT / "results" / name, tmp_path)
    chart.draw(tmp_path, tmp_path / "two.png")
    before = chart.checksum(tmp_path)
    parts = {"imports": 1.0, "fiction: training": 5.0, "government: training": 6.0, "fiction: testing": 0.5}
    modes = {"alone": {"seconds": 13.0, "parts": parts, "learners": [{}]}}
    (tmp_path / chart.ADAPTATION).write_text(json.dumps({"modes": modes}))
    chart.draw(tmp_path, tmp_path / "three.png")
    assert chart.checksum(tmp_path) != before
    with Image.open(tmp_path / "two.png") as two, Image.open(tmp_path / "three.png") as three:
        assert three.width == pytest.approx(1.5 * two.width, abs=2)


def test_every_second_of_an_adaptation_has_its_share_of_the_bar(chart):
    parts = {
        "imports": 1.0,
        "reading": 2.0,
        "fiction: words, vectors, first step": 4.0,
        "fiction: training": 8.0,
        "fiction: testing": 16.0,
        "government: words, vectors, first step": 32.0,
        "government: training": 64.0,
        "government: testing": 128.0,
        "testing all domains at the end": 256.0,
    }
    shares = {share: chart.seconds_of(parts, share) for share in chart.PARTS.values()}
    assert shares == {"start, data, words": 39.0, "fiction": 8.0, "government": 64.0, "tests": 400.0}
