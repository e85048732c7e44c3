"""What a learner answers by: what is its own or, while a domain is told, the part of that domain."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from memgrow.calibration import Calibration
from memgrow.errors import ModelError
from memgrow.models import Model


@dataclass(frozen=True)
class AnswersBy:
    """The things that a learner answers by and that a domain may have its own of."""

    labels: tuple[str, ...] | None = None
    model: Model | None = None
    calibration: Calibration = field(default_factory=Calibration)


# Of this thread or task alone, so that others who ask the same learner, save it or let it learn see what is its own.
_told: ContextVar[Mapping["OwnOrTold", AnswersBy] | None] = ContextVar("told", default=None)


class OwnOrTold:
    """Has labels, a model and a calibration: its own, which can be set, or those of a domain that is told."""

    _own: AnswersBy

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Those that it answers with, in the order of its logits; None before the first domain, and of replies."""
        return self._by.labels

    @labels.setter
    def labels(self, labels: tuple[str, ...] | None) -> None:
        self._own = replace(self._own, labels=labels)

    @property
    def model(self) -> Model | None:
        """The network, once something has been learnt."""
        return self._by.model

    @model.setter
    def model(self, model: Model | None) -> None:
        self._own = replace(self._own, model=model)

    @property
    def calibration(self) -> Calibration:
        """How sure its probabilities may be."""
        return self._by.calibration

    @calibration.setter
    def calibration(self, calibration: Calibration) -> None:
        self._own = replace(self._own, calibration=calibration)

    @property
    def _by(self) -> AnswersBy:
        return (_told.get() or {}).get(self, self._own)

    @contextmanager
    def telling(self, by: AnswersBy) -> Iterator[None]:
        """Within, in this thread or task, it answers by these."""
        token = _told.set({**(_told.get() or {}), self: by})
        try:
            yield
        finally:
            _told.reset(token)

    def refuse_told(self, what: str) -> None:
        """Refuse what would be done by the part of one domain, and is meant for the learner as it is."""
        if self._by is not self._own:
            raise ModelError(f"{what} within answering_for would go by the part of one domain: leave it first")
