"""Rows become examples, and a field that cannot be used is refused with its place."""

from pathlib import Path

import pytest

from memgrow.data import Columns, Example, read_unlabelled
from memgrow.data.asked import iterate_unlabelled
from memgrow.data.records import read_table
from memgrow.errors import DataError


def refusal(path, columns=None, labelled=True):
    with pytest.raises(DataError) as caught:
        read_table(path, columns or Columns(), labelled)
    return str(caught.value)


def test_an_example_knows_its_texts_its_label_and_where_it_stands(write_rows):
    path = write_rows("pairs.jsonl.gz", [{"premise": "a b", "hypothesis": "c", "label": "neutral"}])
    (record,) = read_table(path, Columns()).records
    assert record.example == Example("a b", "c", "neutral")
    assert record.example.where == "pairs.jsonl.gz, line 1"


def test_rows_without_a_gold_label_are_left_out_and_counted(write_rows):
    rows = [{"sentence1": "a", "sentence2": "b", "gold_label": label} for label in ("-", "neutral", " - ", "neutral")]
    table = read_table(write_rows("nli.jsonl", rows), Columns())
    assert [record.example.where for record in table.records] == ["nli.jsonl, line 2", "nli.jsonl, line 4"]
    assert table.left_out == {"without a gold label": 2}


def test_a_file_of_which_every_row_is_left_out_is_refused(write_rows):
    message = refusal(write_rows("nli.jsonl", [{"text": "a", "label": "-"}]))
    assert "every row of" in message
    assert "without a gold label" in message


@pytest.mark.parametrize(("value", "label"), [(3, "3"), (0, "0"), (True, "True"), (" good ", "good")])
def test_labels_may_be_whole_numbers_or_truth_values_and_lose_their_margins(write_rows, value, label):
    (record,) = read_table(write_rows("rows.jsonl", [{"text": "a", "label": value}]), Columns()).records
    assert record.example.label == label


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"text": 7, "label": "x"}, "the field 'text' is a number"),
        ({"text": ["a"], "label": "x"}, "the field 'text' is a list"),
        ({"text": {}, "label": "x"}, "the field 'text' is an object"),
        ({"text": False, "label": "x"}, "the field 'text' is true or false"),
        ({"text": "", "label": "x"}, "the field 'text' is empty"),
        ({"text": " \t\n\u00a0", "label": "x"}, "the field 'text' is empty"),
        ({"text": None, "label": "x"}, "has no value for the field 'text'"),
        ({"label": "x"}, "has no value for the field 'text' (its fields are label)"),
        ({"text": "a", "label": ""}, "the field 'label' is empty"),
        ({"text": "a", "label": "  "}, "the field 'label' is empty"),
        ({"text": "a", "label": None}, "has no value for the field 'label'"),
        ({"text": "a"}, "has no value for the field 'label' (its fields are text)"),
        ({"text": "a", "label": 1.5}, "the field 'label' is a number"),
        ({"text": "a", "label": ["x"]}, "the field 'label' is a list"),
        ({"text": "a \ud83d b", "label": "x"}, "the field 'text' holds half a character (\\ud83d)"),
        ({"text": "a", "label": "x", "split": "train"}, "has a field 'split', but the rows before it have none"),
    ],
)
def test_a_field_that_cannot_be_used_is_refused_with_file_line_and_field(write_rows, row, complaint):
    message = refusal(write_rows("rows.jsonl", [{"text": "fine", "label": "x"}, row]))
    assert message.startswith("rows.jsonl, line 2")
    assert complaint in message


@pytest.mark.parametrize("pair", ["", 5, None])
def test_the_second_text_is_checked_like_the_first(write_rows, pair):
    rows = [{"premise": "a", "hypothesis": "b", "label": "x"}, {"premise": "a", "hypothesis": pair, "label": "x"}]
    message = refusal(write_rows("rows.jsonl", rows))
    assert message.startswith("rows.jsonl, line 2")
    assert "'hypothesis'" in message


def test_an_empty_field_of_a_table_is_refused_with_its_line(write):
    assert "rows.csv, line 3: the field 'label' is empty" in refusal(write("rows.csv", "text,label\na,x\nb,\n"))


def test_a_column_missing_from_a_table_is_said_of_its_header(write):
    assert refusal(write("rows.tsv", "body\tlabel\na\tx\n")).startswith("rows.tsv, line 1 has no column for the text")


def test_empty_texts_are_left_out_and_counted_on_demand(write_rows):
    rows = [{"text": " ", "label": "x"}, {"text": "a", "label": "x"}]
    table = read_table(write_rows("rows.jsonl", rows), Columns(), skip_empty=True)
    assert len(table.records) == 1
    assert table.left_out == {"with an empty text": 1}


def test_groups_domains_and_parts_are_read_from_their_columns(write_rows):
    row = {"text": "a", "label": "x", "id": 7, "genre": "letters", "split": "Dev"}
    (record,) = read_table(write_rows("rows.jsonl", [row]), Columns(by="genre", group="id")).records
    assert (record.group, record.by, record.part) == ("7", "letters", "validation")


def test_without_a_group_column_the_first_text_is_the_group(write_rows):
    (record,) = read_table(write_rows("rows.jsonl", [{"text": "a", "label": "x"}]), Columns()).records
    assert record.group == "a"


@pytest.mark.parametrize(
    ("columns", "field"), [(Columns(by="genre"), "genre"), (Columns(group="id"), "id"), (Columns(split="fold"), "fold")]
)
def test_an_empty_domain_group_or_part_is_refused(write_rows, columns, field):
    row = {"text": "a", "label": "x", "genre": "letters", "id": "1", "fold": "train"}
    message = refusal(write_rows("rows.jsonl", [row, row | {field: ""}]), columns)
    assert f"rows.jsonl, line 2: the field '{field}' is empty" in message


def test_an_unknown_part_is_refused_with_the_known_ones(write_rows):
    message = refusal(write_rows("rows.jsonl", [{"text": "a", "label": "x", "split": "extra"}]))
    assert "rows.jsonl, line 1: the field 'split' is 'extra'" in message
    assert "train, validation, valid, val, dev, test" in message
    assert "--split-column" in message


def test_prediction_needs_no_label_but_reads_one_where_there_is_one(write_rows):
    rows = [{"text": "a"}, {"text": "b", "label": "x"}, {"text": "c", "label": ""}, {"text": "d", "label": "-"}]
    examples = read_unlabelled(write_rows("rows.jsonl", [rows[1], *rows]))
    assert [example.label for example in examples] == ["x", None, "x", None, None]
    assert examples[-1].where == "rows.jsonl, line 5"


@pytest.mark.parametrize("value", [0.7, ["a", "b"], {"a": 1}, "half \ud800"])
def test_prediction_passes_over_a_label_or_a_reply_that_can_be_none(value, write_rows):
    """Nothing is asked of it, and the same object on standard input is answered."""
    rows = [{"text": "a", "label": "x"}, {"text": "b", "label": value}]
    assert read_unlabelled(write_rows("rows.jsonl", rows)) == [Example("a", label="x"), Example("b")]
    rows = [{"message": "a", "response": "x"}, {"message": "b", "response": value}]
    assert read_unlabelled(write_rows("talk.jsonl", rows)) == [Example("a", reply="x"), Example("b")]


def test_prediction_reads_every_row_whatever_its_part(write):
    path = write("rows.csv", "text,split\na,train\nb,nonsense\n")
    assert [example.text for example in read_unlabelled(str(path), Columns(by="nowhere"))] == ["a", "b"]


def test_prediction_refuses_an_empty_text(write):
    with pytest.raises(DataError, match=r"rows\.csv, line 2: the field 'text' is empty"):
        read_unlabelled(write("rows.csv", 'text\n"  "\n'))


def test_a_path_may_be_a_string_or_a_path(write_rows):
    path = write_rows("rows.jsonl", [{"text": "a"}])
    assert read_unlabelled(str(path)) == read_unlabelled(Path(path))


def test_examples_to_predict_come_as_they_are_read(write_rows):
    rows = iterate_unlabelled(write_rows("rows.jsonl", [{"text": "a"}, {"text": "b"}, {"text": " "}]))
    assert [next(rows).text, next(rows).text] == ["a", "b"]
    with pytest.raises(DataError, match="line 3"):
        next(rows)
