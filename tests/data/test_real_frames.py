"""Frames and datasets of the libraries themselves make the domains that plain rows make."""

import pytest

from memgrow.data import Domain, load_rows
from memgrow.errors import DataError

pytestmark = pytest.mark.extras

ROWS = [{"text": f"text number {number}", "label": number % 2, "id": number} for number in range(40)]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
EXPECTED = Domain.from_rows("mine", ROWS)


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas", reason="pandas is not installed")


@pytest.fixture
def datasets():
    return pytest.importorskip("datasets", reason="the package datasets is not installed")


def test_a_pandas_frame(pandas):
    frame = pandas.DataFrame(COLUMNS)
    assert Domain.from_pandas("mine", frame) == EXPECTED
    assert Domain.from_pandas("mine", frame.astype({"label": "category"})) == EXPECTED
    assert Domain.from_pandas("mine", frame.astype({"label": "Int64"})[::-1][::-1]) == EXPECTED
    assert Domain.from_rows("mine", frame.itertuples(index=False)) == EXPECTED
    assert Domain.from_rows("mine", frame.to_dict("records")) == EXPECTED
    truths = Domain.from_pandas("mine", frame.assign(label=frame["label"] == 1))
    assert truths.labels == ("False", "True")


@pytest.mark.parametrize("missing", [None, float("nan"), "NA"])
def test_a_missing_value_of_pandas_is_told_or_left_out(pandas, missing):
    missing = pandas.NA if missing == "NA" else missing
    frame = pandas.DataFrame(COLUMNS).astype({"label": "Int64", "text": "string"})
    frame.loc[3, "text"] = missing
    with pytest.raises(DataError, match="mine, row 4 has no value for the field 'text'"):
        Domain.from_pandas("mine", frame)
    assert "1 row with an empty text" in load_rows(frame, "mine", skip_empty=True).notices[0]
    frame = pandas.DataFrame(COLUMNS).astype({"label": "Int64"})
    frame.loc[3, "label"] = missing
    with pytest.raises(DataError, match="mine, row 4 has no value for the field 'label'"):
        Domain.from_pandas("mine", frame)


def test_a_dataset_and_its_splits(datasets):
    names = datasets.ClassLabel(names=["bad", "good"])
    whole = datasets.Dataset.from_dict(COLUMNS).cast_column("label", names)
    domain = Domain.from_dataset("mine", whole)
    assert domain.labels == ("bad", "good")
    assert [one.text for one in domain.test] == [one.text for one in EXPECTED.test]
    assert Domain.from_dataset("mine", datasets.Dataset.from_dict(COLUMNS)) == EXPECTED
    assert Domain.from_dataset("mine", whole.to_iterable_dataset()) == domain
    halves = whole.train_test_split(0.25, shuffle=False)
    domain = Domain.from_dataset("mine", halves)
    assert (len(domain.train), len(domain.validation), len(domain.test)) == (27, 3, 10)
