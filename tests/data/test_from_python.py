"""Rows as Python holds them become the same domains as the rows of a file, or an error that names the row."""

import json
from collections import namedtuple

import numpy as np
import pytest
import torch

from memgrow.data import Columns, Domain, Example, Stream, load_rows, load_stream
from memgrow.errors import DataError, SettingsError

TEXTS = [f"text number {number}" for number in range(40)]
LABELS = ["good" if number % 3 else "bad" for number in range(40)]
ROWS = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
Named = namedtuple("Named", "text label")


class Column(list):
    def to_list(self):
        return list(self)


class Frame:
    """A frame as pandas and polars have it in common: columns by name, and their values as lists."""

    def __init__(self, columns):
        self._columns = columns

    def __len__(self):
        return len(next(iter(self._columns.values())))

    def __getitem__(self, name):
        return Column(self._columns[name])

    @property
    def columns(self):
        return list(self._columns)

    def __dataframe__(self):
        raise AssertionError("nobody needs the interchange itself")


class ClassLabel:
    def __init__(self, names):
        self.names = names

    def int2str(self, number):
        return self.names[number]


class Dataset:
    """A dataset as Hugging Face's is: rows, names of columns, and what each column holds."""

    def __init__(self, rows, names):
        self._rows, self.column_names = rows, list(rows[0])
        self.features = {"text": object(), "label": ClassLabel(names)}

    def __iter__(self):
        return iter(self._rows)


def numbered(rows):
    return [{"text": row["text"], "label": ["bad", "good"].index(row["label"])} for row in rows]


WAYS = {
    "dictionaries": ROWS,
    "a generator": (row for row in ROWS),
    "tuples": list(zip(TEXTS, LABELS, strict=True)),
    "named tuples": [Named(*pair) for pair in zip(TEXTS, LABELS, strict=True)],
    "examples": [Example(text, label=label) for text, label in zip(TEXTS, LABELS, strict=True)],
    "columns": {"text": TEXTS, "label": np.array(LABELS)},
    "a frame": Frame({"text": TEXTS, "label": LABELS}),
    "a dataset": Dataset(numbered(ROWS), ["bad", "good"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_rows_of_any_kind_are_drawn_into_parts_as_those_of_a_file(way, tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (expected,) = load_stream(path).stream
    assert Domain.from_rows("mine", WAYS[way] if way != "a generator" else iter(ROWS)) == expected
    assert Domain.from_rows("mine", ROWS).fingerprint() == expected.fingerprint()


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (int, ("0", "1")),
        (bool, ("False", "True")),
        (np.int64, ("0", "1")),
        (np.bool_, ("False", "True")),
        (lambda number: np.str_("ab"[number]), ("a", "b")),
        (torch.tensor, ("0", "1")),
    ],
)
def test_labels_are_kept_as_strings_whoever_made_them(make, names):
    rows = [(text, make(number % 2)) for number, text in enumerate(TEXTS)]
    domain = Domain.from_rows("mine", rows)
    assert domain.labels == names
    assert {type(label) for label in domain.labels} == {str}
    assert Example("a", label=make(1)).label == names[1]


def test_a_mapping_of_splits_has_its_parts_and_the_others_are_drawn():
    given = {
        "train": Dataset(numbered(ROWS[10:]), ["bad", "good"]),
        "test": Dataset(numbered(ROWS[:10]), ["bad", "good"]),
    }
    domain = Domain.from_dataset("mine", given)
    assert [example.text for example in domain.test] == TEXTS[:10]
    assert len(domain.validation) == 3
    assert len(domain.train) == 27
    loaded = load_rows({**given, "unsupervised": ROWS}, "mine")
    assert "unsupervised was left out" in loaded.notices[0]


def test_a_dataset_without_a_gold_label_leaves_the_row_out_and_says_so():
    rows = [*numbered(ROWS), {"text": "undecided", "label": -1}]
    loaded = load_rows(Dataset(rows, ["bad", "good"]), "mine")
    assert "1 row without a gold label" in loaded.notices[0]


@pytest.mark.parametrize("make", [np.int64, torch.tensor])
def test_names_of_labels_are_found_whatever_format_a_dataset_gives_its_rows_in(make):
    """As those of `with_format("numpy")` and `with_format("torch")` are."""
    rows = [*numbered(ROWS), {"text": "undecided", "label": -1}]
    loaded = load_rows(Dataset([{**row, "label": make(row["label"])} for row in rows], ["bad", "good"]), "mine")
    assert loaded.stream["mine"].labels == ("bad", "good")
    assert "1 row without a gold label" in loaded.notices[0]


def test_a_column_makes_several_domains_of_a_frame():
    shops = ["north" if number % 2 else "south" for number in range(40)]
    frame = Frame({"body": TEXTS, "stars": LABELS, "shop": shops})
    loaded = load_rows(frame, columns=Columns(text="body", label="stars", by="shop"))
    assert loaded.stream.names == ("south", "north")
    assert "validation (10%) and test (10%) were drawn" in loaded.notices[0]


def test_parts_may_be_given_by_name_and_by_a_column():
    domain = Domain.from_pandas("mine", Frame({"text": TEXTS, "label": LABELS}), validation=ROWS[:5], test=ROWS[:7])
    assert (len(domain.train), len(domain.validation), len(domain.test)) == (40, 5, 7)
    split = ["dev" if number < 8 else "train" for number in range(40)]
    domain = Domain.from_rows("mine", {"text": TEXTS, "label": LABELS, "split": split})
    assert [example.text for example in domain.validation] == TEXTS[:8]


NAN = float("nan")
NA = type("NAType", (), {"__eq__": None, "__bool__": None, "__repr__": lambda self: "<NA>"})()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "mine is empty"),
        ("a text", "mine is a string, but must be a list of rows"),
        (5, "mine is a number, but must be a list of rows"),
        (["a text"], "mine, row 1 is a string; a row is a dictionary"),
        ([("alone",)], "row 1 is a tuple of 1"),
        ([("a", "b"), {"text": "c", "label": "b"}], "row 2 is of another kind than the row before it"),
        ([{"text": None, "label": "a"}], "row 1 has no value for the field 'text'"),
        ([{"text": NAN, "label": "a"}], "row 1 has no value for the field 'text'"),
        ([{"text": "a", "label": NAN}], "row 1 has no value for the field 'label'"),
        ([{"text": "a", "label": NA}], "row 1 has no value for the field 'label'"),
        ([{"text": "a", "label": 1.5}], "the field 'label' is a number with a decimal point"),
        ([{"text": "a", "label": np.array([0, 1])}], "the field 'label' is of the type ndarray, but must be a string"),
        ([{"text": 7, "label": "a"}], "the field 'text' is a number, but a text must be a string"),
        ([{"body": "a", "label": "b"}], r"no column for the text.*name one of them with text="),
        ([{"text": "a", "lable": "b"}], r"no column for the label.*name one of them with label="),
        ({"text": ["a"], "label": ["b", "c"]}, "not equally long"),
        ({"text": "a", "label": "b"}, "each field must be a list"),
        ({"test": ROWS}, "no split called train"),
        ({"train": ROWS, "val": ROWS, "dev": ROWS}, "mine has two splits for validation, val and dev"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_row(rows, said):
    with pytest.raises(DataError, match=said):
        Domain.from_rows("mine", rows)


def test_a_text_that_is_an_array_is_told_also_where_empty_ones_are_left_out():
    with pytest.raises(DataError, match="the field 'text' is of the type ndarray"):
        Domain.from_rows("mine", [{"text": np.array(["a", "b"]), "label": "a"}], skip_empty=True)


def test_missing_texts_can_be_left_out():
    rows = [*ROWS, {"text": None, "label": "good"}, {"text": NAN, "label": "good"}]
    loaded = load_rows(rows, "mine", skip_empty=True)
    assert loaded.notices[0] == "2 rows with an empty text were left out of mine"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Example(5), "the text of an example is a number, but must be a string"),
        (lambda: Example(None), "the text of an example is missing"),
        (lambda: Example(NAN), "the text of an example is missing"),
        (lambda: Example("a", label=NAN), "the label of an example is missing"),
        (lambda: Example("a", label=0.5), "the label of an example is a number with a decimal point"),
        (lambda: Example("a", label=["b"]), "the label of an example is a list"),
        (lambda: Domain("mine", train=[("a", "b")]), "holds a row that is a tuple, and no Example"),
        (lambda: Domain("mine", train=(x for x in ())), "the train part of mine is of the type generator"),
        (lambda: Domain("mine", test=Frame({"text": ["a"]})), "the test part of mine is of the type Frame"),
        (lambda: Domain(["a"]), "the name of a domain is a list"),
        (lambda: Domain.from_rows(5, ROWS), "the name of a domain is a number, but must be a string"),
        (lambda: load_rows(ROWS, None), "the name of a domain is missing"),
        (lambda: Stream(Domain("mine")), "several domains are asked for, and mine is one"),
        (lambda: Stream([ROWS]), "a stream holds domains, but one is a list"),
        (lambda: Stream(5), "a stream is made of domains, but this is a number"),
        (lambda: Domain.from_pandas("mine", ROWS), "a pandas or polars frame is asked for, but this is a list"),
        (lambda: Domain.from_dataset("mine", ROWS), "a Dataset or DatasetDict is asked for, but this is a list"),
    ],
)
def test_what_is_no_example_domain_or_stream_is_told(make, said):
    with pytest.raises(DataError, match=said):
        make()


def test_a_misspelt_option_is_told():
    with pytest.raises(SettingsError, match="there is no option lable; there are text, pair, label"):
        Domain.from_rows("mine", ROWS, lable="stars")


def test_a_table_of_pyarrow_is_rows_and_no_frame():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"text": TEXTS, "label": LABELS})
    assert Domain.from_rows("mine", table) == Domain.from_rows("mine", ROWS)
    with pytest.raises(DataError, match=r"Domain\.from_rows takes rows"):
        Domain.from_pandas("mine", table)
