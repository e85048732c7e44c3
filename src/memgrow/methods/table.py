"""The methods by name: the rows of the paper's tables as rows of one table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from memgrow.errors import SettingsError
from memgrow.methods.ewc import ElasticWeights
from memgrow.methods.past import MethodSettings, Past
from memgrow.methods.trains import Trains, everything, new_slots, newest_column
from memgrow.models import Classifier

What = Literal["words", "slots", "hidden", "column"]


@dataclass(frozen=True)
class Method:
    """Five answers to the arrival of a domain: what grows, what trains, what is remembered, which data, which part."""

    name: str
    about: str
    grows: tuple[What, ...] = ()
    trains: Callable[[Classifier | None, Classifier], Trains] = everything
    remembers: Callable[[MethodSettings], Past] = Past
    together: bool = False  # sees the data of all domains at once: not incremental
    afresh: bool = False  # each domain has a new model; the newest one predicts

    @property
    def incremental(self) -> bool:
        return not self.together


METHODS = {
    method.name: method
    for method in (
        Method("F", "fine-tune everything on the new domain"),
        Method("F+V", "F, and words of the new domain join the vocabulary", ("words",)),
        Method("F+M", "F, and the memory gets new slots", ("slots",)),
        Method("F+M+V", "F with new slots and new words: the paper's proposal", ("slots", "words")),
        Method("F+H", "F with new hidden units, as many parameters as F+M adds", ("hidden",)),
        Method("F+H+V", "F+H and new words", ("hidden", "words")),
        Method("frozen+M", "new slots; only they and the head train", ("slots",), trains=new_slots),
        Method("EWC", "F with a pull back on weights that mattered before", remembers=ElasticWeights),
        Method(
            "Progressive",
            "a new column for each domain that reads the frozen old ones; the newest head answers",
            ("column",),
            trains=newest_column,
        ),
        Method("multi-task", "train anew on the data of all domains at once", together=True, afresh=True),
        Method("in-domain", "train anew on each domain alone", afresh=True),
    )
}


def find_method(name: str) -> Method:
    """The method of that name; letters may come in any case."""
    for known, method in METHODS.items():
        if known.lower() == name.lower():
            return method
    raise SettingsError(f"there is no method {name!r}; there are {', '.join(METHODS)}")
