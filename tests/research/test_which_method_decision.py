"""The rule by which a default is chosen, on scores that were made up."""

import random
from dataclasses import replace

import pytest

from research.which_method.candidates import Candidate, Family
from research.which_method.decision import Trials, check, choose, second_check, third_check

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


def asked_for_less(gain=0.0, forgets=-1.0, elsewhere=0.0, later=-1.0, fresh=True):
    """The second rule's answer where `cheap` has so much more of each than the baseline."""
    known = {"check 0": scores(5, cheap=elsewhere)} | ({"new": scores(6, cheap=gain)} if fresh else {})
    lost = {name: scores(7, cheap=later) for name in known}
    choosing = Trials(SEEDS, {"stream 0": scores(1)}, {"stream 0": scores(2, cheap=forgets)})
    return second_check(replace(FAMILY, second_stream="new"), "plain", choosing, Trials(SEEDS, known, lost))


def test_by_the_second_rule_who_is_level_and_forgets_less_becomes_the_default():
    found = asked_for_less()
    assert (found.asked, found.streams, found.default) == (("cheap",), ("check 0", "new"), "cheap")
    assert found.forgets.high < 0


@pytest.mark.parametrize(
    ("what", "asked"),
    [
        ({"forgets": 1.0}, ()),  # forgets more where the choice is made
        ({"elsewhere": -1.0}, ()),  # is below on a stream that was known
        ({"gain": -1.0}, ("cheap",)),  # is below on the new one
        ({"later": 1.0}, ("cheap",)),  # forgets more in the check
        ({"fresh": False}, ("cheap",)),  # was not run on the new one
    ],
)
def test_else_the_default_stays_as_it_was(what, asked):
    found = asked_for_less(**what)
    assert (found.asked, found.default) == (asked, "plain")


LATE = replace(
    FAMILY, late=(Candidate("mended", "F"), Candidate("other", "F")), late_of="dear", third_streams=("0", "1")
)


def third(gains, forgets=None, mends=1.0, loses=None, **more):
    """The third rule's answer, from what `mended` has more than all others on two streams, and `dear` than `old`."""
    choosing = Trials(SEEDS, {"a": scores(1, dear=mends), "b": scores(2, dear=mends)}, {})
    found = {str(number): scores(number + 5, mended=gain, **more) for number, gain in enumerate(gains)}
    lost = {
        name: scores(number + 9, **{"mended": forgets or 0.0, **(loses or {})}) for number, name in enumerate(found)
    }
    return third_check(LATE, "old", choosing, Trials(SEEDS, found, lost))


@pytest.mark.parametrize(
    ("gains", "forgets", "default"),
    [((0.0, 0.0), -1.0, "mended"), ((2.0, 2.0), 1.0, "old"), ((3.0, -1.0), -1.0, "old"), ((2.0, 2.0), 0.0, "mended")],
)
def test_by_the_third_rule_who_is_below_nobody_and_forgets_no_more_becomes_the_default(gains, forgets, default):
    found = third(gains, forgets)
    assert found.default == default
    assert found.asked["mended"].holds == (default == "mended")
    assert set(found.asked) == {"mended"} | ({"other"} if default == "old" else set())
