"""`memgrow adapt`: which files and columns become which domains and parts."""

import gzip
import json

import pytest
from typer.testing import CliRunner

from memgrow.cli import app
from tests.support.stored import stored


@pytest.fixture
def last_stage():
    def read(model) -> dict:
        history = json.loads((stored(model) / "history.json").read_text())
        return history["stages"][-1] | {"tested": history["matrix"][-1]["scores"]}

    return read


def test_a_column_may_name_the_domains_and_an_option_their_order(memgrow, reviews, jsonl, tmp_path):
    rows = [row | {"shop": ("north", "south", "west")[number % 3]} for number, row in enumerate(reviews * 2)]
    file = jsonl(tmp_path / "all.jsonl", [row | {"text": f"{row['text']} {n}"} for n, row in enumerate(rows)])
    memgrow.done("adapt", tmp_path / "m", file, "--by", "shop", "--domains", "west, north", *memgrow.tiny)
    assert memgrow.learnt(tmp_path / "m") == [("west",), ("north",)]


def test_equal_values_of_a_group_stay_in_one_part(memgrow, jsonl, tmp_path, monkeypatch):
    learnt = []
    monkeypatch.setattr(
        "memgrow.cli.learning.learn_stream", lambda learner, stream, *_, **__: learnt.extend(stream) or []
    )
    rows = [
        {"text": f"{writer} text {n}", "label": "ab"[n % 2], "writer": writer}
        for writer in map(str, range(20))
        for n in range(4)
    ]
    out = memgrow.done("adapt", tmp_path / "m", jsonl(tmp_path / "d.jsonl", rows), "--group", "writer", *memgrow.tiny)
    assert "by group writer" in out
    (domain,) = learnt
    writers = [{example.text.split()[0] for example in part} for part in (domain.train, domain.validation, domain.test)]
    assert sum(map(len, writers)) == len(set.union(*writers)) == 20


def test_parts_may_come_from_files_of_their_own(memgrow, reviews, jsonl, tmp_path, last_stage):
    train = jsonl(tmp_path / "reviews.jsonl", reviews)
    files = {part: jsonl(tmp_path / f"{part}.jsonl", reviews[:8]) for part in ("validation", "test")}
    words = [word for part, file in files.items() for word in (f"--{part}", file)]
    memgrow.done("adapt", tmp_path / "m", train, *words, *memgrow.tiny)
    assert last_stage(tmp_path / "m")["examples"] == len(reviews)


def test_a_held_out_file_is_halved(memgrow, reviews, jsonl, tmp_path, last_stage):
    train, held_out = jsonl(tmp_path / "reviews.jsonl", reviews), jsonl(tmp_path / "rest.jsonl", reviews[:20])
    out = memgrow.done("adapt", tmp_path / "m", train, "--held-out", held_out, *memgrow.tiny)
    assert "each half of rest.jsonl" in out
    assert last_stage(tmp_path / "m")["examples"] == len(reviews)


def test_a_limit_holds_for_each_part(memgrow, data, tmp_path, last_stage):
    memgrow.done("adapt", tmp_path / "m", data["kitchen"], "--limit", 20, *memgrow.tiny)
    assert last_stage(tmp_path / "m")["examples"] == 20


def test_a_watched_file_is_tested_after_each_domain(memgrow, data, model, last_stage):
    out = memgrow.done("adapt", model, data["clinic"], "--watch", data["kitchen"])
    assert set(last_stage(model)["tested"]) == {"kitchen", "clinic"}
    assert "not tested at the end: harbour (--watch FILE" in " ".join(out.split())


def test_a_watched_file_needs_no_group(memgrow, data, model, jsonl, tmp_path, last_stage):
    rows = [json.loads(line) | {"writer": str(n % 9)} for n, line in enumerate(data["clinic"].read_text().splitlines())]
    file = jsonl(tmp_path / "clinic.jsonl", rows)
    memgrow.done("adapt", model, file, "--group", "writer", "--watch", data["kitchen"])
    assert "kitchen" in last_stage(model)["tested"]


def test_columns_may_be_called_anything(memgrow, reviews, tmp_path):
    file = tmp_path / "reviews.csv"
    file.write_text("what,stars,set\n" + "".join(f"{row['text']},{row['label']},train\n" for row in reviews))
    file.write_text(file.read_text() + "".join(f"a lamp {n},good,{p}\n" for n in range(4) for p in ("dev", "test")))
    words = ("--text", "what", "--label", "stars", "--split-column", "set")
    memgrow.done("adapt", tmp_path / "m", file, *words, *memgrow.tiny)
    scores = memgrow.done("evaluate", tmp_path / "m", file, *words, "--json")
    assert set(json.loads(scores)) == {"reviews"}


def test_compressed_files_are_read(memgrow, data, tmp_path):
    file = tmp_path / "kitchen.jsonl.gz"
    file.write_bytes(gzip.compress(data["kitchen"].read_bytes()))
    memgrow.done("adapt", tmp_path / "m", file, *memgrow.tiny)
    assert memgrow.learnt(tmp_path / "m") == [("kitchen",)]


def test_word_vectors_are_used_for_new_words(memgrow, data, tmp_path):
    file = tmp_path / "glove.txt"
    file.write_text("the 1 2 3 4 5 6\nsoup 6 5 4 3 2 1\nferry 1 1 1 1 1 1\n")
    words = ("--vectors", file, *memgrow.tiny)
    out = memgrow.done("adapt", tmp_path / "m", data["kitchen"], data["harbour"], *words)
    assert "kitchen: 2 of 49 new words have a vector in glove.txt" in out
    assert "harbour: 1 of 19 new words have a vector in glove.txt" in out


def test_a_text_of_a_hundred_thousand_words_is_cut_and_that_is_told(memgrow, reviews, jsonl, tmp_path):
    rows = [*reviews, {"text": "endless " * 100_000, "label": "bad"}]
    rows = [row | {"split": part} for part in ("train", "validation", "test") for row in rows]
    out = memgrow.done("adapt", tmp_path / "m", jsonl(tmp_path / "reviews.jsonl", rows), *memgrow.tiny)
    assert "only the first 400 words are read of 1 text(s)" in out


def test_rows_with_an_empty_text_are_refused_or_left_out_as_asked(tmp_path):
    rows = [{"text": f"{word} {n}", "label": word} for n in range(30) for word in ("good", "bad")]
    rows[7]["text"] = " "
    data = tmp_path / "things.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sizes = [f"--set={word}" for word in ("hidden=5", "embedding=6", "model.slots=4", "perceptron=16", "epochs=1")]
    refused = CliRunner().invoke(app, ["adapt", str(tmp_path / "model"), str(data), *sizes])
    assert refused.exit_code == 2
    assert "line 8" in refused.output
    done = CliRunner().invoke(app, ["adapt", str(tmp_path / "model"), str(data), "--skip-empty", *sizes])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(app, ["evaluate", str(tmp_path / "model"), str(data), "--skip-empty"]).exit_code == 0
