"""Ratings become labels: clear ones only, each text once, and no review on two sides."""

import io
import json
import tarfile

import pytest

from memgrow.data.corpora.sentiment import FILES, INNER, RATINGS, open_sentiment, read_ratings, unpack_sentiment
from memgrow.errors import DataError
from tests.support.archives import rating_lines, sentiment_package, zipped


def labels(raw):
    return {sentence.text: sentence.label for sentence in read_ratings(raw)[0]}


def left_out(raw):
    return dict(read_ratings(raw)[1])


@pytest.fixture
def unpack(tmp_path):
    def unpack_content(content):
        archive, folder = tmp_path / "package.zip", tmp_path / "sentiment"
        archive.write_bytes(content)
        folder.mkdir()
        return unpack_sentiment(archive, folder), folder

    return unpack_content


def test_a_rating_beyond_one_half_is_a_label_and_any_other_is_left_out_and_counted():
    raw = b"1\t0.51\ta\r\n2\t-0.51\tb\r\n3\t0.5\tc\r\n4\t-0.5\td\r\n5\t0\te\r\n6\tnan\tf\r\n"
    assert labels(raw) == {"a": "positive", "b": "negative"}
    assert left_out(raw) == {"rated between -0.5 and +0.5": 4}


def test_a_text_stays_once_and_not_at_all_if_it_was_rated_both_ways():
    raw = b"1_1\t2\tgood\n2_1\t3\tgood\n3_1\t2\tso\n3_2\t-2\tso\n4_1\t0.1\tgood\n"
    assert labels(raw) == {"good": "positive"}
    assert left_out(raw) == {
        "the same text again": 1,
        "the same text rated both ways": 2,
        "rated between -0.5 and +0.5": 1,
    }


def test_a_row_without_rating_or_text_is_counted_and_an_empty_line_is_none():
    assert left_out(b"id\tmean\ttext\n\r\n7\t1.5\t \n8\n9\t2\tfine\n") == {"without a rating and a text": 3}


def test_texts_are_read_in_either_encoding_and_with_their_signs_spelt_out():
    raw = "1\t2\tcafé &amp; bar\n".encode() + "2\t2\tthé &lt;3\n".encode("latin-1") + b"3\t2\ta  tab\there\n"
    assert list(labels(raw)) == ["café & bar", "thé <3", "a tab here"]


def test_each_domain_is_a_file_and_what_was_kept_and_left_out_is_told(unpack):
    told, folder = unpack(sentiment_package(tweets=rating_lines("tweets", 40) + b"41\t0.2\tmeh\r\n"))
    assert {path.name for path in folder.iterdir()} == {*FILES, "LICENSE.txt"}
    assert told[0] == "films: 20 positive and 20 negative sentences"
    assert told[3] == "tweets: 20 positive and 20 negative sentences (left out: 1 rated between -0.5 and +0.5)"


def test_the_stream_has_four_domains_with_three_parts_that_share_no_review(unpack):
    _, folder = unpack(sentiment_package())
    stream = open_sentiment(folder).stream
    assert stream.names == tuple(RATINGS) == ("films", "products", "editorials", "tweets")
    for domain in stream:
        assert domain.labels == ("negative", "positive")
        assert len(domain.train) > len(domain.test) > len(domain.validation) > 0
        assert len(domain.train) + len(domain.test) + len(domain.validation) == 40
        rows = [json.loads(line) for line in (folder / f"{domain.name}.jsonl").read_text().splitlines()]
        assert len({(row["group"], row["split"]) for row in rows}) == len({row["group"] for row in rows}) == 10


def test_the_same_archive_gives_the_same_files(unpack, tmp_path):
    _, folder = unpack(sentiment_package())
    again = tmp_path / "again"
    again.mkdir()
    unpack_sentiment(tmp_path / "package.zip", again)
    assert [(folder / name).read_bytes() for name in FILES] == [(again / name).read_bytes() for name in FILES]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"no archive at all", "cannot be unpacked"),
        (zipped({"vaderSentiment-0.5/setup.py": b""}), "holds no file"),
        (zipped({f"vaderSentiment-0.5/{INNER}": b"no tar"}), "cannot be unpacked"),
        (sentiment_package()[:-400], "cannot be unpacked"),
    ],
)
def test_an_archive_that_is_not_the_one_meant_is_told(unpack, content, told):
    with pytest.raises(DataError, match=told):
        unpack(content)


def test_a_link_in_place_of_ratings_is_not_followed(unpack, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(rating_lines("secret"))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in RATINGS.values():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, str(secret)
            archive.addfile(info)
    with pytest.raises(DataError, match="holds no file"):
        unpack(zipped({f"top/{INNER}": buffer.getvalue(), "top/LICENSE.txt": b""}))
