"""Messages and replies go the way of all data: files, parts, notices, a sentence for what cannot be used."""

import json
import re
from itertools import combinations

import pytest

from memgrow.data import (
    Columns,
    Domain,
    Example,
    load_for_evaluation,
    load_rows,
    load_stream,
    read_unlabelled,
    synthetic_dialogue,
    write_jsonl,
)
from memgrow.data.splits import fair_slice
from memgrow.errors import DataError


def sizes(domain):
    return len(domain.train), len(domain.validation), len(domain.test)


def everything(domain):
    return domain.train + domain.validation + domain.test


def refusal(*paths, **options):
    with pytest.raises(DataError) as caught:
        load_stream(paths, **options)
    return str(caught.value)


@pytest.fixture
def talk(write_rows):
    """Write this many pairs, two replies to each message; what is given by name joins each row."""

    def write_file(name, count=100, **further):
        rows = [{"message": f"{name} asks {i // 2}", "response": f"reply {i}", **further} for i in range(count)]
        return write_rows(name, rows)

    return write_file


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "csv.gz", "tsv.gz", "jsonl.gz"])
def test_every_format_holds_pairs(write, ending):
    separator = {"csv": ",", "tsv": "\t"}.get(ending.removesuffix(".gz"))
    rows = [(f"question {i}", f"answer {i}") for i in range(20)]
    if separator:
        lines = [separator.join(row) for row in [("message", "response"), *rows]]
    else:
        lines = [json.dumps({"message": message, "response": reply}) for message, reply in rows]
    (domain,) = load_stream(write(f"talk.{ending}", "\n".join(lines) + "\n")).stream
    assert sizes(domain) == (16, 2, 2)
    assert {(one.text, one.pair, one.label, one.reply) for one in everything(domain)} == {
        (message, None, None, reply) for message, reply in rows
    }
    assert domain.labels == ()
    assert domain.has_replies


def test_quotes_in_a_tsv_are_part_of_what_was_said(write):
    (domain,) = load_stream(write("talk.tsv", 'message\tresponse\n"no" he said\t"why\n')).stream
    assert domain.train[0] == Example('"no" he said', reply='"why')


def test_replies_to_one_message_never_stand_in_two_parts(talk):
    loaded = load_stream(talk("talk.jsonl", 200))
    assert sizes(loaded.stream[0]) == (160, 20, 20)
    parts = [{one.text for one in part} for part in (loaded.stream[0].train, loaded.stream[0].validation)]
    parts.append({one.text for one in loaded.stream[0].test})
    assert all(one.isdisjoint(other) for one, other in combinations(parts, 2))
    assert loaded.notices == ("validation (10%) and test (10%) were drawn from talk.jsonl by text",)


def test_parts_come_from_file_names_split_columns_and_domain_columns_as_ever(talk, write_rows):
    assert sizes(
        load_stream([talk("talk_train.jsonl"), talk("talk_dev.jsonl", 6), talk("talk_test.jsonl", 4)]).stream[0]
    ) == (100, 6, 4)
    assert sizes(load_stream(talk("x.jsonl", 10, split="dev")).stream[0]) == (0, 10, 0)
    rows = [{"message": f"m{i}", "response": "r", "desk": "ab"[i % 2]} for i in range(40)]
    stream = load_stream(write_rows("all.jsonl", rows), columns=Columns(by="desk")).stream
    assert stream.names == ("a", "b")


def test_evaluation_reads_replies_whatever_the_file_is_called(talk):
    (domain,) = load_for_evaluation(talk("talk.jsonl", 10)).stream
    assert sizes(domain) == (0, 0, 10)
    assert all(one.reply for one in domain.test)


def test_prediction_needs_no_reply_but_reads_one(write_rows):
    rows = [{"message": "a", "response": "b"}, {"message": "c", "response": " "}, {"message": "d"}]
    assert [one.reply for one in read_unlabelled(write_rows("talk.jsonl", rows))] == ["b", None, None]
    assert read_unlabelled(write_rows("bare.jsonl", [{"message": "a"}])) == [Example("a")]


def test_a_message_of_five_thousand_words_is_read_whole(write_rows):
    rows = [{"message": f"{i} " * 5000, "response": "too long " * 5000} for i in range(10)]
    (domain,) = load_stream(write_rows("talk.jsonl", rows)).stream
    assert all(len(one.text.split()) == 5000 and len(one.reply.split()) == 10_000 for one in everything(domain))


ASKED = [{"question": f"q{i}", "answer": f"a{i}", "label": "ab"[i % 2]} for i in range(20)]
LABELS_NOT_READ = (
    "the labels of {} (column label) are not read, as its columns question and answer are taken for messages and "
    "replies: to learn the labels, name them with {} and their text with {} (and {} for a second text)"
)


def test_labels_beside_messages_and_replies_are_told_of_where_they_are_not_read(write_rows):
    told = LABELS_NOT_READ.format("quiz.jsonl", "--label", "--text", "--pair")
    path = write_rows("quiz.jsonl", ASKED)
    assert load_stream(path).notices[0] == told
    assert load_for_evaluation(path).notices == (told,)
    later = write_rows("later.jsonl", [{"question": "q", "answer": "a"}, *ASKED])
    assert load_stream(later).notices[0] == told.replace("quiz", "later")


def test_from_python_labels_that_are_not_read_are_told_of_by_notice_and_by_warning():
    told = LABELS_NOT_READ.format("quiz", "label=", "text=", "pair=")
    assert load_rows(ASKED, "quiz").notices[0] == told
    with pytest.warns(UserWarning, match=re.escape(told)) as caught:
        Domain.from_rows("quiz", ASKED)
    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("error")
def test_what_the_notice_of_unread_labels_advises_reads_them_and_ends_it(write_rows):
    path = write_rows("quiz.jsonl", ASKED)
    for columns in (Columns(text="question", pair="answer", label="label"), Columns(text="question")):
        loaded = load_stream(path, columns=columns)
        assert not loaded.warnings
        assert loaded.stream[0].labels == ("a", "b")
    for columns in (Columns(reply="answer"), Columns(by="label")):
        loaded = load_stream(path, columns=columns)
        assert not any("not read" in notice for notice in loaded.notices)
        assert loaded.stream[0].has_replies
    assert Domain.from_rows("quiz", ASKED, text="question", pair="answer", label="label").labels == ("a", "b")


@pytest.mark.parametrize("field", ["message", "response"])
@pytest.mark.parametrize("nothing", ["", " \t", None])
def test_an_empty_message_or_reply_is_refused_with_its_line_and_can_be_left_out(write_rows, field, nothing):
    rows = [{"message": f"m{i}", "response": f"r{i}"} for i in range(30)]
    path = write_rows("talk.jsonl", [*rows[:4], rows[4] | {field: nothing}, *rows[5:]])
    told = refusal(path)
    assert told.startswith("talk.jsonl, line 5")
    assert field in told
    if nothing is not None:
        loaded = load_stream(path, skip_empty=True)
        assert len(everything(loaded.stream[0])) == 29
        assert "1 row with an empty message or reply was left out of talk.jsonl" in loaded.notices


def test_a_file_of_empty_replies_alone_is_refused(write):
    path = write("talk.csv", "message,response\na,\nb,\n")
    assert "every row of" in refusal(path, skip_empty=True)


@pytest.mark.parametrize(
    ("header", "told"), [("message", "no column for the replies"), ("response", "no column for the messages")]
)
def test_a_file_with_one_of_the_two_columns_is_refused(write, header, told):
    assert told in refusal(write("talk.csv", f"{header}\nhello\n"))


def test_a_reply_that_is_no_string_is_refused(write_rows):
    path = write_rows("talk.jsonl", [{"message": "how many?", "response": 3}])
    assert "the field 'response' is a number, but a text must be a string" in refusal(path)


def test_pairs_to_be_answered_and_texts_to_be_labelled_do_not_mix(talk, reviews):
    told = refusal(talk("talk.jsonl"), reviews("books.jsonl"))
    assert "books.jsonl has single texts (column text), but talk.jsonl has messages and replies" in told


def test_a_stream_of_dialogues_is_written_and_read_back(tmp_path):
    stream = synthetic_dialogue(train=40, validation=10, test=20)
    assert list(load_stream(write_jsonl(stream, tmp_path)).stream) == list(stream)


def test_a_slice_tells_replies_to_one_message_apart_and_does_not_depend_on_their_order():
    examples = [Example("why", reply=f"because {i}") for i in range(50)]
    kept = fair_slice(examples, 10)
    assert len(set(kept)) == 10
    assert set(fair_slice(examples[::-1], 10)) == set(kept)
