"""What is sent to the service and what comes back, as its OpenAPI description tells it."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from memgrow.data import Example
from memgrow.data.asked import example_from_value
from memgrow.errors import DataError
from memgrow.service.jobs import State
from memgrow.service.limits import Limits
from memgrow.training.checks import check_examples

TEXT = "A text; for a model of pairs, two with a tab between them."
FIELDS = "The fields that `memgrow predict --file` reads: text; premise and hypothesis; or message."
Input = Annotated[str, Field(description=TEXT)] | Annotated[dict[str, str], Field(description=FIELDS)]
HELP = {
    "text": 'a string, or an object such as {"text": "..."}',
    "pair": 'an object such as {"premise": "...", "hypothesis": "..."}, or a string with a tab between the two texts',
    "reply": 'a string, or an object such as {"message": "..."}',
}


class Asked(BaseModel):
    """Texts to label or to reply to."""

    model_config = ConfigDict(extra="forbid")
    inputs: Annotated[list[Input], Field(min_length=1)]


class AskedToExplain(BaseModel):
    """A text whose words are looked at."""

    model_config = ConfigDict(extra="forbid")
    input: Input


class AskedBack(BaseModel):
    """The version to go back to; without one, the one before."""

    model_config = ConfigDict(extra="forbid")
    version: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class Prediction(BaseModel):
    """A label and the probability of each, or a reply and whether it came to its end."""

    label: str | None = None
    probabilities: dict[str, float] | None = None
    reply: str | None = None
    ended: bool | None = None


class Predictions(BaseModel):
    version: int
    predictions: list[Prediction]


class Word(BaseModel):
    word: str
    text: int  # 0, or 1 for the second of a pair
    shares: list[float]  # of each domain's slots, in the order of `domains`


class Explanation(Prediction):
    version: int
    domains: list[str]
    words: list[Word]
    note: str | None = None


class Card(BaseModel):
    """The model card; it has more fields than are named here."""

    model_config = ConfigDict(extra="allow")
    kind: str
    method: str
    encoder: str | None
    labels: list[str]
    domains: list[str]
    version: int
    versions: list[dict[str, Any]]
    stages: list[dict[str, Any]]
    matrix: list[dict[str, Any]]
    settings: dict[str, Any]
    calibration: dict[str, Any] | None


class Drift(BaseModel):
    """Whether what is asked is like what was learnt, by the last full window; figures that are not known are null."""

    texts: int  # that were looked at
    due: bool  # whether adapting seems due
    sentence: str
    unknown_words: float | None
    distance: float | None  # from the domains learnt; 1 is what chance gives
    p: float | None
    confidence: float | None
    mixture: dict[str, float] | None  # of domains that is the nearest
    tests: dict[str, float] | None  # p of each
    windows: int
    alarms: int
    window: int
    alpha: float


class Health(BaseModel):
    status: str
    version: int


class Accepted(BaseModel):
    job: str


class Job(BaseModel):
    """A training. `before` and `after` are test accuracies by domain, as far as they are known."""

    id: str
    domain: str
    state: State
    epoch: int | None
    epochs: int | None
    progress: float
    seconds: float
    before: dict[str, float]
    after: dict[str, float]
    error: str | None
    publish: bool
    version: int | None


class Jobs(BaseModel):
    jobs: list[Job]
    read_only: bool  # nobody can change the model


class RolledBack(BaseModel):
    version: int


class Error(BaseModel):
    detail: str


def examples_of(inputs: list[str | dict[str, str]], task: str | None, limits: Limits) -> list[Example]:
    """Inputs as examples that a model for this task can answer; an error says which one it cannot, and why."""
    if len(inputs) > limits.inputs:
        raise DataError(f"there are {len(inputs):,} inputs: give at most {limits.inputs:,} at once")
    found: list[Example] = []
    for number, value in enumerate(inputs, 1):
        place = f"input {number}"
        try:
            example = example_from_value(value, task, place)
            check_examples([example], task or "", None)
        except DataError as error:
            if "half a character" in str(error) or "empty" in str(error):
                raise
            raise DataError(f"{place} is not what this model reads: give {HELP[task or 'text']}") from None
        if any(len(text) > limits.characters for text in example.texts):
            raise DataError(f"{place} is longer than {limits.characters:,} characters: shorten it")
        found.append(example)
    return found
