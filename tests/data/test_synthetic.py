"""The synthetic pairs follow their rules: balanced, contested in part, and none in two parts."""

from collections import Counter, defaultdict
from itertools import combinations

import pytest

from memgrow.data import synthetic_stream
from memgrow.data.synthetic import COMMON, LABELS, PLACES
from memgrow.errors import SettingsError


@pytest.fixture(scope="module")
def stream():
    return synthetic_stream(domains=6)


def everything(domain):
    return domain.train + domain.validation + domain.test


def words(domain):
    return {word for example in everything(domain) for text in example.texts for word in text.split()}


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


def test_sizes_are_as_asked_for():
    stream = synthetic_stream(domains=2, train=31, validation=0, test=7)
    assert [(len(d.train), len(d.validation), len(d.test)) for d in stream] == [(31, 0, 7)] * 2


def test_the_seed_decides_everything():
    assert list(synthetic_stream(seed=5)) == list(synthetic_stream(seed=5))
    assert synthetic_stream(seed=5)[0] != synthetic_stream(seed=6)[0]


def test_a_domain_does_not_depend_on_how_many_there_are_nor_its_test_on_the_other_sizes():
    assert list(synthetic_stream(domains=6)[:2]) == list(synthetic_stream(domains=2))
    assert synthetic_stream(train=10, validation=5)[0].test == synthetic_stream()[0].test


def test_labels_are_balanced_in_every_part(stream):
    for domain in stream:
        for part in (domain.train, domain.validation, domain.test):
            counts = Counter(example.label for example in part)
            assert set(counts) == set(LABELS)
            assert max(counts.values()) - min(counts.values()) <= 1


def test_no_pair_stands_in_two_parts_or_twice(stream):
    for domain in stream:
        pairs = [example.texts for example in everything(domain)]
        assert len(pairs) == len(set(pairs))


def test_no_pair_has_two_labels_in_the_whole_stream(stream):
    labels = defaultdict(set)
    for domain in stream:
        for example in everything(domain):
            labels[example.texts].add(example.label)
    assert all(len(given) == 1 for given in labels.values())


def test_texts_have_four_to_twelve_words_and_many_premises(stream):
    for domain in stream:
        assert {len(text.split()) for e in everything(domain) for text in e.texts} <= set(range(4, 13))
        assert len({example.text for example in domain.train}) > 600


def test_every_pair_tells_its_domain_apart_but_none_names_it(stream):
    for one, other in combinations(PLACES, 2):
        assert not set(one.things) & words(stream[other.name])
        assert not set(other.things) & words(stream[one.name])
    for place in PLACES:
        domain = stream[place.name]
        assert not set(stream.names) & words(domain)
        assert all(set(place.things) & set(text.split()) for e in everything(domain) for text in e.texts)


def test_each_domain_has_words_of_its_own_and_shares_the_rest(stream):
    for place in PLACES:
        domain = stream[place.name]
        others = set().union(*(words(other) for other in stream if other is not domain))
        assert poles(place.own) <= words(domain) - others
        assert poles(place.jargon) | poles(COMMON) <= words(domain) & others


def test_all_domains_agree_on_common_words(stream):
    seen = defaultdict(set)
    for domain in stream:
        for pair, labels in readings(domain, poles(COMMON)).items():
            seen[pair] |= labels
    assert seen
    assert all(len(labels) == 1 for labels in seen.values())


def test_each_domain_reads_the_jargon_in_one_way_and_each_two_in_opposite_ways(stream):
    jargon = poles(PLACES[0].jargon)
    read = {domain.name: readings(domain, jargon) for domain in stream}
    assert all(len(labels) == 1 for table in read.values() for labels in table.values())
    for one, other in combinations(read.values(), 2):
        turned = [pair for pair in one.keys() & other.keys() if one[pair] != other[pair]]
        assert len(turned) >= 8
        assert all(one[pair] | other[pair] == {"entailment", "contradiction"} for pair in turned)


def test_a_third_of_each_domain_is_contested(stream):
    jargon = poles(PLACES[0].jargon)
    for domain in stream:
        contested = [
            example for example in domain.train if example.label != "neutral" and set(example.text.split()) & jargon
        ]
        assert 0.3 < len(contested) / len(domain.train) < 0.4


def test_neither_sentence_alone_gives_the_label_away():
    (domain,) = synthetic_stream(domains=1, train=6000)
    for side in (0, 1):
        by_word = defaultdict(Counter)
        for example in domain.train:
            for word in set(example.texts[side].split()):
                by_word[word][example.label] += 1
        assert len(by_word) > 40
        assert all(max(counts.values()) < 0.45 * counts.total() for counts in by_word.values())


@pytest.mark.parametrize("domains", [0, -1, 7])
def test_more_domains_than_there_are_is_refused(domains):
    with pytest.raises(SettingsError, match=f"has 1 to 6 domains, so it cannot give {domains}"):
        synthetic_stream(domains=domains)


def test_a_negative_size_is_refused():
    with pytest.raises(SettingsError, match="the test part of a synthetic domain cannot have -1 pairs"):
        synthetic_stream(test=-1)


def test_asking_for_more_pairs_than_the_rules_can_make_is_refused(monkeypatch):
    monkeypatch.setattr("memgrow.data.synthetic.PREMISES", ("the {thing} was {word}",))
    monkeypatch.setattr("memgrow.data.synthetic.HYPOTHESES", ("it was a {word} {thing}",))
    with pytest.raises(SettingsError, match="kitchen is used up after"):
        synthetic_stream(domains=1, train=5000)
