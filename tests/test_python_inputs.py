"""What people hand to a learner from Python works, or gets a sentence before anything is trained."""

import numpy as np
import pytest

from memgrow import Domain, Example, Learner, ModelSettings, TrainingSettings
from memgrow.errors import DataError, MemgrowError, SettingsError
from memgrow.training.progress import Step, find_progress

SMALL = ModelSettings(embedding=4, hidden=4, slots=2, perceptron=4)
BRIEF = TrainingSettings(epochs=1)
ROWS = [(f"{'fine' if number % 2 else 'poor'} thing {number % 5}", number % 2) for number in range(30)]


def create(**options):
    return Learner.create("F+V", model=SMALL, training=BRIEF, **options)


@pytest.fixture(scope="module")
def learner():
    learner = create()
    learner.adapt(Domain.from_rows("books", ROWS))
    return learner


def test_labels_that_are_numbers_come_back_as_strings_also_after_loading(learner, tmp_path):
    learner.save(tmp_path / "m")
    for one in (learner, Learner.load(tmp_path / "m")):
        assert one.labels == ("0", "1")
        assert {answer.label for answer in one.predict(["fine thing", "poor thing"])} <= {"0", "1"}
    assert create(labels=[0, np.int64(1)]).labels == ("0", "1")


@pytest.mark.parametrize(
    "texts",
    [
        ["a fine thing", "a poor thing"],
        ("a fine thing", "a poor thing"),
        np.array(["a fine thing", "a poor thing"]),
        (text for text in ("a fine thing", "a poor thing")),
        [{"text": "a fine thing", "id": 7}, {"text": "a poor thing", "id": 8}],
        [Example("a fine thing"), Example("a poor thing")],
    ],
    ids=["list", "tuple", "array", "generator", "dictionaries", "examples"],
)
def test_texts_are_predicted_whatever_they_are_in(learner, texts):
    assert learner.predict(texts) == learner.predict(["a fine thing", "a poor thing"])


class Frame:
    columns = ("text",)

    def __len__(self):
        return 1

    def __getitem__(self, name):
        return ["a"]

    def iterrows(self):
        return iter(())


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (Frame(), r"columns"),
        ({"text": "a"}, r"predict\(\[text\]\)"),
        (7, "takes a list of texts, not a number"),
        (["a", None], "text 2: the text is missing"),
        ([float("nan")], "text 1: the text is missing"),
        ([7], "text 1: the text is a number"),
        (["a", ""], "text 2 is empty; give it at least one word"),
        ([" \t"], "text 1 is empty"),
        ([Example("a"), Example("")], "example 2 is empty"),
        (["a \ud83d b"], r"text 1 holds a lone surrogate \(.ud83d\)"),
        ([{"txt": "a"}], "text 1: this row has no column for the text"),
        ([("a", "b")], "reads one text, not 2"),
        ([("a", "b", "c")], "text 1: the text is a tuple"),
    ],
)
def test_texts_that_cannot_be_read_are_told(learner, texts, said):
    with pytest.raises(DataError, match=said):
        learner.predict(texts)


def test_an_empty_text_is_not_learnt_from():
    with pytest.raises(DataError, match="example 2 is empty; give it at least one word"):
        create().adapt(Domain("mine", *[[Example("a", label="x"), Example(" ", label="y")]] * 3))


def test_a_second_value_of_an_example_is_told_to_be_a_second_text():
    domain = Domain("mine", *[[Example("a", "good"), Example("b", "bad")]] * 3)
    with pytest.raises(DataError, match=r"there is no label.*write Example.text, label=label."):
        create().adapt(domain)


def test_a_missing_validation_part_is_told_with_what_draws_one():
    with pytest.raises(DataError, match=r"mine has no validation examples.*Domain.from_rows draws"):
        create().adapt(Domain("mine", train=[Example("a", label="x"), Example("b", label="y")]))


@pytest.mark.parametrize(("call", "said"), [("adapt", "adapt takes a Domain, not"), ("evaluate", "takes domains")])
def test_what_is_no_domain_is_told(learner, call, said):
    with pytest.raises(DataError, match=said):
        getattr(learner, call)(ROWS)


def test_progress_may_be_true_and_is_refused_where_it_can_show_nothing(capsys):
    create().adapt(Domain.from_rows("books", ROWS), progress=True)
    assert "books: epoch 1/1, loss" in capsys.readouterr().err
    create().learn([Domain.from_rows("books", ROWS)], progress=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(SettingsError, match="progress is of the type str, but must be True"):
        create().adapt(Domain.from_rows("books", ROWS), progress="bar")


def test_plain_progress_has_a_line_for_each_epoch(capsys):
    progress = find_progress(True)
    for epoch in (1, 2):
        for batch in (1, 2, 2):
            progress.step(Step("books", epoch, 2, batch, 2, loss=0.5, accuracy=0.5))
    assert capsys.readouterr().err.splitlines() == [f"books: epoch {n}/2, loss 0.500" for n in (1, 2)]


GOOD = Domain.from_rows("books", ROWS)
BAD = {
    "no validation": Domain("later", train=GOOD.train),
    "nothing": Domain("later"),
    "a pair": Domain.from_rows("later", [("a", "b", number % 2) for number in range(30)]),
    "no label": Domain("later", *[[Example("a"), Example("b")]] * 3),
    "an unknown label in its test part": Domain("later", GOOD.train, GOOD.validation, [Example("a", label="new")]),
    "replies": Domain.from_rows("later", [{"message": f"a {n}", "response": "b"} for n in range(30)]),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_later_domain_that_cannot_be_learnt_is_found_before_the_first_is_trained(bad):
    learner = create()
    with pytest.raises(MemgrowError):
        learner.learn([GOOD, BAD[bad]])
    assert not learner.history.stages


def test_no_domain_and_one_domain_are_told():
    with pytest.raises(DataError, match="there is no domain to learn"):
        create().learn([])
    with pytest.raises(DataError, match=r"write \[books\]"):
        create().learn(GOOD)
    one_label = Domain.from_rows("mine", [(text, "same") for text, _ in ROWS])
    with pytest.raises(DataError, match="have the label same"):
        create().learn([one_label, GOOD])
