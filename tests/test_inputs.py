"""What Python users hand over: texts, domains, capital letters, and what the learner says of them."""

import pytest

from memgrow import Domain, Example, Learner, ModelSettings, TrainingSettings
from memgrow.errors import DataError

TINY = ModelSettings(embedding=4, hidden=4, slots=2, perceptron=4, lowercase=True)
BRIEF = TrainingSettings(epochs=1, min_documents=2)
ROWS = [(f"a {'fine' if number % 2 else 'poor'} thing from shop {number % 5}", number % 2) for number in range(40)]


@pytest.fixture(scope="module")
def learner() -> Learner:
    learner = Learner.create(model=TINY, training=BRIEF, device="cpu")
    learner.adapt(Domain.from_rows("shop", ROWS))
    return learner


@pytest.mark.parametrize(
    "texts",
    [["a fine thing"], ("a fine thing",), [Example("a fine thing")], [{"text": "a fine thing"}], [("a fine thing",)]],
    ids=lambda texts: type(texts[0]).__name__,
)
def test_texts_may_be_given_in_several_ways(learner, texts):
    assert learner.predict(texts) == learner.predict(["a fine thing"])


@pytest.mark.parametrize(
    ("texts", "keyword"),
    [
        ("a text", r"predict\(\[text\]\)"),
        ({"text": "a"}, r"predict\(\[text\]\)"),
        (7, "list of texts"),
        (["a", None], "text 2"),
        ([7], "text 1"),
        (["a", ""], "text 2 is empty"),
        ([{"txt": "a"}], "column"),
        ([("a", "b")], "one text, not 2"),
    ],
    ids=str,
)
def test_texts_that_cannot_be_read_are_named(learner, texts, keyword):
    with pytest.raises(DataError, match=keyword):
        learner.predict(texts)


@pytest.mark.parametrize("call", ["adapt", "evaluate"])
def test_rows_in_place_of_a_domain_are_refused(learner, call):
    with pytest.raises(DataError, match=r"Domain\.from_rows"):
        getattr(learner, call)([ROWS])


def test_capital_letters_make_no_difference_to_a_lowercase_model(learner):
    assert learner.predict(["A FINE Thing"]) == learner.predict(["a fine thing"])


def test_unknown_words_are_counted(learner):
    assert learner.unknown_words(["a fine thing"]) == 0
    assert learner.unknown_words(["zebra quagga"]) == 1.0


def test_a_view_of_a_domain_predicts_its_labels_only(learner):
    learner.adapt(Domain.from_rows("colors", [(text, "red" if label else "blue") for text, label in ROWS]))
    view = learner.for_domain("shop")
    (one,) = view.predict(["a fine thing"])
    assert set(one.probabilities) == {"0", "1"}
    assert sum(one.probabilities.values()) == pytest.approx(1)
    assert set(learner.predict(["a fine thing"])[0].probabilities) == {"0", "1", "blue", "red"}
    assert 0 <= view.evaluate(Domain.from_rows("shop", ROWS)) <= 1


def test_a_prediction_goes_by_one_state_while_another_thread_adapts(learner, monkeypatch):
    from memgrow import learner as module

    text = "a fine quagga from shop 3"
    before, expected = learner.state, learner.predict([text])
    other = Learner.create(model=TINY, training=BRIEF, device="cpu")
    other.learn([Domain.from_rows("shop", ROWS), Domain.from_rows("zoo", [(f"quagga {t}", y) for t, y in ROWS])])
    check = module.check_examples

    def adapted_meanwhile(*given):
        learner.state = other.state
        check(*given)

    monkeypatch.setattr(module, "check_examples", adapted_meanwhile)
    assert learner.predict([text]) == expected
    learner.state = before
