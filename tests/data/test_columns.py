"""Columns are found by their usual names, or named by the user."""

import pytest

from memgrow.data import Columns
from memgrow.errors import DataError, SettingsError


def found(names, columns=None, labelled=True):
    return (columns or Columns()).resolve(names, "rows.csv", labelled)


@pytest.mark.parametrize(
    ("names", "given", "expected"),
    [
        ("text label", {}, {"text": "text", "label": "label"}),
        ("label hypothesis premise", {}, {"text": "premise", "pair": "hypothesis", "label": "label"}),
        ("gold_label sentence1 sentence2", {}, {"text": "sentence1", "pair": "sentence2", "label": "gold_label"}),
        ("text label split", {}, {"text": "text", "label": "label", "split": "split"}),
        ("text label by group domain", {}, {"text": "text", "label": "label"}),
        ("text label body stars", {"text": "body", "label": "stars"}, {"text": "body", "label": "stars"}),
        ("premise hypothesis label", {"text": "hypothesis"}, {"text": "hypothesis", "label": "label"}),
        ("text reply label", {"pair": "reply"}, {"text": "text", "pair": "reply", "label": "label"}),
        ("response id message split", {}, {"text": "message", "reply": "response", "split": "split"}),
        ("message response label", {}, {"text": "message", "reply": "response"}),
        ("text label response", {}, {"text": "text", "label": "label"}),
        ("text label message reply", {}, {"text": "text", "label": "label"}),
        ("text response", {}, {"text": "text", "reply": "response"}),
        ("premise hypothesis label answer", {}, {"text": "premise", "pair": "hypothesis", "label": "label"}),
        ("message response said answered", {"reply": "answered"}, {"text": "message", "reply": "answered"}),
        ("said response", {"text": "said"}, {"text": "said", "reply": "response"}),
        ("text response mood", {"label": "mood"}, {"text": "text", "label": "mood"}),
        ("prompt query response", {"group": "prompt"}, {"text": "query", "reply": "response", "group": "prompt"}),
        ("message label", {"text": "message"}, {"text": "message", "label": "label"}),
    ],
)
def test_columns_are_found(names, given, expected):
    assert found(names.split(), Columns(**given)) == Columns(**expected)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("text", {"text": "text"}),
        ("message", {"text": "message"}),
        ("message response", {"text": "message", "reply": "response"}),
        ("text response", {"text": "text"}),
    ],
)
def test_prediction_needs_a_text_alone(names, expected):
    assert found(names.split(), labelled=False) == Columns(**expected)


def test_a_table_without_a_header_is_told_of_one():
    with pytest.raises(DataError, match="add a header line"):
        found(["I was charged twice", "billing"], Columns())  # of rows.csv
    with pytest.raises(DataError) as told:
        Columns().resolve(["body", "mood"], "rows.jsonl")
    assert "header" not in str(told.value)


@pytest.mark.parametrize(
    ("names", "given", "keyword"),
    [
        ("review label", {}, "no column for the text.*review, label.*--text"),
        ("premise label", {}, "no column for the text"),
        ("text stars", {}, "no column for the label.*--label"),
        ("premise hypothesis answer", {}, "no column for the label"),
        ("message", {}, "no column for the replies.*--reply"),
        ("response id", {}, "no column for the messages.*--text"),
        ("message label", {}, "no column for the text"),
        *(
            ("text label", {role: "lost"}, f"no column 'lost'.*--{role}.*name one")
            for role in ("text", "pair", "by", "split")
        ),
    ],
)
def test_a_missing_column_is_refused_with_the_option_that_names_it(names, given, keyword):
    with pytest.raises(DataError, match=keyword):
        found(names.split(), Columns(**given))


@pytest.mark.parametrize("given", [{"pair": "text"}, {"label": "text"}])
def test_a_reply_and_what_has_none_cannot_both_be_named(given):
    with pytest.raises(SettingsError, match="repl"):
        found(["text", "reply"], Columns(reply="reply", **given))
