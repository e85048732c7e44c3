"""Parquet and Arrow files are read as the same rows in a file of JSON lines; faults are sentences."""

import sys

import pytest

from memgrow.data import Columns, formats, load_stream, read_unlabelled
from memgrow.errors import DataError, SettingsError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = [
    {"text": f"text {i} é", "label": i % 3, "genre": "gh"[i % 2], "more": None if i % 5 else [1.5, 2.0]}
    for i in range(300)
]


def as_parquet(table, path):
    parquet.write_table(table, path, row_group_size=70)


def as_file(table, path):
    with pyarrow.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=110)


def as_stream(table, path):
    with pyarrow.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


WAYS = [("parquet", as_parquet), ("arrow", as_file), ("arrow", as_stream), ("feather", as_file)]


@pytest.mark.parametrize(("ending", "store"), WAYS)
def test_rows_are_those_of_json_lines(tmp_path, write_rows, ending, store):
    store(pyarrow.Table.from_pylist(ROWS), path := tmp_path / f"all.{ending}")
    for columns in (Columns(), Columns(by="genre")):
        domains = load_stream(path, columns=columns).stream
        expected = load_stream(write_rows("all.jsonl", ROWS), columns=columns).stream
        assert list(domains) == list(expected)
        assert [d.fingerprint() for d in domains] == [d.fingerprint() for d in expected]
        assert domains[0].train[0].where == expected[0].train[0].where.replace("jsonl, line", f"{ending}, row")
    assert read_unlabelled(path)[299].text == "text 299 é"


def refusal(path, kind=DataError, **options):
    with pytest.raises(kind) as caught:
        load_stream(path, **options)
    assert len(str(caught.value)) < 400
    return str(caught.value)


def test_faults_of_rows_name_the_row(tmp_path, monkeypatch):
    def written(rows):
        as_parquet(pyarrow.Table.from_pylist(rows), path := tmp_path / "all.parquet")
        return path

    assert "all.parquet, row 7: the field 'text' is empty" in refusal(written([*ROWS[:6], {**ROWS[0], "text": " "}]))
    assert "row 2 has no value for the field 'label'" in refusal(written([ROWS[0], {**ROWS[0], "label": None}]))
    assert "'text' is a number" in refusal(written([{"text": 3, "label": "x"}]))
    assert "no column for the text" in refusal(written([{"body": "a", "label": "x"}]))
    assert "has no rows" in refusal(_empty(tmp_path))
    monkeypatch.setattr("memgrow.data.records.LONGEST_ROW", 5)
    assert "row 1 has a row of more than" in refusal(written(ROWS))


def _empty(folder):
    as_parquet(pyarrow.Table.from_pylist(ROWS[:1]).slice(0, 0), path := folder / "empty.parquet")
    return path


@pytest.mark.parametrize(("ending", "store"), WAYS)
def test_a_damaged_file_is_a_sentence(tmp_path, ending, store):
    store(pyarrow.Table.from_pylist(ROWS), path := tmp_path / f"all.{ending}")
    content = path.read_bytes()
    for end in (0, 5, 40, len(content) // 2, len(content) - 9):
        path.write_bytes(content[:end])
        sentence = refusal(path)
        assert "cannot be read by pyarrow" in sentence or "has no rows" in sentence
    path.write_bytes(b'{"text": "a", "label": "x"}\n')
    assert "cannot be read by pyarrow" in refusal(path)


def test_columns_of_one_name_and_packed_twice_are_refused(tmp_path, monkeypatch):
    table = pyarrow.Table.from_arrays([pyarrow.array(["a"]), pyarrow.array(["b"])], names=["text", "text"])
    as_parquet(table, path := tmp_path / "twice.parquet")
    assert "names the column text more than once" in refusal(path)
    (packed := tmp_path / "x.parquet.gz").write_bytes(b"")
    assert "unpack it" in refusal(packed)
    as_parquet(pyarrow.Table.from_pylist(ROWS[:5]), path)
    monkeypatch.setattr(formats, "MOST_COLUMNS", 2)
    assert "has 4 columns, but at most 2 are read" in refusal(path)


def test_who_lacks_pyarrow_is_told_what_to_install(tmp_path, monkeypatch):
    (path := tmp_path / "all.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'memgrow[arrow]'" in refusal(path, SettingsError)
