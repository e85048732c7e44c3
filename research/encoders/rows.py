"""The rows of the study: methods, the controls without which slots prove nothing, and what is held against what."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memgrow.errors import SettingsError
from research.common.runs import Run
from research.common.settings import MethodSettings, PretrainedSettings, TrainingSettings

SLOTS = 256  # of the first domain, for methods that move slots which are there already
ALONE = 100  # the seed of runs that have a machine for themselves: only their seconds say what a method costs


@dataclass(frozen=True)
class Row:
    """A method and its settings, on top of those that all rows share."""

    name: str
    method: str
    about: str
    model: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    variant_of: str | None = None  # of a row and its variants the best on validation data is shown

    def run(self, learns: Sequence[str], seed: int, model: PretrainedSettings, training: TrainingSettings) -> Run:
        settings = (replace(model, **self.model), training, MethodSettings(**self.options))
        return Run(self.method, tuple(learns), seed, *settings)


AUTO: Mapping[str, Any] = {"keep": "auto"}
FISHER: Mapping[str, Any] = {"fisher_examples": 200}  # exact: a gradient of all weights for each of their labels

ROWS = {
    row.name: row
    for row in (
        Row("ridge", "ridge", "the encoder as it came, a head in closed form"),
        Row("F", "F", "everything trains"),
        Row("F+A", "F+A", "F, then back to the old weights as far as validation allows", options=AUTO),
        Row("F+E", "F+E", "F with a running mean of the weights"),
        Row("EWC", "EWC", "F with a pull back on weights that mattered", options=FISHER),
        *(
            Row(
                f"EWC {strength:g}",
                "EWC",
                f"EWC of strength {strength:g}",
                options={**FISHER, "strength": strength},
                variant_of="EWC",
            )
            for strength in (10.0, 100.0, 1e4)
        ),
        Row("LoRA", "LoRA", "one LoRA for all domains, merged"),
        Row("LoRA+A", "LoRA+A", "LoRA, then back as far as validation allows", options=AUTO),
        Row("frozen+M", "frozen+M", "new slots beside a frozen encoder; they and the head train"),
        Row("F+M", "F+M", "new slots, and everything trains"),
        Row("F+M+A", "F+M+A", "F+M, then back as far as validation allows", options=AUTO),
        Row("sparse", "sparse", "only slots that the new domain reads move", model={"slots": SLOTS}),
        Row(
            "adapter",
            "frozen+M",
            "frozen+M with an adapter of as many parameters in place of slots",
            {"memory": "adapter"},
        ),
        Row("fixed keys", "frozen+M", "frozen+M with random keys that never train", {"memory": "fixed-keys"}),
        Row("one slot", "frozen+M", "frozen+M with a single slot in each layer", options={"slots": 1}),
        Row("head only", "frozen", "the encoder frozen after the first domain; only the head trains"),
        Row("in-domain", "in-domain", "a model for each domain; it has to be told which"),
        Row("multi-task", "multi-task", "trained on the data of all domains at once"),
    )
}

# What the study asks, settled before any run: does the first row do better than the second?
QUESTIONS = (
    ("frozen+M", "LoRA"),
    ("frozen+M", "LoRA+A"),
    ("frozen+M", "adapter"),
    ("frozen+M", "fixed keys"),
    ("frozen+M", "one slot"),
    ("frozen+M", "head only"),
    ("frozen+M", "F"),
    ("frozen+M", "F+A"),
    ("adapter", "LoRA"),
    ("F+M", "F"),
    ("F+M+A", "F+A"),
    ("sparse", "F"),
    ("sparse", "frozen+M"),
    ("F+A", "F"),
    ("F+A", "LoRA+A"),
    ("F+E", "F"),
    ("EWC", "F"),
    ("LoRA", "F"),
    ("LoRA+A", "LoRA"),
    ("ridge", "F"),
    ("F+A", "multi-task"),
    ("F", "multi-task"),
)


def rows_called(names: Iterable[str]) -> list[Row]:
    """The rows of these names, each once; `all` are all but variants."""
    asked: dict[str, None] = {}
    for name in names:
        if name == "all":
            asked.update(dict.fromkeys(row.name for row in ROWS.values() if row.variant_of is None))
        elif name in ROWS:
            asked[name] = None
        else:
            raise SettingsError(f"there is no row {name!r}; there are {', '.join(ROWS)}, and all")
    return [ROWS[name] for name in asked]
