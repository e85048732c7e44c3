"""Rows as Python holds them become the same domains as the rows of a file, or an error that names the row."""

import json

import numpy as np
import pytest
import torch

from memgrow.data import Columns, Domain, Example, Stream, load_rows, load_stream
from memgrow.errors import DataError

TEXTS = [f"text number {number}" for number in range(40)]
LABELS = ["good" if number % 3 else "bad" for number in range(40)]
ROWS = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
NAN = float("nan")
NA = type("NAType", (), {"__eq__": None, "__bool__": None, "__repr__": lambda self: "<NA>"})()


class ClassLabel:
    def __init__(self, names):
        self.names = names

    def int2str(self, number):
        return self.names[number]


class Dataset:
    """As Hugging Face's: rows, names of columns, and what each column holds."""

    def __init__(self, rows):
        self._rows, self.column_names = rows, list(rows[0])
        self.features = {"text": object(), "label": ClassLabel(["bad", "good"])}

    def __iter__(self):
        return iter(self._rows)


NUMBERED = [{**row, "label": ["bad", "good"].index(row["label"])} for row in ROWS]
WAYS = {
    "dictionaries": ROWS,
    "tuples": list(zip(TEXTS, LABELS, strict=True)),
    "examples": [Example(text, label=label) for text, label in zip(TEXTS, LABELS, strict=True)],
    "columns": {"text": TEXTS, "label": np.array(LABELS)},
    "a dataset": Dataset(NUMBERED),
    "a numpy dataset": Dataset([{**row, "label": np.int64(row["label"])} for row in NUMBERED]),
}


@pytest.mark.parametrize("way", WAYS)
def test_rows_of_any_kind_are_drawn_into_parts_as_those_of_a_file(way, tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (expected,) = load_stream(path).stream
    domain = Domain.from_rows("mine", WAYS[way])
    assert domain == expected
    assert domain.fingerprint() == expected.fingerprint()
    assert Domain.from_rows("mine", iter(ROWS)) == expected


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
def test_labels_are_kept_as_strings(make, names):
    domain = Domain.from_rows("mine", [(text, make(number % 2)) for number, text in enumerate(TEXTS)])
    assert domain.labels == names
    assert {type(label) for label in domain.labels} == {str}
    assert Example("a", label=make(1)).label == names[1]


def test_a_mapping_of_splits_has_its_parts_and_the_others_are_drawn():
    given = {"train": Dataset(NUMBERED[10:]), "test": Dataset(NUMBERED[:10])}
    domain = Domain.from_dataset("mine", given)
    assert [example.text for example in domain.test] == TEXTS[:10]
    assert (len(domain.train), len(domain.validation)) == (27, 3)
    assert load_rows({**given, "unsupervised": ROWS}, "mine").stream["mine"] == domain


def test_a_dataset_row_without_a_gold_label_is_left_out():
    loaded = load_rows(Dataset([*NUMBERED, {"text": "undecided", "label": -1}]), "mine")
    assert "1 row without a gold label" in loaded.notices[0]
    assert loaded.stream["mine"].labels == ("bad", "good")


def test_columns_parts_and_domains_can_be_named():
    shops = ["north" if number % 2 else "south" for number in range(40)]
    loaded = load_rows(
        {"body": TEXTS, "stars": LABELS, "shop": shops}, columns=Columns("body", label="stars", by="shop")
    )
    assert loaded.stream.names == ("south", "north")
    domain = Domain.from_rows("mine", ROWS, validation=ROWS[:5], test=ROWS[:7])
    assert (len(domain.train), len(domain.validation), len(domain.test)) == (40, 5, 7)
    split = ["dev" if number < 8 else "train" for number in range(40)]
    domain = Domain.from_rows("mine", {"text": TEXTS, "label": LABELS, "split": split})
    assert [example.text for example in domain.validation] == TEXTS[:8]
    domain = Domain.from_rows("mine", ROWS, labels={"bad": "poor"}, limit=9, seed=3)
    assert domain.labels == ("good", "poor")
    assert len(domain.train) == 9


def test_unread_labels_beside_replies_are_warned_of():
    rows = [{"question": f"q{i}", "answer": "a", "label": "x"} for i in range(20)]
    with pytest.warns(UserWarning, match="labels"):
        Domain.from_rows("mine", rows)


@pytest.mark.parametrize(
    ("rows", "keyword"),
    [
        ([], "mine is empty"),
        ("a text", "mine is of type str"),
        (5, "mine is of type int"),
        (["a text"], "mine, row 1 is of type str"),
        ([("alone",)], "row 1 is of type tuple"),
        ([{"text": None, "label": "a"}], "row 1 has no value for the field 'text'"),
        ([{"text": NAN, "label": "a"}], "row 1 has no value for the field 'text'"),
        ([{"text": "a", "label": NA}], "row 1 has no value for the field 'label'"),
        ([{"text": "a", "label": 1.5}], "'label' is of type float"),
        ([{"text": "a", "label": np.array([0, 1])}], "'label' is of type ndarray"),
        ([{"text": 7, "label": "a"}], "'text' is of type int"),
        ([{"body": "a", "label": "b"}], "no column for the text"),
        ({"text": ["a"], "label": ["b", "c"]}, "not equally long"),
        ({"text": "a", "label": "b"}, "must be columns"),
        ({"test": ROWS}, "no split called train"),
        ({"train": ROWS, "val": ROWS, "dev": ROWS}, "two splits for validation"),
    ],
)
def test_rows_that_cannot_be_read_are_named(rows, keyword):
    with pytest.raises(DataError, match=keyword):
        Domain.from_rows("mine", rows)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Example(5),
        lambda: Example(NAN),
        lambda: Example("a", label=NAN),
        lambda: Example("a", label=0.5),
        lambda: Example("a", pair=["b"]),
        lambda: Domain("mine", train=[("a", "b")]),
        lambda: Domain("mine", train=(x for x in ())),
        lambda: Domain(["a"]),
        lambda: Domain("b\udcfccher"),
        lambda: Domain.from_rows(5, ROWS),
        lambda: load_rows(ROWS, None),
        lambda: Stream(Domain("mine")),
        lambda: Stream([ROWS]),
        lambda: Stream(5),
        lambda: Stream([Domain("a"), Domain("a")]),
        lambda: Stream([Domain("a")])["b"],
        lambda: Domain("odd", train=(Example("a \ud800 b", label="x"),)).fingerprint(),
    ],
)
def test_what_is_no_example_domain_or_stream_is_refused(make):
    with pytest.raises(DataError):
        make()


def test_a_pyarrow_table_is_rows():
    pyarrow = pytest.importorskip("pyarrow")
    assert Domain.from_rows("mine", pyarrow.table({"text": TEXTS, "label": LABELS})) == Domain.from_rows("mine", ROWS)
