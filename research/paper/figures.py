"""All figures of a table, and the file that keeps them: JSON that a person can read too, never half of it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memgrow.errors import DataError
from research.common.files import atomic_write, finite
from research.paper.sheet import Sheet

FLAT = re.compile(r"\[\n\s*([^\[\]{}]*?)\n\s*\]")  # a list that holds no others
BREAK = re.compile(r"\s*\n\s*")


@dataclass(frozen=True)
class Corpus:
    """The figures of Table 1 on the corpus, genre by genre."""

    training_pairs: Mapping[str, Mapping[str, int | None]]  # ours and the paper's
    yu2018: Mapping[str, float]
    official_test: Mapping[str, float]


@dataclass(frozen=True)
class Choice:
    """The value that is best on validation; None while too few have all their runs."""

    value: float | str | None
    paper: float | None = None  # what the paper chose


@dataclass(frozen=True)
class Study:
    """A condition: a sheet for each of its values."""

    about: str
    methods: Sequence[str]
    learns: Sequence[str]
    sheets: Sequence[Sheet]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "sheets": [sheet.to_json() for sheet in self.sheets]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Study":
        return cls(**{**value, "sheets": [Sheet.from_json(sheet) for sheet in value["sheets"]]})


@dataclass(frozen=True)
class Sample:
    """A reply. Its message stays with the corpus: it is known by its number and a checksum."""

    domain: str
    index: int
    message: str
    reply: str


@dataclass(frozen=True)
class Made:
    """The figures that a table makes of its records; no table has all of them."""

    sheets: Sequence[Sheet] = ()
    notes: Sequence[str] = ()
    corpus: Corpus | None = None
    chosen: Choice | None = None  # a setting
    best: Choice | None = None  # a method
    studies: Mapping[str, Study] = field(default_factory=dict)
    samples: Sequence[Sample] | None = None

    def to_json(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if self.corpus is not None:
            made |= vars(self.corpus)
        if self.studies:
            made["studies"] = {name: study.to_json() for name, study in self.studies.items()}
        elif self.samples is not None:
            made["samples"] = [vars(sample) for sample in self.samples]
        else:
            made["sheets"] = [sheet.to_json() for sheet in self.sheets]
        if self.chosen is not None:
            made["chosen"] = self.chosen.value
            made |= {} if self.chosen.paper is None else {"paper_chose": self.chosen.paper}
        if self.best is not None:
            made["best_on_validation"] = self.best.value
        return {**made, "notes": list(self.notes)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Made":
        corpus = [value[name] for name in ("training_pairs", "yu2018", "official_test") if name in value]
        return cls(
            [Sheet.from_json(sheet) for sheet in value.get("sheets", ())],
            value["notes"],
            Corpus(*corpus) if corpus else None,
            Choice(value["chosen"], value.get("paper_chose")) if "chosen" in value else None,
            Choice(value["best_on_validation"]) if "best_on_validation" in value else None,
            {name: Study.from_json(study) for name, study in value.get("studies", {}).items()},
            [Sample(**sample) for sample in value["samples"]] if "samples" in value else None,
        )


@dataclass(frozen=True)
class Strength:
    """EWC's strength, and what it was chosen from."""

    chosen: float | None
    validation_average: Mapping[str, float | None]


@dataclass(frozen=True)
class Figures:
    """A table as it is written. `material` is what it was made from: the sizes of the data, and names of files."""

    table: str
    title: str
    memgrow: str
    paper: str  # where its figures were printed
    seeds: int
    protocol: Mapping[str, Any]
    made: Made
    strength: Strength | None = None
    failures: Sequence[str] = ()
    command: str = ""
    material: Mapping[str, Any] = field(default_factory=dict)  # data, vectors, w2v

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("table", "title", "memgrow", "paper", "seeds", "protocol")},
            **({"strength": vars(self.strength)} if self.strength else {}),
            **self.made.to_json(),
            "failures": list(self.failures),
            "command": self.command,
            **self.material,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Figures":
        return cls(
            **{name: value[name] for name in ("table", "title", "memgrow", "paper", "seeds", "protocol")},
            made=Made.from_json(value),
            strength=Strength(**value["strength"]) if "strength" in value else None,
            failures=value["failures"],
            command=value["command"],
            material={name: value[name] for name in ("data", "vectors", "w2v") if name in value},
        )

    def with_earlier_studies(self, before: Mapping[str, Any] | None) -> "Figures":
        """The studies that an earlier command wrote under the same protocol stay beside those of this one."""
        now = self.to_json()
        alike = ("memgrow", "protocol", "seeds", "data", "vectors")
        if before is None or not self.made.studies or any(before.get(name) != now.get(name) for name in alike):
            return self
        studies = {name: Study.from_json(study) for name, study in before["studies"].items()}
        return replace(self, made=replace(self.made, studies={**studies, **self.made.studies}))


def write_figures(folder: Path, name: str, figures: Mapping[str, Any]) -> Path:
    """NAME.json in the folder, in place of an older one."""
    text = json.dumps(finite(figures), indent=1, ensure_ascii=False)
    text = FLAT.sub(lambda found: f"[{BREAK.sub(' ', found[1])}]", text)
    return atomic_write(folder / f"{name}.json", text + "\n")


def read_figures(folder: Path, name: str) -> dict[str, Any] | None:
    """The figures that were written before, if any were."""
    path = folder / f"{name}.json"
    try:
        figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DataError(f"{path} is damaged: remove it, and run the same command again") from error
    return figures
