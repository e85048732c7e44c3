"""Messages and replies are found by their usual names, and files to be labelled are still read as such."""

import pytest

from memgrow.data import Columns
from memgrow.data.columns import MESSAGES, REPLIES
from memgrow.errors import DataError, SettingsError


def found(names, columns=None, labelled=True):
    return (columns or Columns()).among(names, "talk.csv, line 1", labelled)


def refusal(names, columns=None, kind=DataError):
    with pytest.raises(kind) as caught:
        found(names, columns)
    return str(caught.value)


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("reply", REPLIES)
def test_usual_names_of_messages_and_replies_are_found_in_any_order(message, reply):
    assert found([reply, "id", message]) == Columns(text=message, reply=reply)


def test_a_split_column_is_found_beside_them():
    assert found(["message", "response", "split"]) == Columns(text="message", reply="response", split="split")


def test_a_label_beside_a_message_and_its_reply_is_not_read():
    assert found(["message", "response", "label"]) == Columns(text="message", reply="response")


@pytest.mark.parametrize(
    "names", [["text", "label", "response"], ["text", "label", "message", "reply"], ["text", "gold_label", "answer"]]
)
def test_a_text_with_a_label_is_still_there_to_be_labelled(names):
    assert found(names).reply is None
    assert found(names).text == "text"


def test_sentence_pairs_are_still_there_to_be_labelled():
    names = ["premise", "hypothesis", "label", "answer"]
    assert found(names) == Columns(text="premise", pair="hypothesis", label="label")
    assert "no column for the label" in refusal(["premise", "hypothesis", "answer"])


def test_what_the_user_names_goes_before_what_is_usual():
    names = ["message", "response", "said", "answered", "label"]
    assert found(names, Columns(text="said", reply="answered")) == Columns(text="said", reply="answered")
    assert found(names, Columns(reply="answered")) == Columns(text="message", reply="answered")
    assert found(["said", "response"], Columns(text="said")) == Columns(text="said", reply="response")


def test_who_names_a_label_or_a_pair_wants_labels():
    assert found(["text", "response", "mood"], Columns(label="mood")) == Columns(text="text", label="mood")
    named = Columns(text="message", pair="response")
    assert found(["message", "response", "label"], named).reply is None


@pytest.mark.parametrize("role", ["pair", "label"])
def test_a_reply_and_a_second_text_or_a_label_cannot_both_be_named(role):
    columns = Columns(text="message", reply="response", **{role: "other"})
    assert f"--reply or --{role}, but not both" in refusal(["message", "response", "other"], columns, SettingsError)


def test_a_column_cannot_be_both_message_and_reply():
    columns = Columns(text="message", reply="message")
    assert "cannot hold both" in refusal(["message", "response"], columns, SettingsError)


def test_a_column_that_serves_for_something_else_is_no_message():
    assert found(["prompt", "query", "response"], Columns(group="prompt")).text == "query"


def test_one_column_of_the_two_is_not_enough():
    assert refusal(["message"]) == (
        "talk.csv, line 1 has messages (column message), but no column for the replies to them, such as response or "
        "reply or answer; its columns are message: add one, or name it with --reply"
    )
    told = refusal(["response", "id"])
    assert "has replies (column response), but no column for the messages" in told
    assert "name it with --text" in told


def test_a_message_with_a_label_asks_for_the_text_to_be_named():
    told = refusal(["message", "label"])
    assert "no column for the text" in told
    assert "message and response" in told
    assert found(["message", "label"], Columns(text="message")) == Columns(text="message", label="label")


def test_a_reply_that_the_user_names_must_be_there():
    assert "has no column 'nowhere' (named by --reply)" in refusal(["message", "response"], Columns(reply="nowhere"))


def test_for_prediction_a_message_is_enough():
    assert found(["message"], labelled=False) == Columns(text="message")
    assert found(["message", "response"], labelled=False).reply == "response"
    assert found(["text", "response"], labelled=False) == Columns(text="text")
