"""Data that cannot be used: one sentence with file, line and field, exit code 2, and every model as it was."""

import errno
import json
import os
from pathlib import Path

import pytest


@pytest.fixture
def bad(reviews, jsonl, tmp_path):
    """Files that cannot be learnt from, by the name of what is wrong with them."""

    def make(name: str) -> Path:
        file = tmp_path / "bad.jsonl"
        good = {"text": "a fine lamp", "label": "good"}
        match name:
            case "missing":
                pass
            case "not UTF-8":
                file.write_bytes(json.dumps(good).encode() + b'\n{"text": "caf\xe9", "label": "good"}\n')
            case "empty":
                file.write_bytes(b"")
            case "one class":
                jsonl(file, [good | {"text": f"lamp {n}"} for n in range(30)])
            case "broken line":
                line = json.dumps(good) + "\n"
                file.write_text(line * 31_416 + '{"text": "a broken lamp", "label": "go\n' + line)
            case "missing column":
                jsonl(file, [{"text": "a lamp", "verdict": "good"}])
            case "missing field":
                jsonl(file, [good, {"label": "good"}])
            case "empty text":
                jsonl(file, [*reviews, {"text": " ", "label": "good"}])
            case "folder":
                file.mkdir(exist_ok=True)
            case "unknown format":
                file = tmp_path / "bad.xlsx"
                file.write_bytes(b"PK")
            case "too few":
                jsonl(file, [good, good | {"label": "bad"}])
        return file

    return make


SAYS = {
    "missing": ("bad.jsonl does not exist", "check the name"),
    "not UTF-8": ("bad.jsonl, line 2", "UTF-8"),
    "empty": ("bad.jsonl is empty", "give a file with at least one"),
    "one class": ("the domain bad have the label good", "at least two labels"),
    "broken line": ("bad.jsonl, line 31417", "not valid JSON"),
    "missing column": ("bad.jsonl has no column for the label", "text, verdict", "--label"),
    "missing field": ("bad.jsonl, line 2 has no value for the field 'text'", "fill it in or remove the row"),
    "empty text": ("bad.jsonl, line 41: the field 'text' is empty", "remove the row"),
    "folder": ("bad.jsonl is a folder", "name the files in it"),
    "unknown format": ("bad.xlsx is not of a known format", ".jsonl"),
    "too few": ("bad has no validation examples", "give more rows"),
}


@pytest.mark.parametrize("name", SAYS)
def test_a_new_model_does_not_come_of_it(memgrow, bad, never_made, name):
    sentence = memgrow.refused("adapt", never_made, bad(name), *memgrow.tiny)
    for part in SAYS[name]:
        assert part in sentence


@pytest.mark.parametrize("name", [name for name in SAYS if name != "one class"])  # which a later domain may have
def test_an_old_model_stays_as_it_was(memgrow, bad, untouched, name):
    assert SAYS[name][0] in memgrow.refused("adapt", untouched, bad(name))


@pytest.mark.parametrize("name", [name for name in SAYS if name not in ("one class", "too few")])
@pytest.mark.parametrize("command", ["evaluate", "watch", "second"])
def test_it_is_refused_wherever_it_is_given(memgrow, bad, data, untouched, name, command):
    words = {
        "evaluate": ("evaluate", untouched, bad(name)),
        "watch": ("adapt", untouched, data["clinic"], "--watch", bad(name)),
        "second": ("adapt", untouched, data["clinic"], bad(name)),
    }
    assert SAYS[name][0] in memgrow.refused(*words[command])


@pytest.mark.parametrize("option", ["--validation", "--test", "--held-out"])
def test_a_missing_file_of_a_part_is_refused(memgrow, data, untouched, option):
    assert "nowhere.jsonl does not exist" in memgrow.refused(
        "adapt", untouched, data["clinic"], option, "nowhere.jsonl"
    )


def test_a_file_that_may_not_be_read_is_refused(memgrow, data, untouched, monkeypatch):
    # As it is for all but root: who asks first would answer in other words than one sentence.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != data["clinic"])
    # The tests may run as root, who may read everything: so the system's answer is played.
    plain = Path.open

    def guarded(path, *words, **named):
        if path == data["clinic"]:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return plain(path, *words, **named)

    monkeypatch.setattr(Path, "open", guarded)
    sentence = memgrow.refused("adapt", untouched, data["clinic"])
    assert "clinic.jsonl cannot be read (Permission denied)" in sentence


def with_odd_label(data: Path, part: str, folder: Path) -> tuple[Path, int]:
    """A copy of a file in which one row of a part has a label that no model knows, and its line."""
    lines = data.read_text().splitlines()
    number = next(n for n, line in enumerate(lines) if json.loads(line)["split"] == part)
    lines[number] = json.dumps(json.loads(lines[number]) | {"label": "perhaps"})
    file = folder / "odd.jsonl"
    file.write_text("\n".join(lines) + "\n")
    return file, number + 1


@pytest.mark.parametrize("part", ["validation", "test"])
def test_an_unknown_label_in_a_second_domain_is_refused_before_the_first_is_learnt(
    memgrow, data, never_made, part, tmp_path
):
    file, line = with_odd_label(data["harbour"], part, tmp_path)
    sentence = memgrow.refused("adapt", never_made, data["kitchen"], file, *memgrow.tiny)
    assert sentence == (
        f"odd.jsonl, line {line}: unknown label 'perhaps'; this model knows contradiction, entailment, neutral, and no "
        "training row of odd has it: correct the row, or give more rows with that label"
    )


def test_an_unknown_label_is_refused_by_an_old_model(memgrow, data, untouched, tmp_path):
    file, line = with_odd_label(data["clinic"], "test", tmp_path)
    for command in ("evaluate", "adapt"):  # no training example has it
        assert f"odd.jsonl, line {line}: unknown label" in memgrow.refused(command, untouched, file)


def test_single_texts_for_a_model_of_pairs_are_refused(memgrow, reviews, jsonl, untouched, tmp_path):
    file = jsonl(tmp_path / "reviews.jsonl", reviews)
    assert "this model reads two texts, but the example has 1" in memgrow.refused("adapt", untouched, file)


@pytest.mark.parametrize("command", ["adapt", "evaluate"])
def test_two_files_of_one_name_do_not_become_one_domain_unnoticed(memgrow, data, untouched, command, tmp_path):
    files = [tmp_path / folder / "reviews.jsonl" for folder in ("north", "south")]
    for file, name in zip(files, ("kitchen", "clinic"), strict=True):
        file.parent.mkdir()
        file.write_bytes(data[name].read_bytes())
    sentence = memgrow.refused(command, untouched, *files)
    assert str(files[0]) in sentence
    assert "rename one of them" in sentence


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--text", "body"), "has no column 'body' (named by --text)"),
        (("--group", "writer"), "has no column 'writer' (named by --group)"),
        (("--by", "shop"), "has no column 'shop' (named by --by)"),
        (("--limit", "0"), "a limit of 0 leaves no examples"),
        (("--domains", "attic"), "no domain attic"),
        (("--vectors", "nowhere.txt"), "nowhere.txt does not exist"),
    ],
)
def test_options_that_do_not_fit_the_data_are_refused(memgrow, data, untouched, words, says):
    assert says in memgrow.refused("adapt", untouched, data["clinic"], *words)


def test_word_vectors_of_another_size_are_refused(memgrow, data, untouched, tmp_path):
    (tmp_path / "glove.txt").write_text("the 1 2 3\nsoup 3 2 1\n")
    sentence = memgrow.refused("adapt", untouched, data["clinic"], "--vectors", tmp_path / "glove.txt")
    assert "have 3 numbers, but this model's words have 6" in sentence
