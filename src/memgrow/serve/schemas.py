"""Requests and responses, as the OpenAPI description has them."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from memgrow.data import Example
from memgrow.data.inputs import input_of
from memgrow.errors import DataError
from memgrow.serve.jobs import Job
from memgrow.serve.limits import Limits
from memgrow.training.checks import check_examples

TEXT = "A text; for a model of pairs, two texts separated by a tab."
FIELDS = "The fields that `memgrow predict --file` reads: text; premise and hypothesis; or message."
Input = Annotated[str, Field(description=TEXT)] | Annotated[dict[str, str], Field(description=FIELDS)]
TOP_K = "Probabilities of the most probable labels only."
HELP = {
    "text": 'a string, or an object such as {"text": "..."}',
    "pair": 'an object such as {"premise": "...", "hypothesis": "..."}, or a string with a tab between the two texts',
    "reply": 'a string, or an object such as {"message": "..."}',
}


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PredictRequest(Body):
    """Texts to label or to reply to."""

    inputs: Annotated[list[Input], Field(min_length=1)]
    top_k: Annotated[int, Field(ge=1, description=TOP_K)] | None = None


class ExplainRequest(Body):
    """A text to predict, with the attention of each word."""

    input: Input
    top_k: Annotated[int, Field(ge=1, description=TOP_K)] | None = None


class RollbackRequest(Body):
    """The version to go back to; by default the previous one."""

    version: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class Version(BaseModel):
    version: int  # the number of stages
    digest: str  # identifies the content of the model


class Prediction(BaseModel):
    """A label with the probabilities of labels, or a reply and whether it is complete."""

    label: str | None = None
    probabilities: dict[str, float] | None = None
    reply: str | None = None
    ended: bool | None = None


class Predictions(Version):
    predictions: list[Prediction]


class Explanation(Prediction, Version):
    domains: list[str]
    words: list[dict[str, Any]]  # word, text (1 for the second of a pair) and the share of each domain
    note: str | None = None


class Jobs(BaseModel):
    jobs: list[Job]
    read_only: bool


class Error(BaseModel):
    detail: str


def to_examples(inputs: list[str | dict[str, str]], task: str | None, limits: Limits) -> list[Example]:
    """Inputs as examples for a model of this task; an error names the first input that does not fit."""
    if len(inputs) > limits.inputs:
        raise DataError(f"there are {len(inputs):,} inputs: send at most {limits.inputs:,} at once")
    examples: list[Example] = []
    for number, value in enumerate(inputs, 1):
        place = f"input {number}"
        try:
            example = input_of(value, task, place).example
            check_examples([example], task or "", None)
        except DataError as error:
            if "half a character" in str(error) or "empty" in str(error):
                raise
            raise DataError(f"{place} does not fit this model: send {HELP[task or 'text']}") from None
        if any(len(text) > limits.characters for text in example.texts):
            raise DataError(f"{place} is longer than {limits.characters:,} characters: shorten it")
        examples.append(example)
    return examples
