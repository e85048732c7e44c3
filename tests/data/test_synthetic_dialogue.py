"""The synthetic dialogues follow their rules: short, contested in part, and told apart by whom they ask."""

from collections import defaultdict
from itertools import combinations

import pytest

from memgrow.data import synthetic_dialogue
from memgrow.data.synthetic_dialogue import DESKS, agreed, contested, own
from memgrow.data.text import tokenize
from memgrow.errors import SettingsError


@pytest.fixture(scope="module")
def stream():
    return synthetic_dialogue(domains=3)


def everything(domain):
    return domain.train + domain.validation + domain.test


def words(domain):
    return {word for one in everything(domain) for text in (one.text, one.reply) for word in tokenize(text)}


def replies(desk, kind):
    return {question: topic.reply for topic in kind(desk) for question in topic.questions}


def kind_of(example, desk):
    """Which kind of question a message is, whomever it asks."""
    return next(
        kind.__name__
        for kind in (own, contested, agreed)
        if any(question in example.text and reply == example.reply for question, reply in replies(desk, kind).items())
    )


def test_sizes_are_as_asked_for():
    stream = synthetic_dialogue(domains=2, train=31, validation=0, test=7)
    assert [(len(d.train), len(d.validation), len(d.test)) for d in stream] == [(31, 0, 7)] * 2


def test_by_default_there_are_two_domains_to_be_answered():
    stream = synthetic_dialogue()
    assert stream.names == ("kitchen", "harbour")
    assert all(d.has_replies and d.labels == () and all(one.pair is None for one in everything(d)) for d in stream)


def test_the_seed_decides_everything():
    assert list(synthetic_dialogue(seed=5)) == list(synthetic_dialogue(seed=5))
    assert synthetic_dialogue(seed=5)[0] != synthetic_dialogue(seed=6)[0]


def test_a_domain_does_not_depend_on_how_many_there_are_nor_its_test_on_the_other_sizes(stream):
    assert list(stream[:2]) == list(synthetic_dialogue(domains=2))
    assert set(synthetic_dialogue(train=10, validation=5)[0].test) == set(stream[0].test)


def test_no_message_stands_in_two_parts_or_twice_or_in_two_domains(stream):
    messages = [one.text for domain in stream for one in everything(domain)]
    assert len(messages) == len(set(messages))


def test_messages_have_three_to_ten_words_and_replies_two_to_eight():
    for domain in synthetic_dialogue(domains=3, train=3000, validation=300, test=300):
        assert {len(tokenize(one.text)) for one in everything(domain)} <= set(range(3, 11))
        assert {len(tokenize(one.reply)) for one in everything(domain)} <= set(range(2, 9))


def test_texts_are_written_as_the_tokeniser_takes_them_apart(stream):
    for domain in stream:
        assert all(" ".join(tokenize(text)) == text for one in everything(domain) for text in (one.text, one.reply))


def test_each_domain_has_words_of_its_own_and_its_messages_ask_its_own_people(stream):
    for desk in DESKS:
        domain = stream[desk.name]
        others = set().union(*(words(other) for other in stream if other is not domain))
        assert set(desk.people) | set(desk.own_things) | set(desk.own_numbers) <= words(domain) - others
        assert all(set(desk.people) & set(tokenize(one.text)) for one in everything(domain))
        assert len(words(domain) & others) > 50


def test_every_two_desks_answer_each_contested_question_otherwise_and_each_agreed_one_alike():
    for one, other in combinations(DESKS, 2):
        ours, theirs = replies(one, contested), replies(other, contested)
        assert ours.keys() == theirs.keys()
        assert all(ours[question] != theirs[question] for question in ours)
        assert replies(one, agreed) == replies(other, agreed)
        assert not {topic.reply for topic in own(one)} & {topic.reply for topic in own(other)}


def test_a_desk_has_one_reply_to_each_question():
    for desk in DESKS:
        given = defaultdict(set)
        for kind in (contested, own, agreed):
            for topic in kind(desk):
                for question in topic.questions:
                    given[question].add(topic.reply)
        assert all(len(said) == 1 for said in given.values())


def test_half_of_every_part_is_contested(stream):
    for desk in DESKS:
        for part in (stream[desk.name].train, stream[desk.name].test):
            kinds = [kind_of(one, desk) for one in part]
            assert kinds.count("contested") == len(part) // 2


def test_what_is_tested_has_been_taught_in_other_words(stream):
    for domain in stream:
        assert {one.reply for one in domain.test} <= {one.reply for one in domain.train}


@pytest.mark.parametrize("domains", [0, -1, 4])
def test_more_domains_than_there_are_is_refused(domains):
    with pytest.raises(SettingsError, match=f"have 1 to 3 domains, so they cannot give {domains}"):
        synthetic_dialogue(domains=domains)


def test_a_negative_size_and_one_beyond_the_rules_are_refused():
    with pytest.raises(SettingsError, match="the test part of a synthetic domain cannot have -1 pairs"):
        synthetic_dialogue(test=-1)
    with pytest.raises(SettingsError, match="kitchen has too few messages for parts of 9000, 200, 300 pairs"):
        synthetic_dialogue(train=9000)
