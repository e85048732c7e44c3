"""MemgrowClassifier is what scikit-learn expects of a classifier; each partial_fit is a domain."""

import pickle
import sys
import warnings
from importlib import import_module

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import validate_data

from memgrow import Learner
from memgrow.errors import DataError, MissingExtraError, SettingsError
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.sklearn import MemgrowClassifier
from tests.support.tiny_encoder import make_encoder

TINY = {"embedding": 4, "hidden": 4, "slots": 2, "epochs": 4, "patience": 4, "rate": 0.05, "method": "finetune+vocab"}
TEXTS = [f"a {'fine' if number % 2 else 'poor'} thing {number % 7}" for number in range(40)]
STARS = [5 if number % 2 else 1 for number in range(40)]

# Checks of scikit-learn that an estimator of texts fails, with the reason; all others hold.
EXPECTED_FAILURES: dict[str, str] = {}


@pytest.fixture(scope="module")
def fitted():
    return MemgrowClassifier(**TINY).fit(TEXTS, STARS)


@pytest.mark.parametrize(
    "labels",
    [["good", "bad"], [True, False], [1.0, 2.0]],
    ids=["str", "bool", "float"],
)
def test_answers_are_of_the_kind_that_was_given(labels):
    y = np.array([labels[number % 2] for number in range(40)])
    model = MemgrowClassifier(**TINY).fit(np.array(TEXTS), y)
    answers = model.predict(TEXTS)
    assert model.classes_.tolist() == sorted(set(y.tolist()))
    assert answers.dtype == y.dtype
    assert set(answers.tolist()) <= set(y.tolist())
    assert model.score(TEXTS, y) == np.mean(answers == y)


def test_probabilities_follow_classes_and_agree_with_the_learner(fitted):
    found = fitted.predict_proba(TEXTS)
    assert found.shape == (40, 2)
    assert found.sum(axis=1) == pytest.approx(1)
    alone = fitted.learner_.predict(TEXTS[:1])[0].probabilities  # a batch of another size rounds differently
    assert found[0].tolist() == pytest.approx([alone["1"], alone["5"]], abs=1e-6)
    assert fitted.classes_[found.argmax(axis=1)].tolist() == fitted.predict(TEXTS).tolist()


def test_partial_fit_is_a_further_domain_with_labels_of_its_own(tmp_path):
    model = MemgrowClassifier(**TINY).partial_fit(TEXTS, STARS, classes=[1, 3, 5], domain="books")
    assert model.classes_.tolist() == [1, 3, 5]
    model.partial_fit([f"{text} dvd" for text in TEXTS], [star + 1 for star in STARS], domain="dvds")
    assert model.classes_.tolist() == [1, 2, 3, 5, 6]
    assert model.learner_.history.domains == ("books", "dvds")
    assert model.predict_proba(TEXTS).shape == (40, 5)
    model.learner_.save(tmp_path / "m")
    assert Learner.load(tmp_path / "m").predict(TEXTS) == model.learner_.predict(TEXTS)
    model.fit(TEXTS, STARS)
    assert model.learner_.history.domains == ("domain 1",)
    assert model.classes_.tolist() == [1, 5]


def test_a_partial_fit_that_fails_leaves_the_model_as_it_was(fitted):
    model = pickle.loads(pickle.dumps(fitted))
    for other in (["good", "bad"], [1.0, 5.0], [True, False]):
        with pytest.raises(DataError, match="one type of labels"):
            model.partial_fit(TEXTS, np.tile(other, 20))
    assert model.classes_.tolist() == [1, 5]
    assert np.array_equal(model.predict_proba(TEXTS), fitted.predict_proba(TEXTS))


def test_a_pickle_answers_to_the_bit_and_goes_on_alike(fitted):
    one, other = (pickle.loads(pickle.dumps(fitted)) for _ in range(2))
    assert np.array_equal(one.predict_proba(TEXTS), fitted.predict_proba(TEXTS))
    for model in (one, other):
        model.partial_fit([f"{text} dvd" for text in TEXTS], STARS)
    assert np.array_equal(one.predict_proba(TEXTS), other.predict_proba(TEXTS))


def test_parameters_are_scikit_learns(fitted):
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    assert not hasattr(fresh, "learner_")
    fresh.set_params(epochs=1, random_state=None)
    assert fresh.fit(TEXTS, STARS).learner_.training.epochs == 1
    with pytest.raises(NotFittedError):
        MemgrowClassifier().predict(TEXTS)
    with pytest.raises(SettingsError, match="hidden is a setting of recurrent"):
        MemgrowClassifier(encoder="minilm", hidden=4).fit(TEXTS, STARS)


def test_it_works_in_a_pipeline_and_a_grid_search():
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    search = GridSearchCV(
        make_pipeline(lower, MemgrowClassifier(**TINY)),
        {"memgrowclassifier__epochs": [1, 2], "memgrowclassifier__method": ["finetune+vocab"]},
        cv=2,
        error_score="raise",
    )
    search.fit([text.upper() for text in TEXTS], STARS)
    assert search.best_params_["memgrowclassifier__epochs"] in (1, 2)
    assert set(search.predict(TEXTS)) <= {1, 5}


def test_pairs_are_rows_of_two_columns():
    rows = np.array([[text, f"is it {number % 2}"] for number, text in enumerate(TEXTS)], dtype=object)
    model = MemgrowClassifier(**TINY).fit(rows, STARS)
    assert model.learner_.task == "pair"
    assert model.predict([tuple(rows[0])]) == model.predict(rows[:1])
    assert MemgrowClassifier(**TINY).fit(rows[:, :1], STARS).learner_.task == "text"


@pytest.mark.parametrize(
    ("texts", "labels", "said"),
    [
        ("one text", [1], r"\[text\]"),
        (7, [1], "X takes a list of texts, not of type int"),
        ([], [], "X has no texts"),
        ([[1.0, 2.0]], [1], "text 1: the text is of type float"),
        ([("a", "b", "c")], [1], "text 1: the text is of type tuple"),
        (["a", None], [1, 2], "text 2: the text is missing"),
        (["a", "b"], [1, 1], "y has one class only"),
        (["a", "b"], [1, 2, 3], "inconsistent numbers of samples"),
        (["a", "b"], [0.25, 0.5], "continuous"),
        (["a", "b"], None, "requires y to be passed"),
    ],
)
def test_what_cannot_be_fitted_is_told(texts, labels, said):
    with pytest.raises(ValueError, match=said):
        MemgrowClassifier(**TINY).fit(texts, labels)


def test_without_scikit_learn_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "memgrow.sklearn")
    with pytest.raises(MissingExtraError, match=r"pip install 'memgrow\[sklearn\]'"):
        import_module("memgrow.sklearn")


class OfNumbers(MemgrowClassifier):
    """Reads rows of numbers as texts, a word for each, so that scikit-learn can try the rest of it."""

    def __init__(self, *, rate=0.02, epochs=12, random_state=0):
        sizes = {"embedding": 8, "hidden": 8, "slots": 0, "method": "finetune+vocab", "patience": 12}
        super().__init__(**sizes, rate=rate, epochs=epochs, random_state=random_state)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array, tags.input_tags.string = True, False, False
        return tags

    def fit(self, X, y):  # noqa: N803
        self.__dict__.pop("n_features_in_", None)
        return super().fit(X, y)

    def _examples(self, X):  # noqa: N803
        X = validate_data(self, X, reset=not hasattr(self, "n_features_in_"))  # noqa: N806
        words = [[f"c{column}v{round(2 * value)}" for column, value in enumerate(row)] for row in X.tolist()]
        return super()._examples(list(map(" ".join, words)))


@pytest.mark.extras
def test_scikit_learns_own_checks_hold():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of checks that are skipped, as there is no pandas
        ended = check_estimator(OfNumbers(), expected_failed_checks=EXPECTED_FAILURES, on_fail=None)
    assert len(ended) > 50
    assert {one["check_name"]: one["exception"] for one in ended if one["status"] == "failed"} == {}
    assert {one["check_name"] for one in ended if one["status"] == "xfail"} == EXPECTED_FAILURES.keys()


def test_an_encoder_and_settings_of_the_model_go_together_as_in_a_learner(tmp_path):
    encoder = str(make_encoder(tmp_path / "tiny"))
    with pytest.raises(SettingsError, match="PretrainedSettings"):
        MemgrowClassifier(encoder=encoder, model=ModelSettings()).fit(TEXTS, STARS)
    model = MemgrowClassifier(encoder=encoder, model=PretrainedSettings(dropout=0.0), method="ridge").fit(TEXTS, STARS)
    assert (model.learner_.settings.encoder, model.learner_.settings.dropout) == (encoder, 0.0)


def test_partial_fit_goes_by_the_parameters_of_now():
    model = MemgrowClassifier(**TINY).fit(TEXTS, STARS)
    model.set_params(method="finetune", epochs=1).partial_fit(TEXTS, STARS)
    stages = model.learner_.history.stages
    assert [stage.method for stage in stages] == ["finetune+vocab", "finetune"]
    assert stages[1].epochs == 1


def test_the_default_method_remembers_its_domains(tmp_path):
    encoder = str(make_encoder(tmp_path / "tiny"))
    model = MemgrowClassifier(encoder=encoder, epochs=1).partial_fit(TEXTS, STARS, domain="books")
    model.partial_fit([f"{text} dvd" for text in TEXTS], [star + 1 for star in STARS], domain="dvds")
    assert model.learner_.method.keeps_memory
    assert model.learner_.model.memory.names == ["books", "dvds"]
    assert set(model.predict(TEXTS).tolist()) <= {1, 2, 5, 6}
    assert model.predict_proba(TEXTS).sum(axis=1) == pytest.approx(1)
