"""Parts are drawn whole group by whole group, whatever the order of the rows."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memgrow.data import Example, draw
from memgrow.data.load import fair_slice
from memgrow.errors import SettingsError

groupings = st.lists(st.integers(0, 40).map(str), min_size=1, max_size=200)


def groups_of(drawn, groups):
    return {part: {groups[index] for index in members} for part, members in drawn.items()}


@given(groupings, st.integers(), st.randoms(use_true_random=False))
def test_parts_have_whole_groups_about_the_sizes_asked_for_and_do_not_depend_on_the_order(groups, seed, rng):
    drawn = draw(range(len(groups)), groups, seed=seed)
    assert sorted(index for members in drawn.values() for index in members) == list(range(len(groups)))
    sides = groups_of(drawn, groups)
    assert sum(map(len, sides.values())) == len(set(groups))  # no group is in two parts
    assert sum(1 for members in drawn.values() if members) == min(3, len(set(groups)))
    largest = max(groups.count(group) for group in set(groups))
    for part, share in (("train", 0.8), ("validation", 0.1), ("test", 0.1)):
        assert abs(len(drawn[part]) - share * len(groups)) <= 3 * largest
    shuffled = rng.sample(groups, len(groups))
    assert sides == groups_of(draw(range(len(groups)), shuffled, seed=seed), shuffled)


def test_the_seed_decides_and_nothing_else():
    groups = [str(i) for i in range(100)]
    assert draw(groups, groups, seed=1) == draw(groups, groups, seed=1)
    assert draw(groups, groups, seed=1) != draw(groups, groups, seed=2)
    # Written down once, so that a new version cannot quietly move examples from test to train.
    assert draw(groups, groups)["test"] == ("1", "30", "41", "43", "48", "60", "66", "79", "81", "82")


def test_parts_may_be_named_and_a_share_of_nothing_stays_empty():
    halves = draw(range(10), [str(i) for i in range(10)], {"validation": 0.5, "test": 0.5})
    assert {part: len(members) for part, members in halves.items()} == {"validation": 5, "test": 5}
    assert draw(range(2), ["a", "b"], (0.5, 0, 0.5))["validation"] == ()


@pytest.mark.parametrize("fractions", [(), (0.5, 0.1), (1.2, -0.2), (0.25,) * 4, {"train": 0.5}])
def test_fractions_that_make_no_whole_are_refused(fractions):
    with pytest.raises(SettingsError, match="add up to 1"):
        draw(["a"], ["a"], fractions)


def test_a_fair_slice_is_nested_ordered_and_blind_to_the_order_of_the_rows():
    examples = [Example(f"text {i}", label="ab"[i % 2]) for i in range(200)]
    large, small = fair_slice(examples, 50), fair_slice(examples, 20)
    assert (len(large), len(small)) == (50, 20)
    assert set(small) < set(large)
    assert list(large) == [example for example in examples if example in set(large)]
    shuffled = random.Random(0).sample(examples, len(examples))
    assert set(fair_slice(shuffled, 50)) == set(large)
    assert set(fair_slice(examples, 50, seed=1)) != set(large)
