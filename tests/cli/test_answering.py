"""`memgrow evaluate`, `predict` and `inspect`: what a model says, in the order in which it was asked."""

import json
import os
import re
import sys
import threading

import pytest

from memgrow.cli import app
from memgrow.learner import Learner
from tests.support.stored import stored


def answers(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return [(f"the soup was {word}", f"it was {'cold' * (n % 3 + 1)}") for n, word in enumerate("abcdefghij")]


@pytest.fixture(scope="module")
def expected(memgrow, made, pairs) -> list[dict]:
    return answers(memgrow.done("predict", made, *[text for pair in pairs for text in pair]))


def test_evaluation_is_a_table_or_json(memgrow, made, data):
    table = memgrow.done("evaluate", made, data["kitchen"], data["clinic"])
    scores = json.loads(memgrow.done("evaluate", made, data["kitchen"], data["clinic"], "--json"))
    assert list(scores) == ["kitchen", "clinic"]
    for name, score in scores.items():
        assert f"{name} 24 {100 * score:.1f}" in " ".join(table.split())


def test_evaluation_has_figures_of_each_label_and_the_baseline(memgrow, made, data, tmp_path):
    found = json.loads(memgrow.done("evaluate", made, data["kitchen"], "--by-label", "--json"))["kitchen"]
    counts = found["confusion"]["counts"]
    assert sum(map(sum, counts)) == found["examples"] == 24
    assert found["accuracy"] == found["micro_f1"] == sum(row[n] for n, row in enumerate(counts)) / 24
    assert found["baseline"] == max(map(sum, counts)) / 24
    shown = memgrow.done("evaluate", made, data["kitchen"], "--by-label", "--plot", tmp_path / "labels.png")
    assert "kitchen: labels (rows) and answers (columns)" in shown, "in one line, however narrow the table is"
    assert "kitchen: each label (always contradiction: 33.3% right)" in shown
    assert "kitchen: labels (rows) and answers (columns)" in shown
    assert max(map(len, shown.replace(str(tmp_path), "").splitlines())) <= 80
    assert (tmp_path / "labels.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_is_of_the_format_that_its_name_says(memgrow, made, data, tmp_path):
    for name, begins in (("labels.SVG", b"<?xml"), ("labels.pdf", b"%PDF")):
        memgrow.done("evaluate", made, data["kitchen"], "--plot", tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(begins)
    for name in ("labels.jpg", "labels"):
        said = memgrow.refused("evaluate", tmp_path / "none", data["kitchen"], "--plot", tmp_path / name)
        assert said == f"{tmp_path / name} must end with .png, .svg, .pdf, which says the format of the picture"


def test_two_models_stand_side_by_side_on_the_same_examples(memgrow, made, data, jsonl, tmp_path):
    other = Learner.load(made, "cpu")
    assert other.labels is not None
    other.labels = (*other.labels[1:], other.labels[0])  # it takes each label for another
    other.save(tmp_path / "other")
    files = []
    for name in ("kitchen", "harbour"):
        rows = [row for row in map(json.loads, data[name].open()) if row["split"] == "test"]
        by_label = [[row for row in rows if row["label"] == label] for label in other.labels]
        files.append(jsonl(tmp_path / f"{name}.jsonl", [*by_label[0][:8], *by_label[1][:5], *by_label[2][:2]]))
    words = ("evaluate", made, *files, "--against", tmp_path / "other")
    found = json.loads(memgrow.done(*words, "--json"))
    ours, theirs = (json.loads(memgrow.done("evaluate", one, *files, "--json")) for one in (made, tmp_path / "other"))
    assert ours != theirs
    assert list(found) == ["kitchen", "harbour", "all of them"]
    for name in ours:
        assert found[name]["accuracy"] == ours[name]
        assert found[name]["against"]["difference"] == pytest.approx(ours[name] - theirs[name])
    of_all = found["all of them"]  # both domains have 15 examples
    assert of_all["accuracy"] == pytest.approx(sum(ours.values()) / 2)
    assert of_all["against"]["difference"] == pytest.approx((sum(ours.values()) - sum(theirs.values())) / 2)
    better = "is better than" in (shown := " ".join(memgrow.done(*words).split()))
    assert better == (of_all["against"]["low"] > 0 or of_all["against"]["high"] < 0)
    apart = of_all["against"]["only_first"] + of_all["against"]["only_second"]
    assert better or f"{apart} of 30 are answered differently" in shown


def test_evaluation_tells_how_far_probabilities_can_be_believed(memgrow, made, data):
    shown = " ".join(memgrow.done("evaluate", made, data["kitchen"]).split())
    found = json.loads(memgrow.done("evaluate", made, data["kitchen"], "--calibration", "--json"))["kitchen"]
    assert re.search(rf"kitchen 24 {100 * found['accuracy']:.1f} .*\b{100 * found['ece']:.1f}$", shown)
    assert found["temperature"] >= 1
    more = " ".join(memgrow.done("evaluate", made, data["kitchen"], "--calibration").split())
    assert f"{100 * found['ece']:.1f} {100 * found['ece_uncalibrated']:.1f} {100 * found['confidence']:.1f}" in more
    about = json.loads(memgrow.done("inspect", made, "--json"))["about"]
    assert about["temperature"] == found["temperature"]
    assert about["calibration_error"].keys() == set(about["domains"])


def test_evaluation_by_a_column(memgrow, made_of_texts, reviews, jsonl, tmp_path):
    rows = [row | {"shop": "north" if number % 2 else "south"} for number, row in enumerate(reviews)]
    file = jsonl(tmp_path / "all.jsonl", rows)
    words = ("evaluate", made_of_texts, file, "--by", "shop", "--json")
    assert list(json.loads(memgrow.done(*words))) == ["south", "north"]
    assert list(json.loads(memgrow.done(*words, "--domains", "north"))) == ["north"]


def test_each_text_of_the_command_line_has_an_answer(memgrow, made_of_texts):
    first, second = answers(memgrow.done("predict", made_of_texts, "a fine lamp", "ein schöner Stuhl"))
    assert first["texts"] == ["a fine lamp"]
    assert second["texts"] == ["ein schöner Stuhl"]
    for answer in (first, second):
        assert set(answer["probabilities"]) == {"good", "bad"}
        assert sum(answer["probabilities"].values()) == pytest.approx(1)
        assert answer["label"] == max(answer["probabilities"], key=answer["probabilities"].get)


def test_texts_are_taken_two_and_two_by_a_model_of_pairs(memgrow, made, pairs, expected):
    assert [tuple(answer["texts"]) for answer in expected] == pairs
    assert "give two texts for each answer, not 3 in all" in memgrow.refused("predict", made, "a", "b", "c")


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_file_is_answered_row_by_row_in_its_order(memgrow, made, pairs, expected, kind, jsonl, tmp_path):
    if kind == "jsonl":
        file = jsonl(tmp_path / "x.jsonl", [{"premise": first, "hypothesis": second} for first, second in pairs])
        words = ()
    else:
        file = tmp_path / "x.csv"
        file.write_text("one,two\n" + "".join(f"{first},{second}\n" for first, second in pairs))
        words = ("--text", "one", "--pair", "two")
    assert answers(memgrow.done("predict", made, "--file", file, *words)) == expected


@pytest.mark.parametrize("kind", ["json", "tabs", "both"])
def test_standard_input_is_answered_line_by_line_in_its_order(memgrow, made, pairs, expected, kind, monkeypatch):
    monkeypatch.setattr("memgrow.cli.predict.CHUNK", 3)  # so that the order must hold across chunks too
    lines = [
        json.dumps({"premise": first, "hypothesis": second})
        if kind == "json" or (kind == "both" and number % 2)
        else f"{first}\t{second}"
        for number, (first, second) in enumerate(pairs)
    ]
    found = answers(memgrow.done("predict", made, stdin="\n".join(lines)))
    assert [answer["texts"] for answer in found] == [answer["texts"] for answer in expected]
    for answer, other in zip(found, expected, strict=True):
        assert answer["probabilities"] == pytest.approx(other["probabilities"], abs=1e-6)


def test_a_plain_line_is_a_text(memgrow, made_of_texts):
    (answer,) = answers(memgrow.done("predict", made_of_texts, stdin="a fine\tlamp\r\n"))
    assert answer["texts"] == ["a fine\tlamp"]


def test_what_is_about_replies_is_refused_for_a_model_of_labels(memgrow, made, data, tmp_path):
    assert "--beam is for replies" in memgrow.refused("predict", made, "a", "b", "--beam", 7)
    assert "--beam is for replies" in memgrow.refused("evaluate", made, data["kitchen"], "--beam", 5)
    words = ("evaluate", made, data["kitchen"], "--vectors")
    assert "--vectors is for replies" in memgrow.refused(*words, tmp_path / "nowhere.vec")
    assert memgrow.done(*words, "none") == memgrow.done("evaluate", made, data["kitchen"], "--beam", 1)


def test_no_lines_no_answers(memgrow, made):
    assert memgrow.done("predict", made, stdin="") == ""


@pytest.mark.parametrize(
    ("stdin", "says"),
    [
        (b"a\tb\n\n", r"standard input, line 2 is empty"),
        (b"a\tb\nonly one\n", r"standard input, line 2: this model reads pairs; put a tab between"),
        (b"a\tb\n\xff\xfe\n", r"standard input, line 2 is not utf-8"),
        (b'a\tb\n{"premise": \n', r"standard input, line 2 is not valid JSON"),
        (b'{"premise":' + b"[" * 100_000 + b"\n", r"standard input, line 1 cannot be read as JSON"),
        (b'{"premise": "a"}\n', r"standard input, line 1: this row has no column for the text"),
        (b'{"premise": "a", "hypothesis": 3}\n', r"line 1: the field 'hypothesis' is a number, but a text must be"),
        (b'{"premise": "a", "hypothesis": " "}\n', r"line 1: the field 'hypothesis' is empty"),
        (b'{"premise": "a", "hypothesis": "\\ud83d"}\n', r"line 1: the field 'hypothesis' holds a lone surrogate"),
        (b'{"text": "a"}\n', r"line 1: this model reads two texts, but the example has 1"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(memgrow, made, stdin, says):
    assert says in memgrow.refused("predict", made, stdin=stdin)


def test_texts_and_a_file_together_are_refused(memgrow, made, data):
    assert "not both" in memgrow.refused("predict", made, "a", "b", "--file", data["kitchen"])


@pytest.mark.parametrize("command", ["predict", "inspect"])
def test_an_empty_text_is_refused(memgrow, made, command):
    assert "text 2 is empty" in memgrow.refused(command, made, "a", " ")


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_endless_texts_are_answered_and_their_cut_is_told_beside_the_output(
    memgrow, made_of_texts, command, jsonl, tmp_path
):
    file = jsonl(tmp_path / "x.jsonl", [{"text": "endless " * 100_000, "label": "good"}, {"text": "a", "label": "bad"}])
    words = ("--file", file) if command == "predict" else (file, "--json")
    result = memgrow(command, made_of_texts, *words)
    assert result.exit_code == 0
    assert "1 text longer than 400 words: only the beginning is read" in result.stderr
    assert all(json.loads(line) for line in result.stdout.splitlines())


def test_inspection_tells_of_stages_and_accuracy(memgrow, made):
    out = memgrow.done("inspect", made)
    for part in ("contradiction, entailment, neutral", "kitchen 4, harbour 4", "F+M+V", "test accuracy"):
        assert part in out
    assert "reads slots of" not in out


def test_inspection_tells_whose_slots_a_text_reads(memgrow, made):
    out = memgrow.done("inspect", made, "the soup was cold", "it was [warm]")
    assert "the soup was cold | it was [warm]" in out
    below = out.partition("it was [warm]")[2].splitlines()
    found = [words for line in below if re.match(r" +(kitchen|harbour) ", line) and (words := line.split())]
    rows = {name: [float(cell) for cell in cells] for name, *cells in found}
    assert [sum(column) for column in zip(rows["kitchen"], rows["harbour"], strict=True)] == pytest.approx(
        [100] * 3, abs=0.11
    )


def test_inspection_as_json_has_all_of_it(memgrow, made):
    known = json.loads(memgrow.done("inspect", made, "--json"))
    assert known["about"]["slots_in_each_bank"] == {"kitchen": 4, "harbour": 4}
    assert known["history"] == json.loads((stored(made) / "history.json").read_text())


def test_a_model_without_slots_says_so(memgrow, data, tmp_path):
    words = (*memgrow.tiny, "--set", "model.slots=0", "--method", "F")
    memgrow.done("adapt", tmp_path / "m", data["kitchen"], *words)
    assert "no slots that a text could read" in memgrow.done("inspect", tmp_path / "m", "a", "b")


def test_a_line_of_a_pipe_is_answered_before_the_next_one_comes(made_of_texts, monkeypatch):
    reader, writer = os.pipe()
    answered = threading.Event()
    in_time: list[bool] = []

    def write() -> None:
        with os.fdopen(writer, "w") as lines:
            lines.write("a fine lamp\n")
            lines.flush()
            in_time.append(answered.wait(20))
            lines.write("a dull lamp\n")

    monkeypatch.setattr("memgrow.cli.answers.write_line", lambda line: answered.set())
    typist = threading.Thread(target=write)
    with os.fdopen(reader) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        typist.start()
        app(["predict", str(made_of_texts)], standalone_mode=False)
    typist.join()
    assert in_time == [True]


def test_long_texts_are_told_once_and_not_once_a_chunk(memgrow, made_of_texts, monkeypatch):
    monkeypatch.setattr("memgrow.cli.predict.CHUNK", 2)
    result = memgrow("predict", made_of_texts, stdin="\n".join(["a fine lamp " * 200] * 5))
    assert result.stderr == "5 texts longer than 400 words: only the beginning is read\n"


def test_where_slots_do_not_grow_inspect_says_so_and_what_the_model_answers(
    memgrow, made, made_of_texts, data, tmp_path
):
    shown = memgrow.done("inspect", made_of_texts, "a fine zeppelin", COLUMNS="300")
    assert "All slots are of reviews, the only domain so far." in shown
    assert re.search(r"Its answer: (good|bad) \(\d+\.\d%\)", shown)
    assert "Words that it does not know: zeppelin" in shown
    (read,) = json.loads(memgrow.done("inspect", made_of_texts, "a fine zeppelin", "--json"))["reading"]
    assert read["unknown"] == ["zeppelin"]
    memgrow.done("adapt", tmp_path / "m", data["kitchen"], data["harbour"], *memgrow.tiny, "--method", "F+V")
    shown = memgrow.done("inspect", tmp_path / "m", "the soup", "it was warm", COLUMNS="300")
    assert "All slots are of kitchen, as F+V adds none for later domains" in shown
    assert "All slots" not in memgrow.done("inspect", made, "the soup", "it was warm", COLUMNS="300")
