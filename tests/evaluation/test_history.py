"""The accuracy matrix against figures worked out by hand, and histories of every format."""

import pytest

from memgrow.evaluation.history import AccuracyMatrix, History, Stage


def build(*rows) -> AccuracyMatrix:
    matrix = AccuracyMatrix()
    for learned, scores in rows:
        matrix = matrix.with_row(learned.split("+"), scores)
    return matrix


FULL = build(
    ("a", {"a": 0.8, "b": 0.4, "c": 0.3}),
    ("b", {"a": 0.9, "b": 0.7, "c": 0.5}),
    ("c", {"a": 0.6, "b": 0.65, "c": 0.75}),
)
BASELINE = {"a": 0.3, "b": 0.35, "c": 0.25}


@pytest.mark.parametrize(
    ("matrix", "average", "forgetting", "backward", "forward"),
    [
        (FULL, 2 / 3, 0.175, -0.125, 0.15),
        # a score before learning is no best score
        (
            build(("a", {"a": 0.8, "b": 0.9}), ("b", {"a": 0.8, "b": 0.7}), ("c", {"b": 0.6, "c": 1.0})),
            0.8,
            0.1,
            -0.1,
            0.55,
        ),
        # holes are left out of every mean
        (build(("a", {"a": 0.8}), ("b", {"b": 0.7}), ("c", {"a": 0.5, "c": 0.9})), 0.7, 0.3, -0.3, None),
        # zero is no hole
        (build(("a", {"a": 0.5, "b": 0.0}), ("b", {"a": 0.0, "b": 1.0})), 0.5, 0.5, -0.5, -0.35),
        # gain is negative forgetting
        (build(("a", {"a": 0.5}), ("b", {"a": 0.7, "b": 0.9})), 0.8, -0.2, 0.2, None),
        (build(("a+b", {"a": 0.8, "b": 0.6}), ("c", {"a": 0.7, "b": 0.6, "c": 0.8})), 0.7, 0.05, -0.05, None),
        # a domain learned again counts from the first time
        (build(("a", {"a": 0.8}), ("b", {"a": 0.4, "b": 0.9}), ("a", {"a": 0.9, "b": 0.7})), 0.8, 0.05, -0.05, None),
        (build(("a", {"a": 0.8})), 0.8, None, None, None),
        (AccuracyMatrix(), None, None, None, None),
    ],
)
def test_average_forgetting_and_transfer(matrix, average, forgetting, backward, forward):
    found = (
        matrix.average(),
        matrix.forgetting(),
        matrix.backward_transfer(),
        matrix.forward_transfer(BASELINE),
    )
    assert found == pytest.approx((average, forgetting, backward, forward))


def test_domains_are_ordered_by_learning_and_those_only_tested_come_last():
    assert build(("b", {"z": 0.1, "a": 0.2, "b": 0.3}), ("a", {"a": 0.4})).domains == ("b", "a", "z")


def test_json_round_trip_and_the_stage_of_version_0_1_0():
    assert AccuracyMatrix.from_json(FULL.to_json()) == FULL
    old = {
        "learned": ["a"],
        "method": "finetune",
        "grew": {"slots": 1, "hidden": 0, "words": 2, "columns": 1},
        "parameters": 10,
        "examples": 5,
        "epochs": 3,
        "best_epoch": 2,
        "validation": 0.5,
        "seconds": 1.0,
        "fingerprint": "x",
        "note": {},
    }
    stage = Stage.from_json(old)
    assert (stage.date, stage.curve.validation) == (None, ())
    assert stage.to_json() | {"learned": ["a"]} == old
    history = History([stage], FULL, {"a": 0.5})
    again = History.from_json(history.to_json(), {"a": ["x", "y"]})
    assert (again.stages, again.matrix, again.baseline) == (history.stages, FULL, {"a": 0.5})
    assert again.labels == {"a": ("x", "y")}
    assert again.find("x") == stage
    assert again.find("y") is None
