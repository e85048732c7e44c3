"""Examples, domains and streams, and the fingerprints by which finished work is found again."""

from dataclasses import replace

from memgrow.data import Domain, Example, Stream
from memgrow.data.domain import domain_fingerprint

BOOKS = Domain("books", train=(Example("a", label="x"), Example("b", label="w")), test=(Example("c", label="x"),))
TOYS = Domain("toys")


def test_a_stream_is_walked_sliced_and_asked_by_name():
    stream = Stream([BOOKS, TOYS])
    assert list(stream) == [BOOKS, TOYS]
    assert stream[:1].names == ("books",)
    assert stream["toys"] is stream[-1] is TOYS


def test_a_fingerprint_changes_with_what_is_learnt_from_and_with_nothing_else():
    assert BOOKS.fingerprint() == replace(BOOKS, test=()).fingerprint()
    moved = replace(BOOKS, train=BOOKS.train[:1], validation=BOOKS.train[1:])
    relabelled = replace(BOOKS, train=(BOOKS.train[0], Example("b", label="x")))
    renamed = replace(BOOKS, name="tomes")
    prints = {domain.fingerprint() for domain in (BOOKS, moved, relabelled, renamed)}
    assert len(prints) == 4


def test_a_reply_is_part_of_a_fingerprint():
    prints = {Domain("books", (Example("a", reply=reply),)).fingerprint() for reply in (None, "", "b", "c")}
    assert len(prints) == 4


def test_fingerprints_are_those_of_the_records_that_were_made_with_them():
    domain = Domain("books", (Example("a", "b", "x"),), (Example("c", label="y"),), (Example("d", reply="e"),))
    assert domain.fingerprint() == "532694e76cde7c36273dcf8f65139e23874c3c370a2e2002664daa947123767a"
    assert domain_fingerprint(domain) == "ca539816aab3f7d511d67273"
