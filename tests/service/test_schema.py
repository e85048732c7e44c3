"""What fits the OpenAPI description, and what nearly does, is answered, and never with a 5xx (schemathesis)."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from memgrow.data import Domain, Example, Stream
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from tests.service.test_kills import Server

PARTS = ("train", "validation", "test")
EXAMPLES = 40  # for each operation, and for each way to make them


def asking(session: Any, address: str, seen: Counter[int]) -> Callable[[Any], None]:
    """A function that sends what was made up, counts the statuses and looks at the answer."""

    def ask(case: Any) -> None:
        answer = case.call(session=session, base_url=address, timeout=60)
        seen[answer.status_code] += 1
        assert answer.status_code < 500, (case.as_curl_command(), answer.text)
        if answer.status_code >= 400:
            assert isinstance(answer.json()["detail"], str)

    return ask


@pytest.fixture
def model_of_texts(stream: Stream, tiny: ModelSettings, short: TrainingSettings, tmp_path: Path) -> Path:
    """The folder of a model of single texts, for which most strings are an input."""
    learner = Learner.create("F+M+V", model=tiny, training=short, device="cpu")
    for domain in list(stream)[:2]:
        parts = [[Example(one.text, label=one.label) for one in getattr(domain, part)] for part in PARTS]
        learner.adapt(Domain(domain.name, *parts), folder=tmp_path / "texts")
    return tmp_path / "texts"


@pytest.mark.extras
@pytest.mark.parametrize("model", ["folder", "model_of_texts"])
def test_no_request_of_the_description_ends_in_a_5xx(model: str, request: pytest.FixtureRequest) -> None:
    schemathesis = pytest.importorskip(
        "schemathesis", reason="schemathesis is not installed: `make test-extras` installs it"
    )
    import requests

    bounded = settings(
        max_examples=int(os.environ.get("MEMGROW_EXAMPLES", EXAMPLES)),
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    counts: dict[str, Counter[int]] = {}
    server = Server(request.getfixturevalue(model))
    try:
        address = str(server.client.base_url).rstrip("/")
        schema = schemathesis.openapi.from_dict(server.client.get("/openapi.json").json())
        with requests.Session() as session:
            for found in schema.get_all_operations():
                operation = found.ok()
                seen = counts.setdefault(f"{operation.method.upper()} {operation.path}", Counter())
                for mode in schemathesis.GenerationMode:
                    strategy = operation.as_strategy(generation_mode=mode)
                    try:
                        bounded(given(case=strategy)(asking(session, address, seen)))()
                    except Unsatisfiable:
                        assert not operation.body  # without parameters there is no wrong way to ask
    finally:
        server.kill()
    for name, seen in counts.items():
        print(f"{name}: {dict(sorted(seen.items()))}")
    assert len(counts) >= 10
    if model == "model_of_texts":
        assert counts["POST /predict"][200], "some of what was made up was to be an input"
