"""Commands read files as other programs write them, and `predict` writes what they read, with all columns."""

import csv
import json
import time

import pytest

from memgrow.cli.answers import CsvRows, JsonLines
from memgrow.data import Example
from memgrow.data.inputs import Input
from memgrow.errors import DataError
from memgrow.report.progress_bars import ProgressBar

PAIRS = [(f"the soup was {word}", f"it was {'cold' * (n % 3 + 1)}") for n, word in enumerate("abcdef")]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("formats") / "export.csv"
    rows = [f"{number};{one};{other};naïve;{number % 2}" for number, (one, other) in enumerate(PAIRS)]
    path.write_bytes("\n".join(["id;premise;hypothesis;note;label", *rows]).encode("cp1252"))
    return path


def test_answers_keep_ids_and_other_columns_as_csv_and_as_json_lines(memgrow, made, table, tmp_path):
    words = ("predict", made, "--file", table, "--encoding", "cp1252")
    lines = [json.loads(line) for line in memgrow.done(*words).splitlines()]
    assert memgrow.done(*words, "--json") == memgrow.done(*words)
    assert "--json or answers as csv, not both" in memgrow.refused(*words, "--json", "--format", "csv")
    assert [line["id"] for line in lines] == [str(number) for number in range(len(PAIRS))]
    assert [tuple(line["texts"]) for line in lines] == PAIRS
    assert {line["note"] for line in lines} == {"naïve"}
    assert [line["given_label"] for line in lines] == ["0", "1"] * 3
    assert "premise" not in lines[0]
    out = memgrow.done(*words, "--format", "csv")
    assert memgrow.done(*words, "--output", tmp_path / "answers.csv") == ""
    assert (tmp_path / "answers.csv").read_text(encoding="utf-8") == out
    rows = list(csv.DictReader(out.splitlines()))
    labels = list(lines[0]["probabilities"])
    names = ["id", "premise", "hypothesis", "note", "given_label", "label", "probability"]
    assert list(rows[0]) == [*names, *(f"probability_{label}" for label in labels)]
    for row, line in zip(rows, lines, strict=True):
        assert (row["id"], row["premise"], row["note"], row["label"]) == (
            line["id"], line["texts"][0], "naïve", line["label"]
        )  # fmt: skip
        assert float(row["probability"]) == line["probabilities"][line["label"]]


def test_answers_to_the_output_of_predict_keep_all_its_columns(memgrow, made, table, tmp_path):
    memgrow.done("predict", made, "--file", table, "--encoding", "cp1252", "-o", tmp_path / "once.csv")
    memgrow.done("predict", made, "--file", tmp_path / "once.csv", "-o", tmp_path / "twice.csv")
    first, second = (list(csv.DictReader((tmp_path / name).open())) for name in ("once.csv", "twice.csv"))
    assert [row["given_label"] for row in second] == ["0", "1"] * 3
    for row, again in zip(first, second, strict=True):
        assert again["given_given_label"] == again["label"] == row["label"]
        assert len(again) == len(row) + 5  # the label and four probabilities once more
        assert [again[f"given_{name}"] for name in list(row)[6:]] == list(row.values())[6:]
    (line,) = memgrow.done(
        "predict", made, stdin=json.dumps({"premise": "a", "hypothesis": "b", "given_label": "true", "label": "first"})
    ).splitlines()
    assert {"given_label": "true", "given_given_label": "first"}.items() <= json.loads(line).items()


def test_a_column_that_is_called_as_the_probability_of_a_label_is_kept(memgrow, made):
    rows = [{"premise": "a", "hypothesis": "b", "probability_neutral": 7, "given_label": "x", "label": "y"}]
    rows += [{"premise": "a", "hypothesis": "b", "label": "z"}]  # its label is in the column of the first row's
    out = memgrow.done("predict", made, "--format", "csv", stdin="\n".join(map(json.dumps, rows)))
    first, second = csv.DictReader(out.splitlines())
    assert (first["given_probability_neutral"], first["given_label"], first["given_given_label"]) == ("7", "x", "y")
    assert float(first["probability_neutral"]) < 1
    assert (second["given_label"], second["given_given_label"]) == ("", "z")


def test_rows_of_many_columns_are_answered_at_once():
    fields = {str(number): number for number in range(10_000)} | {"label": "good"}
    written: list[str] = []
    before = time.process_time()
    JsonLines(written.append).add(Input(Example("a text"), fields), {"label": "bad"})
    assert time.process_time() - before < 0.5  # it took a second a row
    assert json.loads(written[0])["given_label"] == "good"


def test_objects_on_standard_input_keep_their_fields_and_texts_become_columns(memgrow, made):
    lines = json.dumps({"premise": "a, b", "hypothesis": "c", "id": 7, "tags": ["x"]})
    (answer,) = map(json.loads, memgrow.done("predict", made, stdin=lines).splitlines())
    assert (answer["id"], answer["tags"], answer["texts"]) == (7, ["x"], ["a, b", "c"])
    (row,) = csv.DictReader(memgrow.done("predict", made, "--format", "csv", stdin=lines).splitlines())
    assert (row["premise"], row["id"], row["tags"]) == ("a, b", "7", '["x"]')
    (row,) = csv.DictReader(memgrow.done("predict", made, "a", "b", "--format", "csv").splitlines())
    assert (row["text"], row["pair"]) == ("a", "b")


def test_half_a_character_in_another_field_is_written_out(memgrow, made, tmp_path):
    line = r'{"premise": "a", "hypothesis": "b", "id": "\ud800", "half \udc80": "\udc80"}'
    (row,) = csv.DictReader(memgrow.done("predict", made, "--format", "csv", stdin=line).splitlines())
    assert (row["id"], row[r"half \udc80"]) == (r"\ud800", r"\udc80")
    memgrow.done("predict", made, "-o", tmp_path / "answers.csv", stdin=line)
    assert row == next(csv.DictReader((tmp_path / "answers.csv").open(encoding="utf-8")))
    (answer,) = map(json.loads, memgrow.done("predict", made, stdin=line).splitlines())
    assert (answer["id"], answer["half \udc80"]) == ("\ud800", "\udc80")


def test_a_field_that_is_too_deep_to_be_written_is_named_by_its_row(memgrow, made):
    rows = [f'{{"premise": "a", "hypothesis": "b", "tags": {"[" * deep}{"]" * deep}}}' for deep in (2, 900)]
    result = memgrow("predict", made, stdin="\n".join(rows))
    assert result.exit_code == 2
    assert "standard input, line 2 has a field that is nested too deeply" in result.stderr
    tags: list[object] = []
    for _ in range(100_000):
        tags = [tags]
    for kind in (JsonLines, CsvRows):
        with pytest.raises(DataError, match="line 7 has a field that is nested too deeply"):
            kind(print).add(Input(Example("a", where="line 7"), {"tags": tags}), {"label": "bad"})


def test_formats_that_are_none_are_told_before_the_model_is_read(memgrow, made, tmp_path):
    said = memgrow.refused("predict", tmp_path / "nowhere", "a", "b", "--format", "xml")
    assert said == "--format xml must be one of jsonl, csv; give --format"
    assert "does not say its format" in memgrow.refused("predict", made, "a", "b", "-o", tmp_path / "answers.txt")
    assert "there is no encoding 'x'" in memgrow.refused("predict", made, "--file", "a.csv", "--encoding", "x")
    rows = '{"premise": "a", "hypothesis": "b"}\n{"premise": "a", "hypothesis": "b", "id": 7}'
    result = memgrow("predict", made, "--output", tmp_path / "answers.csv", stdin=rows)
    assert result.exit_code == 2
    assert "standard input, line 2 has the field id, which the first row does not have" in result.stderr
    assert not (tmp_path / "answers.csv").exists()


def test_unknown_words_are_told_beside_the_answers(memgrow, made):
    result = memgrow("predict", made, "xylophones yodel zithers softly", "quixotic jumbled vowels whirl about untold")
    assert "of the words of these texts are unknown to the model" in " ".join(result.stderr.split())
    assert "unknown" not in result.stdout


def test_labels_are_learnt_under_other_names(memgrow, tmp_path):
    rows = [f"{'fine' if number % 2 else 'poor'} thing {number};{number % 4 + 1}" for number in range(60)]
    (tmp_path / "shop.csv").write_text("\n".join(["text;stars", *rows]))
    names = [word for one in ("1=bad", "2=good", "3=bad", "4=good") for word in ("--map-label", one)]
    words = ("adapt", tmp_path / "m", tmp_path / "shop.csv", "--label", "stars", *memgrow.tiny, *names)
    out = memgrow.done(*words, "--map-label", "9=bad")
    assert "no row has the label 9, for which there is another name" in out
    about = json.loads(memgrow.done("inspect", tmp_path / "m", "--json"))["about"]
    assert about["labels"] == ["bad", "good"]
    scores = memgrow.done("evaluate", tmp_path / "m", tmp_path / "shop.csv", "--label", "stars", *names, "--json")
    assert json.loads(scores).keys() == {"shop"}
    assert "is not OLD=NEW" in memgrow.refused(*words, "--map-label", "5")
    assert "gives 1 two names" in memgrow.refused(*words, "--map-label", "1=other")


def test_a_csv_by_a_delimiter_that_is_named_is_learnt(memgrow, tmp_path):
    rows = [f"{'fine' if number % 2 else 'poor'} thing, {number}^{number % 2}" for number in range(40)]
    (tmp_path / "shop.csv").write_text("\n".join(["text^label", *rows]))
    (tmp_path / "old.jsonl").write_text('{"text": "fine thing", "label": "1"}\n')  # which has no delimiter to choose
    words = ("adapt", tmp_path / "m", tmp_path / "shop.csv", "--delimiter", "^", "--watch", tmp_path / "old.jsonl")
    memgrow.done(*words, *memgrow.tiny)
    assert json.loads(memgrow.done("inspect", tmp_path / "m", "--json"))["about"]["labels"] == ["0", "1"]
    assert memgrow.learnt(tmp_path / "m") == [("shop",)]


def test_where_answers_go_to_a_file_a_bar_says_how_many_it_has_been(
    memgrow, made_of_texts, reviews, jsonl, tmp_path, monkeypatch
):
    shown: list[str] = []
    monkeypatch.setattr("memgrow.cli.predict.CHUNK", 10)
    monkeypatch.setattr("memgrow.cli.predict.is_watched", lambda output: output is not None)
    monkeypatch.setattr(ProgressBar, "show", lambda bar, name, done, total, state: shown.append(state))
    texts = jsonl(tmp_path / "texts.jsonl", reviews[:25])
    memgrow.done("predict", made_of_texts, "--file", texts, "-o", tmp_path / "answers.csv")
    assert shown == ["20 answered", "25 answered"]
    memgrow.done("predict", made_of_texts, "--file", texts)
    assert len(shown) == 2


# Encodings and delimiters, where they are of use


@pytest.fixture(scope="module")
def lamps() -> list[str]:
    return [f"a naïve lamp of {number} kinds" for number in range(30)]


def test_lines_of_standard_input_are_of_the_encoding_that_is_named(memgrow, made_of_texts, lamps):
    lines = "\n".join([*lamps, json.dumps({"text": "très fine"}, ensure_ascii=False)])
    found = {
        name: memgrow.done("predict", made_of_texts, "--encoding", name, stdin=lines.encode(name))
        for name in ("latin-1", "utf-8", "utf-8-sig")
    }
    assert len(set(found.values())) == 1
    assert json.loads(found["latin-1"].splitlines()[-1])["texts"] == ["très fine"]
    told = memgrow.done("watch", made_of_texts, "--encoding", "latin-1", "--json", stdin=lines.encode("latin-1"))
    assert told == memgrow.done("watch", made_of_texts, "--json", stdin=lines.encode())


@pytest.mark.parametrize("command", ["predict", "watch"])
def test_what_standard_input_cannot_be_read_by_is_refused(memgrow, made_of_texts, command):
    words, line = (command, made_of_texts), "a naïve lamp\n"
    assert "as utf-16" in memgrow.refused(*words, "--encoding", "utf-16", stdin=line)
    said = memgrow.refused(*words, "--encoding", "ascii", stdin=line)
    assert "standard input, line 1 is not ascii" in said
    assert "--delimiter is for CSV files" in memgrow.refused(*words, "--delimiter", ";", stdin=line)


@pytest.mark.parametrize("option", [("--encoding", "latin-1"), ("--delimiter", ";")])
def test_texts_of_the_command_line_have_neither_encoding_nor_delimiter(memgrow, made_of_texts, option):
    assert f"{option[0]} is for" in memgrow.refused("predict", made_of_texts, "a lamp", *option)


@pytest.mark.parametrize("command", ["watch", "report"])
def test_every_command_that_reads_files_can_be_told_how_they_are_written(memgrow, model, data, tmp_path, command):
    rows = [json.loads(line) for line in data["kitchen"].read_text().splitlines()]
    lines = [f"{row['premise']} naïve;{row['hypothesis']};{row['label']}" for row in rows if row["split"] == "test"]
    table = tmp_path / "kitchen.csv"
    table.write_bytes("\n".join(["premise;hypothesis;label", *lines]).encode("latin-1"))
    words = {
        "watch": ("watch", model, table),
        "report": ("report", model, table, "-o", tmp_path / "page.html"),
    }[command]
    assert "--encoding" in memgrow.refused(*words)
    memgrow.done(*words, "--encoding", "latin-1", "--delimiter", ";")
