"""The accuracy matrix against figures worked out by hand."""

import pytest

from memgrow.metrics import AccuracyMatrix


def build(*rows) -> AccuracyMatrix:
    matrix = AccuracyMatrix()
    for learned, scores in rows:
        matrix = matrix.with_row([learned] if isinstance(learned, str) else learned, scores)
    return matrix


@pytest.fixture
def full() -> AccuracyMatrix:
    return build(
        ("a", {"a": 0.8, "b": 0.4, "c": 0.3}),
        ("b", {"a": 0.9, "b": 0.7, "c": 0.5}),
        ("c", {"a": 0.6, "b": 0.65, "c": 0.75}),
    )


def test_the_average_is_that_of_the_last_row(full):
    assert full.average() == pytest.approx((0.6 + 0.65 + 0.75) / 3)


def test_backward_transfer_is_the_change_since_learning(full):
    assert full.backward_transfer() == pytest.approx(((0.6 - 0.8) + (0.65 - 0.7)) / 2)


def test_forgetting_is_the_loss_against_the_best_since_learning(full):
    assert full.forgetting() == pytest.approx(((0.9 - 0.6) + (0.7 - 0.65)) / 2)


def test_forgetting_does_not_count_what_was_known_before_learning():
    matrix = build(("a", {"a": 0.8, "b": 0.9}), ("b", {"a": 0.8, "b": 0.7}), ("c", {"a": 0.8, "b": 0.6, "c": 1.0}))
    assert matrix.forgetting() == pytest.approx(((0.8 - 0.8) + (0.7 - 0.6)) / 2)


def test_forgetting_is_below_zero_where_an_earlier_domain_gained():
    matrix = build(("a", {"a": 0.5}), ("b", {"a": 0.7, "b": 0.9}))
    assert matrix.forgetting() == pytest.approx(-0.2)
    assert matrix.backward_transfer() == pytest.approx(0.2)


def test_forward_transfer_is_what_is_known_just_before_learning(full):
    assert full.forward_transfer({"a": 0.3, "b": 0.35, "c": 0.25}) == pytest.approx(((0.4 - 0.35) + (0.5 - 0.25)) / 2)


def test_forward_transfer_takes_only_domains_with_a_baseline(full):
    assert full.forward_transfer({"c": 0.25}) == pytest.approx(0.5 - 0.25)
    assert full.forward_transfer({}) is None


def test_holes_are_left_out_of_every_mean():
    matrix = build(("a", {"a": 0.8}), ("b", {"b": 0.7}), ("c", {"a": 0.5, "c": 0.9}))
    assert matrix.average() == pytest.approx((0.5 + 0.9) / 2)
    assert matrix.backward_transfer() == pytest.approx(0.5 - 0.8)
    assert matrix.forgetting() == pytest.approx(0.8 - 0.5)
    assert matrix.forward_transfer({"b": 0.5, "c": 0.5}) is None


def test_an_accuracy_of_zero_is_no_hole():
    matrix = build(("a", {"a": 0.5, "b": 0.0}), ("b", {"a": 0.0, "b": 1.0}))
    assert matrix.average() == 0.5
    assert matrix.forgetting() == 0.5
    assert matrix.forward_transfer({"b": 0.25}) == -0.25


def test_one_stage_has_nothing_to_forget():
    matrix = build(("a", {"a": 0.8}))
    assert matrix.average() == 0.8
    assert matrix.forgetting() is matrix.backward_transfer() is matrix.forward_transfer({"a": 0.5}) is None


def test_an_empty_matrix_knows_nothing():
    matrix = AccuracyMatrix()
    assert matrix.domains == ()
    assert matrix.average() is matrix.forgetting() is matrix.backward_transfer() is None


def test_domains_learnt_together_were_learnt_in_one_stage():
    matrix = build((("a", "b"), {"a": 0.8, "b": 0.6}), ("c", {"a": 0.7, "b": 0.6, "c": 0.9}))
    assert matrix.learned_at() == {"a": 0, "b": 0, "c": 1}
    assert matrix.backward_transfer() == pytest.approx(((0.7 - 0.8) + 0) / 2)


def test_a_domain_learnt_again_counts_from_its_first_time():
    matrix = build(("a", {"a": 0.8}), ("b", {"a": 0.4, "b": 0.9}), ("a", {"a": 0.9, "b": 0.6}))
    assert matrix.learned_at() == {"a": 0, "b": 1}
    assert matrix.backward_transfer() == pytest.approx(((0.9 - 0.8) + (0.6 - 0.9)) / 2)


def test_domains_stand_in_the_order_of_learning_and_those_only_tested_at_the_end():
    matrix = build(("b", {"z": 0.1, "a": 0.2, "b": 0.3}), ("a", {"a": 0.4}))
    assert matrix.domains == ("b", "a", "z")


def test_a_matrix_grows_by_a_new_one(full):
    longer = full.with_row(["d"], {"d": 1.0})
    assert len(full.rows) == 3
    assert len(longer.rows) == 4


def test_a_matrix_survives_json(full):
    assert AccuracyMatrix.from_json(full.to_json()) == full
