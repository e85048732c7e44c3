"""Tables: names are never markup, wide matrices fit the terminal, long ones are summarized."""

from io import StringIO

import pytest
from rich.console import Console

from memgrow.data import Example
from memgrow.evaluation.history import AccuracyMatrix, Grew, History, Stage
from memgrow.evaluation.metrics import Confusion
from memgrow.evaluation.model_tables import about_table, reading_lines, stages_table
from memgrow.evaluation.tables import (
    MEASURES,
    Table,
    confusion_table,
    duration,
    growth,
    labels_table,
    matrix_table,
    percent,
    perplexity_text,
    shortened,
    stage_line,
    summary_line,
)
from memgrow.learner import Learner


def shown(what, width: int = 80) -> str:
    out = StringIO()
    Console(file=out, width=width, highlight=False).print(what)
    return out.getvalue()


def stage(name: str, **changes) -> Stage:
    plain = {
        "learned": (name,),
        "method": "F+M",
        "grew": Grew(slots=2, words=3),
        "parameters": 1000,
        "examples": 50,
        "epochs": 4,
        "best_epoch": 3,
        "validation": 0.5,
        "seconds": 2.0,
        "fingerprint": name,
    }
    return Stage(**(plain | changes))


def history(domains: int, score: float = 0.8) -> History:
    found = History()
    for number in range(domains):
        found.add(stage(f"d{number}"), {f"d{at}": score - 0.001 * (number - at) for at in range(number + 1)})
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (percent(None), "·"),
        (percent(0.1234), "12.3"),
        (percent(-0.01, sign=True), "-1.0"),
        (perplexity_text(12.3456), "12.35"),
        (perplexity_text(1234.5), "1,234"),
        (perplexity_text(float("inf")), "inf"),
        (duration(3.21), "3.2 s"),
        (duration(600), "10 min"),
        (duration(36_000), "10.0 h"),
        (shortened("a long name", 6), "a lon…"),
    ],
)
def test_numbers_and_names(text, expected):
    assert text == expected


def test_names_are_no_markup():
    text = shown(Table("[red]t", ["[b]head"], [("[/nonsense] [link=x]y",)]))
    assert all(part in text for part in ("[red]t", "[b]head", "[/nonsense] [link=x]y"))


def test_a_matrix_of_few_domains_is_shown_whole():
    text = shown(matrix_table(history(10).matrix, MEASURES["accuracy"]))
    assert "after learning" in text
    assert text.count("80.0") == 10


def test_many_domains_have_one_row_each_and_the_rest_a_mean():
    text = shown(matrix_table(history(60).matrix, MEASURES["accuracy"]))
    assert "30 of 60 domains" in text
    assert len(text.splitlines()) < 45


def test_history_stages_and_summary_of_a_model():
    found = history(3)
    text = shown(stages_table(found, MEASURES["accuracy"]), 120)
    assert "forgot" in text
    assert "rows" not in text  # no method that keeps rows
    kept = History([stage("a", note={"rows_kept": 4})], AccuracyMatrix().with_row(["a"], {"a": 0.5}))
    assert "rows" in shown(stages_table(kept, MEASURES["accuracy"]), 120)
    line = summary_line(found)
    assert "average accuracy at the end 79.9" in line
    assert "forgetting (best minus last) +0.2" in line
    untested = AccuracyMatrix().with_row(["d0"], {"d0": 1.0}).with_row(["d1"], {"d1": 1.0})
    assert "forgetting of d0 is not measured" in summary_line(History(found.stages[:2], untested))


def test_replies_are_shown_as_perplexities():
    found = history(2, score=0.1)
    assert "perplexity at the end 10.0" in summary_line(found, "reply")
    assert "10.00" in shown(stages_table(found, MEASURES["perplexity"]), 120)
    table = matrix_table(found.matrix, MEASURES["perplexity"])
    assert "perplexity" in table.title
    assert str(table.rows[0][1]) == "10.00"
    assert "perplexity 2.00" in str(stage_line(stage("a"), "reply"))
    measure = MEASURES["perplexity"]
    assert measure.text(0.0) == "inf"
    assert measure.lost(0.2, 0.1) == 2
    assert measure.lost(0.0, 0.1) is None


def test_a_stage_is_one_line():
    notes = {"keep": 0.3, "keep_chosen": True, "validation_after_averaging": 0.45, "rows_kept": 7}
    line = str(stage_line(stage("books", note=notes)))
    for part in ("books: 50 examples, 4 epochs, 2 s", "grew 2 slots, 3 words", "30% back", "7 rows kept"):
        assert part in line
    assert "closed form" in str(stage_line(stage("books", epochs=0)))
    assert growth(Grew(columns=1)) == "a head"


def test_labels_and_mistakes():
    confusion = Confusion.of(("a", "b"), [0, 0, 1, 1], [0, 1, 1, 1])
    assert "mean of labels" in shown(labels_table("books", confusion))
    assert "predictions" in shown(confusion_table("books", confusion))
    many = Confusion.of([f"l{n}" for n in range(20)], list(range(20)), [(n + n % 2) % 20 for n in range(20)])
    table = confusion_table("books", many)
    assert "mistakes" in table.title
    assert len(table.rows) == 10


def test_facts_about_a_model_and_what_a_text_reads(stream, tiny, short):
    learner = Learner.create("F+M+V", model=tiny, training=short, device="cpu")
    learner.learn(stream[:2])
    text = shown(about_table(learner), 100)
    for part in ("kitchen", "finetune+slots+vocab", "slots in each bank", "temperature"):
        assert part in text
    *_, slots, unknown = reading_lines(learner, Example("the zebrafish", "a pan"))
    assert all(name in slots for name in ("Reads slots of", "kitchen", "harbour"))
    assert "Unknown words" in unknown
    assert "zebrafish" in unknown
