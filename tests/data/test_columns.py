"""Columns are found by their usual names, or named by the user."""

import pytest

from memgrow.data import Columns
from memgrow.errors import DataError


def found(names, columns=None, labelled=True):
    return (columns or Columns()).among(names, "rows.csv, line 1", labelled)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["text", "label"], Columns(text="text", label="label")),
        (["label", "hypothesis", "premise"], Columns(text="premise", pair="hypothesis", label="label")),
        (["gold_label", "sentence1", "sentence2"], Columns(text="sentence1", pair="sentence2", label="gold_label")),
        (["text", "label", "split"], Columns(text="text", label="label", split="split")),
    ],
)
def test_columns_with_usual_names_are_found(names, expected):
    assert found(names) == expected


def test_what_the_user_names_goes_before_what_is_usual():
    columns = Columns(text="body", pair="title", label="stars", split="fold")
    assert found(["text", "label", "body", "title", "stars", "split", "fold"], columns) == columns


def test_a_text_that_the_user_names_stands_alone_unless_a_pair_is_named_too():
    names = ["premise", "hypothesis", "label"]
    assert found(names, Columns(text="hypothesis")).pair is None
    assert found(names, Columns(text="hypothesis", pair="premise")).pair == "premise"


def test_a_pair_that_the_user_names_stands_beside_a_text_found_by_name():
    assert found(["text", "reply", "label"], Columns(pair="reply")).text == "text"


def test_domain_and_group_are_never_guessed():
    assert found(["text", "label", "by", "group", "domain"]) == Columns(text="text", label="label")


def test_a_label_is_optional_only_where_it_is_not_needed():
    assert found(["text"], labelled=False).label is None
    with pytest.raises(DataError, match="no column for the label"):
        found(["text"])


@pytest.mark.parametrize(
    ("names", "option"),
    [(["review", "label"], "--text"), (["premise", "label"], "--text"), (["text", "stars"], "--label")],
)
def test_a_missing_column_is_refused_with_the_columns_there_are_and_the_option_that_names_one(names, option):
    with pytest.raises(DataError) as caught:
        found(names)
    message = str(caught.value)
    assert message.startswith("rows.csv, line 1 has no column for the")
    assert f"its columns are {', '.join(names)}" in message
    assert option in message


@pytest.mark.parametrize(
    ("role", "option"),
    [
        ("text", "--text"),
        ("pair", "--pair"),
        ("label", "--label"),
        ("by", "--by"),
        ("group", "--group"),
        ("split", "--split-column"),
    ],
)
def test_a_column_that_the_user_names_must_be_there(role, option):
    with pytest.raises(DataError) as caught:
        found(["text", "label"], Columns(**{role: "nowhere"}))
    message = str(caught.value)
    assert f"has no column 'nowhere' (named by {option})" in message
    assert "its columns are text, label" in message
