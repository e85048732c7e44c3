"""The rule by which a default is chosen, on scores that were made up."""

import random

import pytest

from research.which_method.candidates import Candidate, Family
from research.which_method.decision import check, choose

SEEDS = range(10)
FAMILY = Family("three", "", "plain", "old", tuple(Candidate(name, "F") for name in ("plain", "cheap", "dear", "old")))


def scores(seed=0, **gains):
    """On one stream: seeds differ by points, and candidates by their gains and a tenth of a point of chance."""
    chance = random.Random(seed)
    luck = {number: chance.gauss(0, 1) for number in SEEDS}
    every = {"plain": 0.0, "cheap": 0.0, "dear": 0.0, "old": 0.0} | gains
    return {name: {n: luck[n] + gain + chance.gauss(0, 0.1) for n in SEEDS} for name, gain in every.items()}


def chosen(*streams):
    return choose(FAMILY, {f"stream {number}": one for number, one in enumerate(streams)}, SEEDS)


def test_where_nobody_is_better_the_baseline_wins():
    for seed in range(6):
        found = chosen(scores(seed), scores(seed + 100))
        assert found.winner == "plain" or found.against[found.winner].p_holm < 0.05


def test_of_two_that_are_level_the_one_that_is_listed_first_wins():
    found = chosen(scores(1, cheap=1.0, dear=1.01), scores(2, cheap=1.0, dear=1.01))
    assert (found.winner, set(found.level)) == ("cheap", {"cheap", "dear"})


def test_who_is_clearly_below_on_one_stream_cannot_win_however_well_it_does_on_others():
    found = chosen(scores(1, dear=50.0), scores(2, dear=-2.0), scores(3, cheap=1.0))
    assert found.out == {"dear": "stream 1"}
    assert "dear" not in found.against


@pytest.mark.parametrize("missing", ["plain", "cheap"])
def test_a_stream_that_lacks_a_seed_counts_for_nobody(missing):
    whole, part = scores(1, cheap=1.0), scores(2, cheap=-9.0)
    del part[missing][9]
    found = chosen(whole, part)
    assert (found.streams, found.out) == (("stream 0",), {})
    assert found == chosen(whole)


def checked(*streams, gain=1.0, enough=2):
    choice = chosen(*(scores(seed, cheap=gain) for seed in range(enough)))
    return check(FAMILY, choice, {f"check {number}": one for number, one in enumerate(streams)}, SEEDS)


def test_a_winner_becomes_the_default_if_it_is_above_on_one_stream_and_below_on_none():
    assert checked(scores(5, cheap=1.0), scores(6)).default == "cheap"
    assert checked(scores(5, cheap=1.0), scores(6, cheap=-1.0)).default == "plain"
    level = checked(scores(5), scores(6))
    assert level.default == ("cheap" if level.above and not level.below else "plain")


def test_too_few_streams_change_no_default():
    few = checked(scores(5, cheap=1.0))
    assert (few.enough, few.default) == (False, "old")
    assert checked(scores(5, cheap=1.0), scores(6, cheap=1.0), enough=1).default == "old"
