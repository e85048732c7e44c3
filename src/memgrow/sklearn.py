"""A scikit-learn classifier: `fit`, `predict`, and `partial_fit` for each further domain.

X holds texts, or rows of two texts for a pair task. y holds labels of any type that scikit-learn takes, and predictions
have that type. Needs the extra `memgrow[sklearn]`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from memgrow.data import Domain, Example, draw
from memgrow.data.rows import is_frame
from memgrow.errors import DataError, MissingExtraError, SettingsError
from memgrow.learner import Learner, as_examples
from memgrow.methods import MethodSettings, find_method
from memgrow.models import ModelSettings
from memgrow.nn.device import find_device
from memgrow.training.settings import TrainingSettings, defaults_for, defaults_for_new

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_consistent_length, check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d
except ImportError:
    raise MissingExtraError("memgrow.sklearn needs scikit-learn: run `pip install 'memgrow[sklearn]'`") from None

OF_RECURRENT = ("embedding", "hidden")
OF_MODEL = (*OF_RECURRENT, "slots")
OF_TRAINING = ("rate", "batch", "epochs", "patience")
LARGEST_SEED = 2**31 - 1


class MemgrowClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A text classifier that learns domain after domain: `fit` starts again, each `partial_fit` adds a domain.

    None is memgrow's default: see `Learner.create`. `embedding` to `patience` override `model` and `training`, so that
    a grid search can vary them. A share `validation_fraction` of the texts decides when training stops.
    After fitting, `classes_` holds the sorted labels so far, and `learner_` the Learner, which saves and loads.
    """

    learner_: Learner
    classes_: NDArray[Any]

    def __init__(
        self,
        *,
        method: str | None = None,
        encoder: str | None = None,
        model: ModelSettings | None = None,
        training: TrainingSettings | None = None,
        options: MethodSettings | None = None,
        embedding: int | None = None,
        hidden: int | None = None,
        slots: int | None = None,
        rate: float | None = None,
        batch: int | None = None,
        epochs: int | Literal["auto"] | None = None,
        patience: int | Literal["auto"] | None = None,
        validation_fraction: float = 0.1,
        random_state: Any = 0,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.encoder = encoder
        self.model = model
        self.training = training
        self.options = options
        self.embedding = embedding
        self.hidden = hidden
        self.slots = slots
        self.rate = rate
        self.batch = batch
        self.epochs = epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any, *, domain: str | None = None) -> Self:  # noqa: N803
        """Learn texts and labels as the first domain; what was learned before is dropped."""
        return self._learn(X, y, None, domain, anew=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, *, domain: str | None = None) -> Self:  # noqa: N803
        """Learn texts and labels as a further domain, which may have new labels.

        `classes`, given with the first domain, are labels that the model starts with.
        """
        return self._learn(X, y, classes, domain, anew=not hasattr(self, "learner_"))

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most probable label of each text."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The probability of each label (texts, labels), in the order of `classes_`."""
        check_is_fitted(self, "learner_")
        names = [str(label) for label in self.classes_.tolist()]
        answers = self.learner_.predict(self._examples(X))
        return np.array([[answer.probabilities.get(name, 0.0) for name in names] for answer in answers])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, True, False
        return tags

    def _learn(self, X: Any, y: Any, classes: Any, domain: str | None, anew: bool) -> Self:  # noqa: N803
        if y is None:
            raise DataError("a classifier requires y to be passed, but the target y is None: give labels")
        examples, y = self._examples(X), column_or_1d(y, warn=True)
        check_consistent_length(examples, y)
        check_classification_targets(y)
        joined = _joined(() if anew else self.classes_, y, () if classes is None else classes)
        names = [str(label) for label in joined.tolist()]
        if len(joined) < 2:
            raise DataError(f"y has one class only ({names[0]}); give texts of at least two classes")
        labelled = [replace(one, label=str(label)) for one, label in zip(examples, y.tolist(), strict=True)]
        learner = self._created(names if classes is not None else None) if anew else self._updated()
        called = domain or f"domain {len(learner.history.stages) + 1}"
        learner.adapt(_domain(called, labelled, self.validation_fraction), progress=bool(self.verbose))
        self.learner_, self.classes_ = learner, joined
        return self

    def _settings(self) -> tuple[str, ModelSettings, TrainingSettings, MethodSettings]:
        """The method and all settings by the current parameters."""
        encoder, methods = self.encoder, [find_method(self.method)] if self.method else []
        if encoder is None and any(getattr(self, name) is not None for name in OF_RECURRENT):
            encoder = "lstm"
        usual = defaults_for_new(find_device(self.device), encoder, methods=methods)
        usual = usual if self.model is None else defaults_for(self.model)
        model, training = self.model or usual.model, self.training or usual.training
        sizes = {name: getattr(self, name) for name in OF_MODEL if getattr(self, name) is not None}
        steps = {name: getattr(self, name) for name in OF_TRAINING if getattr(self, name) is not None}
        name, options = self.method or usual.method, self.options or usual.options
        return name, replace(model, **sizes), replace(training, **steps), options

    def _updated(self) -> Learner:
        """The learner with the current method and training settings."""
        learner, (method, _, training, options) = self.learner_, self._settings()
        if (find_method(method).name, options) != (learner.method.name, learner.options):
            learner.use(method, options)
        learner.config = replace(learner.config, training=training)
        return learner

    def _created(self, labels: Sequence[str] | None) -> Learner:
        method, model, training, options = self._settings()
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(LARGEST_SEED)
        return Learner.create(
            method,
            encoder=self.encoder,
            model=model,
            training=training,
            options=options,
            labels=labels,
            seed=int(seed),
            device=self.device,
        )

    def _examples(self, X: Any) -> list[Example]:  # noqa: N803
        """X as a list or column of texts, or as rows of one or two columns."""
        if is_frame(X):
            X = zip(*(X[name] for name in X.columns), strict=True)  # noqa: N806
        examples = as_examples(X.tolist() if isinstance(X, np.ndarray) else X, "X")
        if not examples:
            raise DataError("X has no texts, 0 sample(s); give a minimum of 1 text")
        return [Example(one.text, one.pair, where=one.where) for one in examples]


def _domain(name: str, examples: Sequence[Example], fraction: float) -> Domain:
    """Draw a validation split; labels that only it would have go to the training split."""
    if not 0 < fraction < 1:
        raise SettingsError(f"validation_fraction is {fraction}, but must be above 0 and below 1")
    shares = {"train": 1 - fraction, "validation": fraction}
    parts = draw(examples, [example.text for example in examples], shares)
    taught = {example.label for example in parts["train"]}
    train = [*parts["train"], *(one for one in parts["validation"] if one.label not in taught)]
    validation = [one for one in parts["validation"] if one.label in taught]
    return Domain(name, train, validation or train)


def _joined(*several: Any) -> NDArray[Any]:
    """All labels in order. They must have one type: 1 and "1" would be one label, and 1 and 1.0 two."""
    values = [value for labels in several for value in np.asarray(labels).tolist()]
    if len({type(value) for value in values}) > 1:
        raise DataError("labels have several types, such as numbers and strings: give one type of labels")
    return np.unique(np.array(values))
