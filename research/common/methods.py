"""What the studies must know about a method to read its records, also where memgrow no longer has the method."""

from dataclasses import dataclass
from functools import cache

from memgrow.errors import SettingsError

READS = {  # the options that each part of a method's name reads
    "M": ("slots", "quiet"),
    "H": ("slots",),
    "A": ("keep",),
    "D": ("distil", "temperature"),
    "L": ("old_rate",),
    "E": ("smooth",),
    "EWC": ("strength", "fisher", "fisher_examples"),
    "LoRA": ("rank",),
    "ridge": ("ridge",),
    "sparse": ("sparse_slots",),
    "rehearsal": ("rehearse", "rehearsal_share"),
}
GONE = "memgrow no longer has"
NOTES = {"EWC": ("fisher", "fisher_examples"), "sparse": ()}  # methods with notes of every domain, and their options


@dataclass(frozen=True)
class Method:
    """A method by name: a base, such as F or EWC, and letters."""

    name: str

    @property
    def parts(self) -> list[str]:
        return self.name.split("+")

    @property
    def joint(self) -> bool:
        """Whether it trains on all domains at once."""
        return self.parts[0] == "multi-task"

    @property
    def reinit(self) -> bool:
        """Whether each domain starts a new model."""
        return self.joint or self.name == "in-domain"

    @property
    def shares_first(self) -> bool:
        """Whether it learns the first domain as F does."""
        return not self.joint and self.name != "ridge"

    @property
    def noting(self) -> str | None:
        """The plainest method that takes the same notes of the first domain; None if it takes none."""
        return next((part for part in self.parts if part in NOTES), None)

    def reads(self) -> set[str]:
        return {option for part in self.parts for option in READS.get(part, ())}


@cache
def method_called(name: str) -> Method:
    return Method(name)


def check_available(name: str) -> None:
    """Refuse a method that this memgrow cannot train by."""
    from memgrow.methods import find_method

    try:
        find_method(name)
    except SettingsError as error:
        raise SettingsError(f"{GONE} {name}: its recorded runs are read, new ones are refused") from error
