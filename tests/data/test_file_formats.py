"""Files as other programs write them: semicolons, arrays of JSON, other encodings, labels under other names."""

import gzip
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memgrow.data import Columns, Domain, load_for_evaluation, load_stream
from memgrow.data import lines as data_lines
from memgrow.data.files import read_rows
from memgrow.data.formats import array_rows
from memgrow.data.lines import FileFormat
from memgrow.errors import DataError, SettingsError


def values(path, **file_format):
    return [dict(row.values) for row in read_rows(path, FileFormat(**file_format))]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_csv_is_read_by_what_its_header_has_between_names(tmp_path, delimiter):
    path = tmp_path / "a.csv"
    path.write_text(f'\n"text, and; more"{delimiter}label\n"one; two, three"{delimiter}x\n')
    assert values(path) == [{"text, and; more": "one; two, three", "label": "x"}]
    assert next(iter(read_rows(path))).line == 3


def test_a_delimiter_that_is_named_goes_before_what_the_header_looks_like(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text;a,b,c\none;x,y,z\n")
    assert values(path)[0].keys() == {"text;a", "b", "c"}
    assert values(path, delimiter=";") == [{"text": "one", "a,b,c": "x,y,z"}]
    assert FileFormat(delimiter="tab").delimiter == FileFormat(delimiter="\\t").delimiter == "\t"
    for wrong in ("", ";;", '"', "\n"):
        with pytest.raises(SettingsError, match="cannot stand between fields"):
            FileFormat(delimiter=wrong)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-8-sig", "latin-1", "cp1252"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.tsv", "a.csv.gz"])
def test_other_encodings_are_read(tmp_path, encoding, name):
    rows = [{"text": "häßlich, aber gut", "label": "é"}, {"text": "schön", "label": "à"}]
    text = "text;label\n" + "".join(f"{row['text']};{row['label']}\n" for row in rows)
    if "json" in name:
        text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        text = text if name.endswith("l") else f"[{text.replace(chr(10), ',')}]"
    text = text.replace(";", "\t") if name.endswith(".tsv") else text
    content = text.encode(encoding)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert values(path, encoding=encoding) == rows
    if encoding in ("utf-16", "utf-32", "utf-8-sig"):  # which say so themselves
        assert values(path) == rows


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_mark_at_the_beginning_says_the_encoding_and_is_no_text(tmp_path, encoding, name):
    path, row = tmp_path / name, {"text": "schön", "label": "x"}
    text = json.dumps([row] if name.endswith(".json") else row) if "json" in name else "text,label\nschön,x\n"
    path.write_bytes(f"\ufeff{text}".encode(encoding))
    assert values(path) == values(path, encoding=encoding) == [row]


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz", "a.json", "a.jsonl", "a.parquet"])
def test_a_delimiter_for_a_file_that_has_none_to_choose_is_refused(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(SettingsError, match=r"a delimiter \(';'\) is given for a\..* only fields of \.csv"):
        values(tmp_path / name, delimiter=";")


def write_three(folder):
    (folder / "a.csv").write_text("text;label\none, a;x\ntwo, b;y\n")
    (folder / "b.jsonl").write_text('{"text": "three", "label": "x"}\n{"text": "four", "label": "y"}\n')
    (folder / "c.tsv").write_text("text\tlabel\nfive;\tx\nsix;\ty\n")
    return [folder / name for name in ("a.csv", "b.jsonl", "c.tsv")]


@pytest.mark.parametrize("load", [load_stream, load_for_evaluation])
def test_of_several_files_a_delimiter_is_for_those_that_have_one_to_choose(tmp_path, load):
    paths = write_three(tmp_path)
    stream = load(paths, columns=Columns(file_format=FileFormat(";"))).stream
    texts = {one.text for domain in stream for part in (domain.train, domain.validation, domain.test) for one in part}
    assert texts <= {"one, a", "two, b", "three", "four", "five;", "six;"}
    assert len(stream) == 3
    with pytest.raises(SettingsError, match=r"a delimiter \(';'\) is given for b\.jsonl"):
        load(paths[1:], columns=Columns(file_format=FileFormat(";")))
    assert len(load(paths[1:], columns=Columns(file_format=FileFormat(";")), beside=paths[:1]).stream) == 2


def test_of_several_files_an_encoding_is_for_those_that_are_texts(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"text": ["one", "two"], "label": ["x", "y"]}), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_bytes("text,label\nschön,x\nschäl,y\n".encode("latin-1"))
    columns = Columns(file_format=FileFormat(encoding="latin-1"))
    assert len(load_for_evaluation([tmp_path / "a.parquet", tmp_path / "b.csv"], columns).stream) == 2
    with pytest.raises(SettingsError, match="an encoding"):
        load_for_evaluation([tmp_path / "a.parquet"], columns)


def test_a_tsv_may_be_said_to_have_tabs(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\none\tx\n")
    assert values(path, delimiter="tab") == [{"text": "one", "label": "x"}]


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.feather"])
def test_an_encoding_for_a_file_that_is_no_text_is_refused(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(SettingsError, match=r"an encoding \(latin-1\) is given for a\."):
        values(tmp_path / name, encoding="latin-1")


def test_what_is_not_utf8_is_told_with_what_to_give(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\nschön,x\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"a.csv, line 2 is not UTF-8 .*--encoding \(Excel writes cp1252 or latin-1\)"):
        values(path)
    with pytest.raises(DataError, match="line 1 is not utf-16"):
        values(path, encoding="utf-16-le" if len(path.read_bytes()) % 2 else "utf-16")
    with pytest.raises(SettingsError, match="there is no encoding 'klingon'"):
        FileFormat(encoding="klingon")
    with pytest.raises(SettingsError, match="there is no encoding 'hex'"):
        FileFormat(encoding="hex")


fields = st.text('"\\{}[],\n é', max_size=5) | st.integers() | st.lists(st.booleans(), max_size=2)
objects = st.lists(st.dictionaries(st.sampled_from(["text", "]"]), fields), max_size=4)


@settings(max_examples=30)
@given(objects, st.integers(1, 9), st.sampled_from([None, 1]))
def test_an_array_is_read_whatever_pieces_it_comes_in(rows, size, indent):
    text = json.dumps(rows, indent=indent, ensure_ascii=False)
    pieces = (text[start : start + size] for start in range(0, len(text), size))
    assert [row.values for row in array_rows(Path("a.json"), pieces)] == rows


def test_a_json_file_is_an_array_or_lines_and_rows_know_their_line(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('\n[\n {"text": "a"},\n\n {"text":\n "b"}\n]\n')
    assert [(row.line, row.values["text"]) for row in read_rows(path)] == [(3, "a"), (5, "b")]
    path.write_text('{"text": "a"}\n{"text": "b"}\n')
    assert [row.values["text"] for row in read_rows(path)] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"a": 1}', "line 1: the array is not closed"),
        ('[{"a": 1},\n{"a" 2}]', "line 2 is not valid JSON"),
        ('[{"a": 1},\n{"a": 2', "line 2 is not valid JSON"),
        ('[{"a": 1},]', "something else than JSON objects"),
        ('[{"a": 1} {"a": 2}]', "something else than JSON objects"),
        ("[1, 2]", "something else than JSON objects"),
        ('[{"a": 1}] more', "more after the array"),
        ("[]", "is empty"),
        ("", "is empty"),
        ('"text"', "is not a JSON object"),
        ("[" + '{"a":' * 100_000, "cannot be read as JSON|is not valid JSON"),
    ],
)
def test_a_broken_array_is_told_with_its_line(tmp_path, text, said):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DataError, match=said):
        values(path)


def test_an_array_in_a_jsonl_file_is_told_to_be_called_json(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('[{"text": "a"}]')
    with pytest.raises(DataError, match=r"whose name ends in \.json"):
        values(path)


def test_a_row_of_an_array_has_the_bound_of_any_row_and_takes_linear_time(tmp_path, monkeypatch):
    monkeypatch.setattr("memgrow.data.formats.LONGEST_ROW", 1 << 18)
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"text": "x" * (1 << 19)}]))
    with pytest.raises(DataError, match="has a row of more than"):
        values(path)
    path.write_text(json.dumps([{"text": "x" * (1 << 17)}, *({"text": "y"} for _ in range(5_000))]))
    started = time.process_time()
    assert len(values(path)) == 5_001
    assert time.process_time() - started < 2
    monkeypatch.setattr(data_lines, "ALWAYS_UNPACKED", 1 << 16)
    bomb = tmp_path / "b.json.gz"
    bomb.write_bytes(gzip.compress(b"[" + b" " * (1 << 20)))
    with pytest.raises(DataError, match="unpacks to more than"):
        values(bomb)


STARS = [{"text": f"text {number}", "label": number % 5 + 1} for number in range(50)]


def test_labels_get_other_names_several_the_same_and_some_are_left_out(tmp_path):
    path = tmp_path / "stars.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in STARS))
    names = {1: "negative", 2: "negative", 3: "-", 4: "positive", 5: "positive"}
    loaded = load_stream(path, columns=Columns(labels=names))
    assert loaded.stream["stars"].labels == ("negative", "positive")
    assert "10 rows without a gold label were left out of stars.jsonl" in loaded.notices
    assert Domain.from_rows("stars", STARS, labels=names) == loaded.stream["stars"]
    loaded = load_stream(path, columns=Columns(labels={5: "best", 7: "none"}))
    assert loaded.notices[0] == "no row has the label 7, for which there is another name"
    assert loaded.stream["stars"].labels == ("1", "2", "3", "4", "best")
