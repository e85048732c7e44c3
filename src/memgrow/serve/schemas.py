"""The bodies of requests, and the examples in them."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from memgrow.data import Example
from memgrow.data.rows import input_of
from memgrow.errors import DataError, listed
from memgrow.serve.settings import ServeSettings
from memgrow.training.checks import check_examples

TEXT = "A text; for a model of pairs, two texts separated by a tab."
FIELDS = "The fields that `memgrow predict --file` reads: text; premise and hypothesis; or message."
Input = Annotated[str, Field(description=TEXT)] | Annotated[dict[str, str], Field(description=FIELDS)]
TopK = Annotated[int, Field(ge=1, description="Probabilities of the most probable labels only.")] | None
EXPECTED = {
    "text": 'a string, or an object such as {"text": "..."}',
    "pair": 'an object such as {"premise": "...", "hypothesis": "..."}, or a string with a tab between the two texts',
    "reply": 'a string, or an object such as {"message": "..."}',
}


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def stop_at_first_error(cls, value: Any) -> Any:
        """Pydantic would describe each wrong part of a large body, for seconds."""
        if isinstance(value, dict):
            if len(value) > len(cls.model_fields):
                raise ValueError(f"the fields are {listed(cls.model_fields)}, and no others")
            given = value.get("inputs", [value["input"]] if "input" in value else [])
            for number, one in enumerate(given if isinstance(given, list) else (), 1):
                if not all(isinstance(part, str) for part in (one.values() if isinstance(one, dict) else [one])):
                    raise ValueError(f"input {number} is neither a string nor an object of strings")
        return value


class PredictRequest(Body):
    """Texts to label or to reply to."""

    inputs: Annotated[list[Input], Field(min_length=1)]
    top_k: TopK = None


class ExplainRequest(Body):
    """A text to predict, with the attention of each word."""

    input: Input
    top_k: TopK = None


class StreamRequest(Body):
    """A message to reply to, and how."""

    input: Input
    max_tokens: Annotated[int, Field(ge=1, le=1000)] = 40
    temperature: Annotated[float, Field(gt=0, le=10)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None


class RollbackRequest(Body):
    """The version to go back to; by default the previous one."""

    version: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


def to_examples(inputs: list[str | dict[str, str]], task: str | None, settings: ServeSettings) -> list[Example]:
    """Inputs as examples for a model of this task; an error names the first input that does not fit."""
    if len(inputs) > settings.max_inputs:
        raise DataError(f"there are {len(inputs):,} inputs: send at most {settings.max_inputs:,} at once")
    examples: list[Example] = []
    for number, value in enumerate(inputs, 1):
        try:
            examples.append(input_of(value, task, f"input {number}").example)
            check_examples(examples[-1:], task or "", None)
        except DataError as error:
            raise DataError(f"{error} (this model takes {EXPECTED[task or 'text']})") from None
        if any(len(text) > settings.max_characters for text in examples[-1].texts):
            raise DataError(f"input {number} is longer than {settings.max_characters:,} characters: shorten it")
    return examples
