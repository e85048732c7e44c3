"""The synthetic streams follow their rules: balanced, contested in part, told apart by their words."""

from collections import Counter, defaultdict
from itertools import combinations

import pytest

from memgrow.data import synthetic_stream
from memgrow.data.domain import domain_fingerprint
from memgrow.data.synthetic import COMMON, LABELS, places
from memgrow.errors import SettingsError
from research.common.dialogues import synthetic_dialogue


@pytest.fixture(scope="module")
def pairs():
    return synthetic_stream(domains=6)


@pytest.fixture(scope="module")
def talks():
    return synthetic_dialogue(domains=3)


def everything(domain):
    return domain.train + domain.validation + domain.test


def words(domain):
    return {word for one in everything(domain) for text in (*one.texts, one.reply or "") for word in text.split()}


def poles(scales):
    return {word for scale in scales for pole in scale for word in pole}


def readings(domain, vocabulary):
    """The labels that a domain gives to each two words of a vocabulary."""
    seen = defaultdict(set)
    for example in everything(domain):
        said = [set(text.split()) & vocabulary for text in example.texts]
        if all(said):
            ((premise,), (hypothesis,)) = said
            seen[premise, hypothesis].add(example.label)
    return seen


@pytest.mark.parametrize("make", [synthetic_stream, synthetic_dialogue])
def test_sizes_and_seed_decide_a_stream(make):
    stream = make(domains=2, train=31, validation=0, test=7)
    assert [(len(d.train), len(d.validation), len(d.test)) for d in stream] == [(31, 0, 7)] * 2
    assert list(make(seed=5)) == list(make(seed=5))
    assert make(seed=5)[0] != make(seed=6)[0]
    assert list(make(domains=3)[:2]) == list(make(domains=2))
    assert set(make(train=10, validation=5)[0].test) == set(make()[0].test)


def test_the_streams_are_those_of_the_records_that_were_made_with_them(pairs, talks):
    prints = [domain_fingerprint(domain) for stream in (pairs, talks) for domain in stream]
    known = [
        "98a765fc292cf800c3fc687f",
        "2c1724209badaa2b7b90855a",
        "80e2162977225d2c58a0064c",
        "0f5ac285215e2adcd810323d",
    ]
    assert [prints[0], prints[5], prints[6], prints[8]] == known


def test_no_pair_comes_twice_and_labels_are_balanced_in_every_part(pairs):
    every = [example.texts for domain in pairs for example in everything(domain)]
    assert len(every) == len(set(every))
    for domain in pairs:
        for part in (domain.train, domain.validation, domain.test):
            counts = Counter(example.label for example in part)
            assert set(counts) == set(LABELS)
            assert max(counts.values()) - min(counts.values()) <= 1


def test_domains_agree_on_common_words_and_each_two_disagree_on_jargon(pairs):
    common = defaultdict(set)
    for domain in pairs:
        for pair, labels in readings(domain, set(COMMON.split())).items():
            common[pair] |= labels
    assert common
    assert all(len(labels) == 1 for labels in common.values())
    read = [readings(domain, poles(places()[0].jargon)) for domain in pairs]
    assert all(len(labels) == 1 for table in read for labels in table.values())
    for one, other in combinations(read, 2):
        turned = [pair for pair in one.keys() & other.keys() if one[pair] != other[pair]]
        assert len(turned) >= 8
        assert all(one[pair] | other[pair] == {"entailment", "contradiction"} for pair in turned)


@pytest.mark.parametrize(("make", "most"), [(synthetic_stream, 6), (synthetic_dialogue, 3)])
def test_what_the_rules_cannot_make_is_refused(make, most, monkeypatch):
    for given in ({"domains": 0}, {"domains": most + 1}, {"test": -1}):
        with pytest.raises(SettingsError, match="synthetic domain"):
            make(**given)
    monkeypatch.setattr("memgrow.data.synthetic.PREMISES", ("the {thing} was {word}",))
    monkeypatch.setattr("memgrow.data.synthetic.HYPOTHESES", ("it was a {word} {thing}",))
    with pytest.raises(SettingsError, match="ask for fewer"):
        make(domains=1, train=9000)
