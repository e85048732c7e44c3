"""Every format gives the same rows, faults are told with their line, and what is written is read back."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memgrow.data import Domain, Example, Stream, load_stream, synthetic_stream, write_jsonl
from memgrow.data.files import name_without_suffix, read_rows
from memgrow.errors import DataError

SAME = {
    "rows.jsonl": '{"text": "so fine", "label": "good"}\n{"text": "so bad", "label": "bad"}\n',
    "rows.ndjson": '{"text": "so fine", "label": "good"}\n{"text": "so bad", "label": "bad"}',
    "rows.json-lines": '{"text": "so fine", "label": "good"}\n\n{"text": "so bad", "label": "bad"}\n\n',
    "rows.csv": "text,label\nso fine,good\n\nso bad,bad\n",
    "rows.tsv": "text\tlabel\r\nso fine\tgood\r\nso bad\tbad\r\n",
    "ROWS.CSV": "text,label\r\nso fine,good\r\nso bad,bad",
}


def values(path):
    return [dict(row.values) for row in read_rows(path)]


def refusal(path):
    with pytest.raises(DataError) as caught:
        list(read_rows(path))
    return str(caught.value)


@pytest.mark.parametrize("compressed", ["", ".gz"])
@pytest.mark.parametrize("name", SAME)
def test_every_format_gives_the_same_rows(write, name, compressed):
    assert values(write(name + compressed, SAME[name])) == [
        {"text": "so fine", "label": "good"},
        {"text": "so bad", "label": "bad"},
    ]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.tsv"])
def test_a_byte_order_mark_is_not_part_of_the_first_field(write, name):
    path = write(name, b"\xef\xbb\xbf" + SAME[name].encode())
    assert values(path)[0] == {"text": "so fine", "label": "good"}


@pytest.mark.parametrize(
    ("name", "lines"),
    [("rows.jsonl", [1, 2]), ("rows.json-lines", [1, 3]), ("rows.csv", [2, 4]), ("rows.tsv", [2, 3])],
)
def test_rows_know_the_line_they_begin_on(write, name, lines):
    assert [row.line for row in read_rows(write(name, SAME[name]))] == lines


def test_a_quoted_newline_in_csv_stays_in_its_field_and_lines_are_counted_through(write):
    path = write("rows.csv", 'text,label\n"one\ntwo, ""three""",good\nfour,bad\n')
    rows = list(read_rows(path))
    assert rows[0].values["text"] == 'one\ntwo, "three"'
    assert [row.line for row in rows] == [2, 4]


def test_quotes_in_tsv_are_ordinary_characters(write):
    path = write("rows.tsv", 'text\tlabel\n"so\tgood\nit\'s "fine"\tbad\n')
    assert [row["text"] for row in values(path)] == ['"so', 'it\'s "fine"']


def test_only_newlines_end_a_line(write):
    text = "one\x0btwo\x0cthree\x85four\u2028five"
    assert values(write("rows.tsv", f"text\tlabel\n{text}\tgood\n"))[0]["text"] == text
    assert values(write("rows.csv", f"text,label\n{text},good\n"))[0]["text"] == text
    assert values(write("rows.jsonl", json.dumps({"text": text}, ensure_ascii=False)))[0]["text"] == text


@pytest.mark.parametrize("name", ["long.jsonl", "long.csv", "long.tsv"])
def test_a_text_of_100_000_words_is_read_whole(write, name):
    text = "word " * 100_000
    content = {
        "long.jsonl": json.dumps({"text": text, "label": "good"}),
        "long.csv": f"text,label\n{text},good\n",
        "long.tsv": f"text\tlabel\n{text}\tgood\n",
    }
    assert values(write(name, content[name]))[0]["text"] == text


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\t"), min_size=1))
def test_any_text_comes_back_from_any_format(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("any")
    doubled = text.replace('"', '""')
    contents = {
        "a.jsonl": json.dumps({"text": text, "label": "x"}, ensure_ascii=False),
        "a.csv": f'text,label\n"{doubled}",x\n',
        "a.tsv": f"text\tlabel\n{text}\tx\n",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content.encode())
        assert values(folder / name) == [{"text": text, "label": "x"}]


@pytest.mark.parametrize(
    ("name", "stem"),
    [("a.jsonl", "a"), ("a.b.csv.gz", "a.b"), ("A.TSV.GZ", "A"), ("a.ndjson", "a"), ("a.json-lines.gz", "a")],
)
def test_a_file_is_called_by_its_name_without_the_format(name, stem):
    assert name_without_suffix(Path(name)) == stem


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert f"{tmp_path / 'lost.jsonl'} does not exist" in refusal(tmp_path / "lost.jsonl")


def test_a_folder_is_refused_as_a_folder(tmp_path):
    assert "is a folder" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["rows.txt", "rows.js", "rows", "rows.gz", ".jsonl"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(write, name):
    message = refusal(write(name, b"{}"))
    assert "rows" in message or ".jsonl is not" in message
    assert all(suffix in message for suffix in (".jsonl", ".csv", ".tsv", ".gz"))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.tsv.gz"])
@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_file_is_refused(write, name, content):
    assert "is empty" in refusal(write(name, content))


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv"])
def test_a_header_without_rows_is_refused(write, name):
    assert "has no rows" in refusal(write(name, "text\n"))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.tsv"])
def test_bytes_that_are_not_utf8_are_refused_with_their_line(write, name):
    path = write(name, SAME[name].replace("bad", "böse").encode("latin-1"))
    line = len(SAME[name].strip().splitlines())
    message = refusal(path)
    assert f"{name}, line {line} is not UTF-8" in message
    assert "save the file as UTF-8" in message


def test_a_compressed_file_without_gz_in_its_name_is_refused_with_advice(write):
    assert "add .gz to its name" in refusal(write("rows.jsonl", gzip.compress(SAME["rows.jsonl"].encode())))


def test_broken_json_is_refused_with_its_line(write):
    good = '{"text": "x"}\n'
    message = refusal(write("rows.jsonl", good * 31_416 + '{"text": "x\n'))
    assert "rows.jsonl, line 31417 is not valid JSON (Unterminated string starting at: column 10)" in message


@pytest.mark.parametrize("line", ["[" * 100_000, '{"n": ' + "9" * 5000 + "}"])
def test_json_beyond_what_python_reads_is_refused_with_its_line(write, line):
    assert "rows.jsonl, line 2" in refusal(write("rows.jsonl", '{"text": "x"}\n' + line))


@pytest.mark.parametrize("line", ['["text"]', '"text"', "1", "null"])
def test_a_json_line_that_is_no_object_is_refused(write, line):
    assert "rows.jsonl, line 2 is not a JSON object" in refusal(write("rows.jsonl", '{"text": "x"}\n' + line))


@pytest.mark.parametrize(("name", "joint"), [("rows.csv", ","), ("rows.tsv", "\t")])
@pytest.mark.parametrize("fields", [["one"], ["one", "two", "three"]])
def test_too_many_or_too_few_fields_are_refused_with_line_and_header(write, name, joint, fields):
    message = refusal(write(name, f"text{joint}label\nfine{joint}good\n{joint.join(fields)}\n"))
    assert f"{name}, line 3 has {len(fields)} fields, but the header has 2 (text, label)" in message


def test_a_quote_that_is_never_closed_does_not_swallow_the_rest_of_the_file(write):
    message = refusal(write("rows.csv", 'text,label\nfine,good\n"never closed,bad\nfine,good\n'))
    assert "the row at rows.csv, line 3 is not valid CSV" in message


def test_a_column_that_is_named_twice_is_refused(write):
    assert "rows.csv, line 1 names the column text more than once" in refusal(write("rows.csv", "text,text\na,b\n"))


def test_a_gzip_file_that_is_cut_short_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(SAME["rows.jsonl"].encode() * 1000)[:-20])
    assert f"{path} cannot be decompressed" in refusal(path)


def test_a_gzip_file_with_damage_inside_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    raw = bytearray(gzip.compress(SAME["rows.jsonl"].encode() * 1000))
    raw[30:60] = bytes(30)
    path.write_bytes(raw)
    assert "rows.jsonl.gz" in refusal(path)


def test_a_plain_file_called_gz_is_refused_with_advice(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    path.write_text(SAME["rows.jsonl"])
    assert "take .gz off its name" in refusal(path)


def test_a_file_that_the_system_will_not_open_is_refused_in_a_sentence(write, monkeypatch):
    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    path = write("rows.jsonl", "{}")
    monkeypatch.setattr(Path, "open", refuse)
    assert f"{path} cannot be read (Permission denied)" in refusal(path)


def test_what_is_written_is_read_back_the_same(tmp_path):
    stream = synthetic_stream(domains=3, train=20, validation=5, test=7)
    paths = write_jsonl(stream, tmp_path / "new" / "folder")
    loaded = load_stream(paths)
    assert list(loaded.stream) == list(stream)
    assert loaded.notices == ()


def test_single_texts_in_any_script_are_read_back_the_same(tmp_path):
    domain = Domain(
        "книги",
        (Example("ja\tnein\u2028“ö”", label="x"), Example("b", label="y")),
        (Example("v", label="x"),),
        (Example("t", label="y"),),
    )
    assert list(load_stream(write_jsonl(Stream([domain]), tmp_path)).stream) == [domain]


def test_only_finished_files_stay_in_the_folder(tmp_path):
    write_jsonl(synthetic_stream(domains=2, train=3, validation=0, test=0), str(tmp_path))
    write_jsonl(synthetic_stream(domains=2, train=6, validation=0, test=0), str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["harbour.jsonl", "kitchen.jsonl"]
    assert len((tmp_path / "kitchen.jsonl").read_text().splitlines()) == 6


@pytest.mark.parametrize("name", ["books_test", "north-dev", "train", "v1.val"])
def test_a_domain_that_would_be_read_back_as_another_is_refused(name, tmp_path):
    with pytest.raises(DataError, match=f"the file of the domain {name!r} would be read as another domain"):
        write_jsonl(Stream([Domain("kitchen", [Example("a", label="x")]), Domain(name)]), tmp_path / "here")
    assert not (tmp_path / "here").exists(), "some are written"


@pytest.mark.parametrize("name", ["b" * 300, "a\0b"])
def test_a_domain_whose_name_no_file_can_have_is_refused(name, tmp_path):
    with pytest.raises(DataError, match="cannot be written"):
        write_jsonl(Stream([Domain(name, [Example("a", label="x")])]), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_place_that_is_no_folder_and_half_a_character_are_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"):
        write_jsonl(Stream([Domain("books")]), tmp_path / "file")
    with pytest.raises(DataError, match=r"^an example of books holds half a character"):
        write_jsonl(Stream([Domain("books", [Example("a \ud800", label="x")])]), tmp_path)


def test_a_domain_whose_name_leads_out_of_the_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot name a file"):
        write_jsonl(Stream([Domain("../books")]), tmp_path / "here")
    assert not (tmp_path / "books.jsonl").exists()
