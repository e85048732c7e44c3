from dataclasses import replace

import pytest

from memgrow.data import Domain, Example, Stream
from memgrow.errors import DataError

BOOKS = Domain("books", train=(Example("a", label="x"), Example("b", label="w")), test=(Example("c", label="x"),))
TOYS = Domain("toys")


def test_a_stream_is_walked_sliced_and_asked_by_name():
    stream = Stream([BOOKS, TOYS])
    assert list(stream) == [BOOKS, TOYS]
    assert stream[:1].names == ("books",)
    assert stream["toys"] is stream[-1] is TOYS


def test_an_unknown_domain_is_refused_with_those_there_are():
    with pytest.raises(DataError, match="no domain 'dvd' in this stream; it has books, toys"):
        Stream([BOOKS, TOYS])["dvd"]


def test_a_domain_cannot_come_twice():
    with pytest.raises(DataError, match="books comes more than once"):
        Stream([BOOKS, TOYS, BOOKS])


def test_labels_are_those_of_the_training_part_in_alphabetical_order():
    assert BOOKS.labels == ("w", "x")
    assert TOYS.labels == ()


def test_a_fingerprint_changes_with_what_is_learnt_from_and_with_nothing_else():
    assert BOOKS.fingerprint() == replace(BOOKS, test=()).fingerprint()
    moved = replace(BOOKS, train=BOOKS.train[:1], validation=BOOKS.train[1:])
    relabelled = replace(BOOKS, train=(BOOKS.train[0], Example("b", label="x")))
    renamed = replace(BOOKS, name="tomes")
    prints = {domain.fingerprint() for domain in (BOOKS, moved, relabelled, renamed)}
    assert len(prints) == 4


def test_where_an_example_stands_is_not_part_of_what_it_is():
    assert Example("a", where="x.csv, line 2") == Example("a", where="y.csv, line 9")
