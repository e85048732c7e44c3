"""A domain arrives: the model grows as the method promises."""

from dataclasses import dataclass

from torch import Tensor

from memgrow.errors import SettingsError
from memgrow.methods.plugin import MethodSettings
from memgrow.methods.table import Method
from memgrow.models import Model, ModelSettings
from memgrow.nn import matching_hidden


@dataclass(frozen=True)
class Grew:
    """The growth of the model in a stage."""

    slots: int = 0
    hidden: int = 0
    words: int = 0
    columns: int = 0
    labels: int = 0  # that joined those of an older model


GROWN = {"slots": "slots", "words": "words", "hidden": "hidden units", "column": "columns"}


def check_method(method: Method, settings: ModelSettings) -> None:
    """Refuse a method that such a model cannot learn by, or that adds parts by which its encoder cannot grow."""
    if (reason := method.needs(settings)) is not None:
        raise SettingsError(reason)
    lacking = [GROWN[what] for what in method.grows if what not in settings.kind.grows]
    if lacking:
        possible = " and ".join(GROWN[what] for what in sorted(settings.kind.grows)) or "nothing"
        if settings.kind.is_pretrained:
            raise SettingsError(
                f"{method.name} adds {' and '.join(lacking)}, but a pretrained encoder grows by {possible} alone: use "
                "another method, such as F, or F+M for slots (memgrow methods names them)"
            )
        raise SettingsError(
            f"{method.name} adds {' and '.join(lacking)}, but the encoder {settings.cell!r} grows by {possible} alone: "
            "use another method, or another encoder (model.cell)"
        )


def grow_for(
    model: Model, method: Method, settings: MethodSettings, domain: str, words: Tensor | None = None, labels: int = 0
) -> Grew:
    """Grow the model for a later domain; `words` are the first vectors of the words that join (new, embedding).

    How many labels join is up to the data, whatever the method.
    """
    slots = hidden = 0
    if {"slots", "hidden"} & set(method.grows):
        slots = settings.slots or model.settings.slots or model.encoder.usual_slots
        if not slots:
            raise SettingsError(
                f"{method.name} adds slots, or hidden units to match, but this model has none (slots: 0) and the "
                "method's settings do not say how many: set the method's slots, or use F, F+V or EWC"
            )
    if "hidden" in method.grows:
        slots, hidden = 0, matching_hidden(model, slots)
    quiet = settings.quiet or method.quiet
    model.grow(slots=slots, hidden=hidden, domain=domain, quiet=quiet, words=words, labels=labels)
    if "column" in method.grows:  # as large as the first one was
        slots, hidden = model.settings.slots, model.settings.hidden
        model.add_column(hidden, slots, domain)
    return Grew(slots, hidden, 0 if words is None else len(words), int("column" in method.grows), labels)
