"""Files are read as rows whatever their format and quoting; what cannot be read is one sentence with its place."""

import io
import json
import os
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memgrow.data import Columns, Domain, Example, Stream, disk, files, load_stream, write_jsonl
from memgrow.data.files import domain_and_part, line_chunks, read_rows
from memgrow.data.rows import DEFAULT_COLUMNS, inputs_from_file, inputs_from_lines
from memgrow.errors import DataError, SettingsError

ROW = b'{"text": "so fine", "label": "good"}\n'
NL = "\u2028"  # a line separator of Unicode ends no line


def values(path: Path, **how: str) -> list[dict[str, object]]:
    return [dict(row) for _, row in read_rows(path, **how)]


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", '{"text": "a"}\n\n {"text": "b"}\r\n', [{"text": "a"}, {"text": "b"}]),
        ("a.ndjson", f'{{"text": "a{NL}b"}}', [{"text": f"a{NL}b"}]),
        ("a.jsonl", '\ufeff{"text": "a"}\n', [{"text": "a"}]),
        (
            "a.csv",
            'text,label\n"a, ""b""\nc",x\n\nd,y\n',
            [{"text": 'a, "b"\nc', "label": "x"}, {"text": "d", "label": "y"}],
        ),
        ("a.csv", "\ufefftext;label\r\na,b;x\r\n", [{"text": "a,b", "label": "x"}]),
        ("a.csv", '"ab"| c \n1|2\n', [{"ab": "1", "c": "2"}]),
        ("a.csv", "text\tlabel\na\tx\n", [{"text": "a", "label": "x"}]),
        ("a.tsv", 'text\tlabel\n"a\tx"\r\n\n', [{"text": '"a', "label": 'x"'}]),
        ("A.TSV", "text\n a \n", [{"text": " a "}]),
    ],
)
def test_each_format_is_read(write, packed, name, content, expected):
    assert values(write(name + packed, content)) == expected


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1", "cp1252"])
def test_an_encoding_can_be_given(write, encoding):
    assert values(write("a.csv", "text\nnaïve".encode(encoding)), encoding=encoding) == [{"text": "naïve"}]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.text(st.characters(codec="utf-8"), min_size=1), st.sampled_from("xy")), min_size=1))
def test_what_is_written_is_read_again(tmp_path_factory, pairs):
    examples = [Example(text, label=label) for text, label in pairs if text.strip()] or [Example("a", label="x")]
    stream = Stream([Domain("mine", examples, examples[:1], examples[1:])])
    assert list(load_stream(write_jsonl(stream, tmp_path_factory.mktemp("out"))).stream) == [
        Domain("mine", tuple(examples), tuple(examples[:1]), tuple(examples[1:]))
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("books.jsonl.gz", ("books", None)),
        ("books_train.jsonl.gz", ("books", "train")),
        ("books-dev.csv", ("books", "validation")),
        ("books.valid.tsv", ("books", "validation")),
        ("Books_TEST.csv", ("Books", "test")),
        ("multinli_1.0_train.jsonl", ("multinli_1.0", "train")),
        ("contest.csv", ("contest", None)),
        ("_test.csv", ("_test", None)),
        ("books_train_2.csv", ("books_train_2", None)),
        ("books/test.csv", ("books", "test")),
    ],
)
def test_a_file_name_gives_domain_and_part(path, expected):
    assert domain_and_part(Path(path)) == expected


BAD = {
    "not JSON": ("a.jsonl", ROW + b"{oops\n", "line 2 is not valid JSON"),
    "no object": ("a.jsonl", b"[1]\n", "line 1 is not a JSON object"),
    "too deep": ("a.jsonl", b'{"text":' + b"[" * 100_000, "line 1 is not valid JSON"),
    "too many digits": ("a.jsonl", b'{"text": ' + b"1" * 5000 + b"}", "line 1 is not valid JSON"),
    "array": ("a.json", b"[1, 2]", "not of a known format"),
    "not UTF-8": ("a.jsonl", ROW + b'{"text": "\xff"}\n', "line 2 is not valid utf-8"),
    "not UTF-8 in CSV": ("a.csv", b"text,label\na,x\n\xe9,y\n", "line 3 is not valid utf-8"),
    "open quote": ("a.csv", b'text,label\na,x\n"b,y\nc,z\n', "line 3.*CSV"),
    "too few fields": ("a.csv", b"text,label\na,x\nb\n", "line 3 has 1 fields"),
    "column twice": ("a.csv", b"text,text\na,x\n", "names the column text more than once"),
    "too many fields": ("a.tsv", b"text\tlabel\na\tx\ty\n", "line 2 has 3 fields"),
    "empty": ("a.csv", b"", "has no rows"),
    "header alone": ("a.csv", b"text,label\n", "has no rows"),
    "no gzip": ("a.jsonl.gz", None, "cannot be decompressed"),
    "empty text": ("a.jsonl", ROW + b'{"text": " ", "label": "x"}\n', "line 2: the field 'text' is empty"),
    "missing field": ("a.jsonl", ROW + b'{"label": "x"}\n', "line 2 has no value for the field 'text'"),
    "number as text": ("a.jsonl", b'{"text": 3, "label": "x"}\n', "'text' is of type int"),
    "float label": ("a.jsonl", b'{"text": "a", "label": 0.5}\n', "'label' is of type float"),
    "lone surrogate": ("a.jsonl", b'{"text": "\\ud800", "label": "x"}\n', "lone surrogate"),
    "unknown part": ("a.jsonl", b'{"text": "a", "label": "x", "split": "later"}\n', "'later'"),
    "late split": ("a.jsonl", ROW + b'{"text": "a", "label": "x", "split": "test"}\n', "give it to all or none"),
    "no gold label": ("a.jsonl", b'{"text": "a", "label": "-"}\n', "every row of a.jsonl is without a gold label"),
    "unknown format": ("a.txt", ROW, "not of a known format"),
    "no name": (".csv", ROW, "not of a known format"),
}


@pytest.mark.parametrize("fault", BAD)
def test_what_cannot_be_read_is_one_line_with_its_place(tmp_path, write, fault):
    name, content, keyword = BAD[fault]
    path = tmp_path / name
    path.write_bytes(b"no archive") if content is None else write(name, content)
    with pytest.raises(DataError, match=keyword) as caught:
        load_stream(path)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["klingon", "rot13"])
def test_an_unknown_encoding_is_refused(encoding):
    with pytest.raises(SettingsError, match="encoding"):
        Columns(encoding=encoding)


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(pipe := tmp_path / "pipe.jsonl")
    (device := tmp_path / "zero.csv").symlink_to("/dev/zero")
    (loop := tmp_path / "loop.jsonl").symlink_to(loop)
    for path, keyword in (
        (pipe, "a pipe"),
        (device, "a pipe"),
        (loop, "does not exist"),
        (tmp_path, "is a folder"),
        (tmp_path / "lost.csv", "does not exist"),
    ):
        with pytest.raises(DataError, match=keyword):
            load_stream(path)


def test_the_length_of_a_row_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_ROW", 1 << 16)
    for name, content in (
        ("long.jsonl", b"{}\n" + b"a" * (1 << 20)),
        ("long.csv", b'text,label\n"' + b"a line of the text\n" * 10_000 + b'",good\n'),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match="line 2"):
            list(read_rows(tmp_path / name))
    with pytest.raises(DataError, match="standard input"):
        list(line_chunks(io.BytesIO(b"a" * (1 << 20))))


def test_standard_input_is_read_as_it_comes():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as file:
        chunks = inputs_from_lines(line_chunks(file), DEFAULT_COLUMNS, "text")
        os.write(writing, b'a line\n{"text": "b", "id": 7}\nhal')
        first = next(chunks)
        assert [one.example.text for one in first] == ["a line", "b"]
        assert first[1].fields == {"text": "b", "id": 7}
        os.write(writing, b"f\r\n")
        assert [one.example for one in next(chunks)] == [Example("half")]
        os.close(writing)
        assert list(chunks) == []


@pytest.mark.parametrize(
    ("line", "task", "keyword"),
    [
        (b"", "text", "line 1 is empty"),
        (b"\xff", "text", "line 1 is not utf-8"),
        (b'{"text": ', "text", "line 1 is not valid JSON"),
        (b'{"body": "a"}', "text", "line 1.*no column for the text"),
        (b"only one", "pair", "line 1.*tab"),
    ],
)
def test_a_line_that_cannot_be_answered_is_named(line, task, keyword):
    with pytest.raises(DataError, match=keyword):
        list(inputs_from_lines([[line]], DEFAULT_COLUMNS, task))


def test_prediction_needs_neither_labels_nor_replies(write_rows):
    rows = [{"message": "a", "response": "b"}, {"message": "c", "response": " "}, {"message": "d", "label": [1]}]
    assert [one.example.reply for one in inputs_from_file(write_rows("talk.jsonl", rows))] == ["b", None, None]
    rows = [{"premise": "a", "hypothesis": "b", "label": "-"}, {"premise": "a", "hypothesis": "b", "label": 7}]
    assert [one.example.label for one in inputs_from_file(write_rows("nli.jsonl", rows))] == [None, "7"]


ROWS = [{"text": f"text {i} é", "label": i % 3, "genre": "gh"[i % 2], "more": [1.5] * (i % 5)} for i in range(300)]


def test_parquet_rows_are_those_of_json_lines(tmp_path, write_rows):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), path := tmp_path / "all.parquet", row_group_size=70)
    for columns in (Columns(), Columns(by="genre")):
        expected = load_stream(write_rows("all.jsonl", ROWS), columns=columns).stream
        assert list(load_stream(path, columns=columns).stream) == list(expected)
    assert list(inputs_from_file(path))[299].example.where == "all.parquet, row 300"


def test_parquet_that_cannot_be_read_is_one_line(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    parquet, path = pytest.importorskip("pyarrow.parquet"), tmp_path / "all.parquet"
    column = pyarrow.array(["a"])
    empty_label = pyarrow.Table.from_pylist([ROWS[0], {**ROWS[0], "label": None}])
    twice = pyarrow.Table.from_arrays([column, column], names=["text", "text"])
    for table, keyword in ((twice, "more than once"), (empty_label, "row 2 has no value")):
        parquet.write_table(table, path)
        with pytest.raises(DataError, match=keyword):
            load_stream(path)
    content = path.read_bytes()
    for end in (0, 5, 40, len(content) // 2, len(content) - 9):
        path.write_bytes(content[:end])
        with pytest.raises(DataError, match=r"cannot be read"):
            load_stream(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SettingsError, match=r"memgrow\[arrow\]"):
        load_stream(path)


@pytest.fixture
def small_limit(monkeypatch) -> int:
    """The bytes from which the size of what a file unpacks to is compared with its own."""
    monkeypatch.setattr(disk, "MAX_UNPACKED", 1 << 18)
    return 1 << 18


def test_a_parquet_file_that_unpacks_to_too_much_is_refused(tmp_path, small_limit):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "bomb.parquet"
    parquet.write_table(pyarrow.table({"text": ["a" * 1000] * 5000, "label": ["x", "y"] * 2500}), path)
    assert path.stat().st_size < 50_000
    with pytest.raises(DataError, match="unpacks to more"):
        list(read_rows(path))


def test_a_text_that_a_parquet_file_repeats_is_counted_before_it_is_made(tmp_path):
    """One page holds the text, and each of its rows a few bits: a few bytes come to gigabytes."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    text = pyarrow.array(["a" * (1 << 18)])
    repeated = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 256), text)
    for column in (repeated, repeated.cast(pyarrow.string())):
        table = pyarrow.table({"text": column, "label": ["x", "y"] * 128, "more": [[1]] * 256})
        parquet.write_table(table, path := tmp_path / "bomb.parquet", compression="zstd")
        del table
        before = pyarrow.default_memory_pool().max_memory()
        with pytest.raises(DataError, match="unpacks to more"):
            list(read_rows(path))
        assert pyarrow.default_memory_pool().max_memory() == before


@pytest.mark.parametrize("columns", [1, 8])
def test_a_parquet_page_that_is_out_of_proportion_is_not_unpacked(tmp_path, columns):
    """A page is unpacked whole, one of each column at once: 35,000 bytes took 2.8 GB."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    texts = {f"text {number}": ["a" * ((32 << 20) // columns)] for number in range(columns)}
    parquet.write_table(
        pyarrow.table(texts), path := tmp_path / "bomb.parquet", use_dictionary=False, compression="zstd"
    )
    usual = pyarrow.default_memory_pool()
    pyarrow.set_memory_pool(counting := pyarrow.proxy_memory_pool(usual))
    try:
        with pytest.raises(DataError, match="unpacks to more"):
            list(read_rows(path))
    finally:
        pyarrow.set_memory_pool(usual)
    assert counting.max_memory() < 1 << 20


def varint(number: int) -> bytes:
    """A number as in the footer of a Parquet file."""
    number, found = number << 1 ^ number >> 63, b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


def with_footer(path: Path, told: dict[int, int]) -> None:
    """Replace numbers in the footer."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[-8:-4], "little")
    footer = raw[-8 - size : -8]
    for number, other in told.items():
        assert varint(number) in footer
        footer = footer.replace(varint(number), varint(other))
    path.write_bytes(raw[: -8 - size] + footer + len(footer).to_bytes(4, "little") + raw[-4:])


@pytest.mark.parametrize("dictionary", [False, True])
def test_a_parquet_footer_that_lies_about_sizes_does_not_open_the_door_to_a_bomb(tmp_path, dictionary):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    text = ["a" * (32 << 20)]
    path = tmp_path / "bomb.parquet"
    parquet.write_table(pyarrow.table({"text": text}), path, use_dictionary=dictionary, compression="zstd")
    with_footer(path, {parquet.read_metadata(path).row_group(0).column(0).total_uncompressed_size: 99})
    assert parquet.read_metadata(path).row_group(0).column(0).total_uncompressed_size == 99
    usual = pyarrow.default_memory_pool()
    pyarrow.set_memory_pool(counting := pyarrow.proxy_memory_pool(usual))
    try:
        with pytest.raises(DataError, match="unpacks to more"):
            list(read_rows(path))
    finally:
        pyarrow.set_memory_pool(usual)
    assert counting.max_memory() < 1 << 20


@pytest.mark.parametrize("told", [0, 5, -7, 1 << 40, 1 << 62])
def test_a_parquet_footer_that_lies_about_rows_gives_no_row_that_is_not_there(tmp_path, told):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    texts = [f"text {number}" for number in range(12_347)]
    parquet.write_table(pyarrow.table({"text": texts}), path := tmp_path / "rows.parquet")
    with_footer(path, {len(texts): told})
    try:
        found = [row["text"] for _, row in read_rows(path)]
    except DataError:
        found = []
    assert found == texts[: len(found)]


@pytest.mark.parametrize("name", ["bomb.jsonl.gz", "bomb.csv.gz", "bomb.tsv.gz"])
def test_a_compressed_file_that_unpacks_to_too_much_is_refused(write, small_limit, name):
    header, row = (b"text\tlabel\n", b"a\tx\n") if ".tsv" in name else (b"text,label\n", b"a,x\n")
    if "json" in name:
        header, row = b"", b'{"text": "a", "label": "x"}\n'
    path = write(name, header + row * (4 * small_limit // len(row)))
    tracemalloc.start()
    with pytest.raises(DataError, match="unpacks to more") as caught:
        for _ in read_rows(path):
            pass
    assert "\n" not in str(caught.value)
    assert tracemalloc.get_traced_memory()[1] < 4 * small_limit
    tracemalloc.stop()
    small = write("small.jsonl.gz", (json.dumps({"text": "a" * 3000}) + "\n") * 80)
    assert sum(1 for _ in read_rows(small)) == 80  # out of proportion, but small
