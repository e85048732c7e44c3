"""New models read texts in lower case, old ones as they did; words that a model does not know are told of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memgrow import Domain, Learner, ModelSettings, TrainingSettings
from memgrow.data import Example
from memgrow.data.batches import UnknownWords, tokenize_examples
from memgrow.data.text import tokenize, tokenize_lower
from memgrow.errors import DataError
from memgrow.models import PretrainedSettings
from memgrow.training.defaults import PAPER, SMALL, defaults_for

TINY = ModelSettings(embedding=4, hidden=4, slots=2, perceptron=4, lowercase=True)
BRIEF = TrainingSettings(epochs=2, min_documents=2)
ROWS = [(f"a {'fine' if number % 2 else 'poor'} thing from shop {number % 5}", number % 2) for number in range(40)]


class Notes:
    def __init__(self):
        self.said = []

    def step(self, step):
        pass

    def note(self, sentence):
        self.said.append(sentence)


@pytest.fixture(scope="module")
def learner():
    learner = Learner.create("F", model=TINY, training=BRIEF)
    learner.adapt(Domain.from_rows("shops", ROWS))
    return learner


@given(st.text(st.characters(max_codepoint=127)))
def test_capitals_make_no_other_words(text):
    assert tokenize_lower(text.upper()) == tokenize_lower(text) == tokenize(text.lower())


def test_a_text_in_capitals_gets_the_very_same_answer_also_after_loading(learner, tmp_path):
    learner.save(tmp_path / "m")
    texts = [text for text, _ in ROWS]
    for one in (learner, Learner.load(tmp_path / "m")):
        assert one.predict([text.upper() for text in texts]) == one.predict(texts)
        assert one.settings.lowercase
        assert one.tokens("A FINE Thing") == (["a", "fine", "thing"],)
    assert not [word for word in learner.vocabulary.words if word != word.lower()]


def test_new_models_read_lower_case_by_every_default_and_settings_of_ones_own_do_not():
    assert Learner.create(device="cpu").settings.lowercase
    assert SMALL.model.lowercase
    assert PAPER.model.lowercase
    assert defaults_for(None).model.lowercase
    assert not Learner.create(model=ModelSettings(hidden=4)).settings.lowercase
    assert not PretrainedSettings().lowercase


def test_a_reply_is_learnt_as_it_is_written():
    (texts,) = tokenize_examples([Example("How ARE you", reply="Very WELL")], 10, tokenize_lower).texts
    assert texts == (["how", "are", "you"], ["Very", "WELL"])


def test_unknown_words_are_counted(learner):
    assert learner.unknown_words(["a fine thing"]) == 0
    assert learner.unknown_words(["a fine zebra from Zanzibar"]) == pytest.approx(2 / 5)
    assert learner.unknown_words([]) == 0
    with pytest.raises(DataError, match=r"unknown_words takes a list of texts"):
        learner.unknown_words("a fine thing")  # it was read letter by letter


def test_a_domain_whose_words_are_unknown_is_told_of_with_what_helps(learner, tmp_path):
    other = Domain.from_rows("zoo", [(f"zebras {n} lions {n} apes", n % 2) for n in range(40)])
    for method, advice in (("F", "with V"), ("F+V", "min_documents")):
        learner.save(tmp_path / method)
        later, notes = Learner.load(tmp_path / method), Notes()
        later.use(method)
        later.adapt(other, progress=notes)
        said = [sentence for sentence in notes.said if "unknown to the model" in sentence]
        assert len(said) == 1
        assert advice in said[0]


def test_little_is_not_worth_a_sentence():
    assert UnknownWords(100, 29).sentence("it") is None
    assert UnknownWords(9, 4).sentence("it") is None
    assert UnknownWords(0, 0).sentence("it") is None
    assert UnknownWords(100, 30).sentence("the texts") == (
        "30% of the words of the texts are unknown to the model, which reads them all alike"
    )
    assert UnknownWords(1, 1) + UnknownWords(2, 0) == UnknownWords(3, 1)


def test_a_short_text_that_is_mostly_unknown_is_worth_a_sentence():
    assert UnknownWords(5, 3).sentence("these texts") == (
        "3 of the 5 words of these texts are unknown to the model, which reads them all alike"
    )
    assert UnknownWords(1, 1).sentence("these texts") == "the only word of these texts is unknown to the model"
