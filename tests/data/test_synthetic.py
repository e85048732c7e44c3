"""The synthetic streams follow their rules: balanced, contested in part, told apart by their words."""

import pytest

from memgrow.data import synthetic_stream
from memgrow.data.domain import domain_fingerprint
from memgrow.errors import SettingsError
from research.common.dialogues import synthetic_dialogue


@pytest.fixture(scope="module")
def pairs():
    return synthetic_stream(domains=6)


@pytest.fixture(scope="module")
def talks():
    return synthetic_dialogue(domains=3)


@pytest.mark.parametrize("make", [synthetic_stream, synthetic_dialogue])
def test_sizes_and_seed_decide_a_stream(make):
    stream = make(domains=2, train=31, validation=0, test=7)
    assert [(len(d.train), len(d.validation), len(d.test)) for d in stream] == [(31, 0, 7)] * 2
    few = {"train": 30, "validation": 9, "test": 60}
    assert list(make(seed=5, **few)) == list(make(seed=5, **few))
    assert make(seed=5, **few)[0] != make(seed=6, **few)[0]
    assert list(make(domains=3, **few)[:2]) == list(make(domains=2, **few))
    assert set(make(train=10, validation=5, test=60)[0].test) == set(make(**few)[0].test)


def test_the_streams_are_those_of_the_records_that_were_made_with_them(pairs, talks):
    prints = [domain_fingerprint(domain) for stream in (pairs, talks) for domain in stream]
    known = [
        "98a765fc292cf800c3fc687f",
        "2c1724209badaa2b7b90855a",
        "80e2162977225d2c58a0064c",
        "0f5ac285215e2adcd810323d",
    ]
    assert [prints[0], prints[5], prints[6], prints[8]] == known


@pytest.mark.parametrize(("make", "most"), [(synthetic_stream, 6), (synthetic_dialogue, 3)])
def test_what_the_rules_cannot_make_is_refused(make, most, monkeypatch):
    for given in ({"domains": 0}, {"domains": most + 1}, {"test": -1}):
        with pytest.raises(SettingsError, match="synthetic domain"):
            make(**given)
    monkeypatch.setattr("memgrow.data.synthetic.PREMISES", ("the {thing} was {word}",))
    monkeypatch.setattr("memgrow.data.synthetic.HYPOTHESES", ("it was a {word} {thing}",))
    with pytest.raises(SettingsError, match="ask for fewer"):
        make(domains=1, train=9000)
