"""A download is whole and right, or an error that says what to do; it never starts over without need."""

import socket
from dataclasses import replace

import pytest

from memgrow.data.corpora.download import CHUNK, download
from memgrow.errors import DataError
from tests.support.archives import Web, checksum_of, serving

CONTENT = bytes(range(256)) * (CHUNK // 256 * 3) + b"the end"
CHECKSUM = checksum_of(CONTENT)


@pytest.fixture
def target(tmp_path):
    return tmp_path / "archive.zip"


@pytest.fixture
def part(tmp_path):
    return tmp_path / "archive.zip.part"


@pytest.fixture
def web():
    with serving(Web(CONTENT)) as web:
        yield web


def refusal(web, target, checksum=CHECKSUM):
    with pytest.raises(DataError) as caught:
        download(web.url, target, checksum)
    assert not target.exists()
    return str(caught.value)


def test_a_file_comes_whole_under_its_name_and_nothing_else_is_left(web, target):
    seen = []
    assert download(web.url, target, CHECKSUM, lambda *told: seen.append(told)) == target
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]
    assert web.asked == [None]
    fetched = [done for doing, done, total in seen if doing.startswith("downloading") and total == len(CONTENT)]
    assert fetched == sorted(fetched)
    assert fetched[-1] == len(CONTENT)


@pytest.mark.parametrize("have", [1, CHUNK + 7, len(CONTENT) - 1])
def test_it_goes_on_from_what_is_there(web, target, part, have):
    part.write_bytes(CONTENT[:have])
    download(web.url, target, CHECKSUM)
    assert web.asked == [f"bytes={have}-"]
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("name", ["archive.zip", "archive.zip.part"])
def test_what_is_whole_already_is_not_asked_for(web, target, name):
    target.with_name(name).write_bytes(CONTENT)
    assert download(web.url, target, CHECKSUM).read_bytes() == CONTENT
    assert web.asked == []


def test_a_connection_that_breaks_is_taken_up_again_as_long_as_bytes_come(web, target):
    web.breaks = [1000, 2000, 3000]
    download(web.url, target, CHECKSUM)
    assert web.asked == [None, "bytes=1000-", "bytes=3000-", "bytes=6000-"]
    assert target.read_bytes() == CONTENT


def test_a_download_that_breaks_off_for_good_keeps_what_it_has_and_says_how_to_go_on(web, target, part):
    web.breaks = [1000, 0]
    told = refusal(web, target)
    assert "broke off" in told
    assert "run the same command again" in told
    assert part.read_bytes() == CONTENT[:1000]
    download(web.url, target, CHECKSUM)
    assert target.read_bytes() == CONTENT


def test_an_end_that_nobody_announced_is_noticed_all_the_same(web, target):
    web.announces, web.breaks = False, [1000, 0]
    assert "broke off" in refusal(web, target)


def test_a_server_that_sends_whole_files_only_is_asked_from_the_beginning(web, target, part):
    web.ranges = False
    part.write_bytes(b"x" * 5000)  # were it appended to, the checksum would be wrong
    download(web.url, target, CHECKSUM)
    assert target.read_bytes() == CONTENT


def test_a_server_that_always_breaks_off_at_the_same_place_is_not_asked_for_ever(web, target):
    web.ranges, web.breaks = False, [1000] * 50
    assert "broke off" in refusal(web, target)
    assert len(web.asked) == 2


def test_another_piece_than_was_asked_for_is_not_used(web, target, part):
    web.shift = 3
    part.write_bytes(CONTENT[:1000])
    refusal(web, target)
    assert not part.exists()


@pytest.mark.parametrize("have", [0, 1000])
def test_a_file_of_another_length_is_refused_before_it_is_fetched(web, target, part, have):
    web.content = CONTENT + b"more"
    part.write_bytes(CONTENT[:have])
    assert f"{len(CONTENT) + 4:,} bytes and not {len(CONTENT):,}" in refusal(web, target)
    assert part.read_bytes() == CONTENT[:have]


def test_a_file_that_does_not_end_is_not_fetched_for_ever(web, target, part):
    web.content, web.announces = CONTENT * 20, False
    assert "bytes and not" in refusal(web, target)
    assert not part.exists()


@pytest.mark.parametrize("have", [0, 1000])
def test_a_wrong_checksum_is_told_and_the_next_try_starts_anew(web, target, part, have):
    part.write_bytes(b"?" * have)
    web.content = b"!" + CONTENT[1:]
    assert "SHA-256" in refusal(web, target)
    assert not part.exists()
    web.content = CONTENT
    download(web.url, target, CHECKSUM)
    assert web.asked[-1] is None


@pytest.mark.parametrize(("status", "told"), [(404, "404 Not Found"), (416, "416"), (503, "503 Service Unavailable")])
def test_what_the_server_answers_is_told(web, target, part, status, told):
    web.status = status
    part.write_bytes(CONTENT[:9])
    assert told in refusal(web, target)
    assert part.exists()


def test_a_server_out_of_reach_is_told(web, target):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        web.url = f"http://127.0.0.1:{taken.getsockname()[1]}/archive.zip"
        assert "cannot be reached (Connection refused); check the network" in refusal(web, target)


@pytest.mark.parametrize("url", ["http://no such host/", "http://", "http://[1/x"])
def test_an_address_that_is_none_is_told(web, target, url):
    web.url = url
    assert "cannot be reached" in refusal(web, target)


def test_a_size_that_nobody_published_is_the_servers_word_and_the_checksum_still_counts(web, target):
    checksum = replace(CHECKSUM, size=None)
    web.breaks = [0, 1000]
    assert download(web.url, target, checksum).read_bytes() == CONTENT
    assert web.asked == [None, None, "bytes=1000-"]
    target.unlink()
    web.content = b"!" + CONTENT[1:]
    assert "SHA-256" in refusal(web, target, checksum)
    web.content, web.announces = CONTENT, False
    assert "does not say how long it is" in refusal(web, target, checksum)
