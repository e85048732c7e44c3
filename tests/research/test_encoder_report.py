"""The tables and the picture of the study of encoders, from figures as its files have them."""

import json

import pytest
from PIL import Image

from research.common.plots import checksum
from research.encoders.figures import _chosen
from research.encoders.picture import _drawn_orders, _points, draw_study
from research.encoders.report import chosen, shown_orders, slots_taken_away, study_page


def cell(mean):
    return {"mean": mean, "spread": 0.01, "values": [mean + seed / 1000 for seed in range(5)]}


def row(average, validation, forgetting=0.02, seeds=5, **more):
    test = {"average": cell(average), "forgetting": cell(forgetting), "when_learnt": cell(average + 0.01), **more}
    costs = {"parameters": 100, "added": 10.0, "trained": 20, "seconds": cell(1.0), "seconds_alone": None}
    return {"seeds": list(range(seeds)), "test": test, "validation": {"average": cell(validation)}, **costs}


@pytest.fixture
def found():
    rows = {
        "F": row(0.8, 0.8),
        "EWC": row(0.9, 0.7),
        "EWC 10": row(0.7, 0.9),
        "frozen+M": row(0.85, 0.85, without_slots=cell(0.5)),
        "multi-task": {**row(0.95, 0.95), "test": {"average": cell(0.95)}},
    }
    paired = {"difference": 0.05, "low": 0.01, "high": 0.09, "p_holm": 0.04}
    asked = {"frozen+M - F": {"test": {"average": paired, "forgetting": paired}}}
    about = {name: {"variant_of": None, "options": {}} for name in rows}
    about["EWC 10"] = {"variant_of": "EWC", "options": {"strength": 10.0}}
    best = {"F": "F", "EWC": "EWC 10", "frozen+M": "frozen+M", "multi-task": "multi-task"}
    orders = {"1": {"domains": ["a", "b"], "rows": rows, "chosen": best, "differences": asked}}
    figures = {"weights": "abc", "rounded_from": "def", "rows": about, "orders": orders}
    return {"stream": "small", "encoders": {"tiny": figures}}


def test_of_variants_the_chosen_one_is_shown_with_its_setting(found):
    shown = chosen(found["encoders"]["tiny"], found["encoders"]["tiny"]["orders"]["1"])
    assert shown["EWC 10"] == "EWC (strength 10)"
    assert "EWC" not in shown


def test_the_page_has_rows_and_answers_and_names_the_weights(found):
    page = study_page(found)
    assert "| frozen+M | 85.0 ± 1.0 | 2.0 ± 1.0 | 86.0 ± 1.0 | 85.0 | 10 | 20 |" in page
    assert "| frozen+M against F | +5.0 [+1.0, +9.0] | .040 | +5.0 [+1.0, +9.0] |" in page
    assert "weights: def, rounded to float16" in page


def test_the_best_of_few_seeds_is_not_chosen_before_one_of_more(found):
    rows = {"EWC": row(0.9, 0.7), "EWC 10": row(0.7, 0.9, seeds=2), "EWC 100": row(0.7, 0.8)}
    assert _chosen(rows) == {"EWC": "EWC 100"}


def test_the_mean_over_orders_stands_before_each_order_and_is_drawn_alone(found):
    figures = found["encoders"]["tiny"]
    only = {name: one for name, one in figures["orders"]["1"].items() if name != "domains"}
    figures["orders"] |= {"2": {**only, "domains": ["b", "a"]}, "all": only}
    assert shown_orders(figures) == ["all", "1", "2"]
    assert _drawn_orders(figures) == ["all"]
    only = {**only, "chosen": {"F": "F"}}  # a row that was not run in every order
    figures["orders"]["all"] = only
    assert shown_orders(figures) == _drawn_orders(figures) == ["1", "2"]


def test_slots_taken_away_are_told_of_rows_that_have_some(found):
    assert [line[2:5] for line in slots_taken_away(found).rows] == [["frozen+M", "85.0 ± 1.0", "50.0 ± 1.0"]]


def test_a_row_of_few_seeds_says_so_and_is_not_drawn(found, tmp_path):
    one = found["encoders"]["tiny"]["orders"]["1"]
    one["rows"]["F"]["seeds"] = [0]
    assert "| F (1 seed) | 80.0" in study_page(found)
    assert "F" not in _points(found["encoders"]["tiny"], one)
    assert "frozen+M" in _points(found["encoders"]["tiny"], one)


def test_unfinished_runs_are_shown_as_what_they_are(found):
    figures = found["encoders"]["tiny"]
    figures["so_far"] = {"1": {**figures["orders"]["1"], "domains": ["a"], "differences": {}}}
    page = study_page(found)
    assert "Unfinished, after the first 1 domains (a); 5 seeds." in page
    assert "| row | average so far, % |" in page


def test_the_picture_knows_what_it_was_drawn_from(found, tmp_path):
    (tmp_path / "small.json").write_text(json.dumps(found))
    draw_study(tmp_path, tmp_path / "picture.png")
    with Image.open(tmp_path / "picture.png") as picture:
        assert picture.text["Description"] == checksum(tmp_path)
