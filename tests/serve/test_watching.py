"""Drift of inputs, and changes of the model's folder by other commands."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memgrow.data import Example, Stream
from memgrow.errors import ModelError
from memgrow.evaluation.drift import DriftMonitor
from memgrow.learner import Learner
from memgrow.storage.versions import undo
from tests.serve.conftest import PAIR, Serve, Served, soon

NEW = [{"premise": f"my lamp number {number} glows", "hypothesis": "lamps never glow"} for number in range(24)]


def known(stream: Stream) -> list[dict[str, str]]:
    return [{"premise": one.text, "hypothesis": one.pair or ""} for one in stream[0].test]


def ask(served: Served, inputs: list[dict[str, str]], seen: int) -> dict[str, Any]:
    """The report when so many texts have been seen, which is after the response."""
    assert served.client.post("/predict", json={"inputs": inputs}).status_code == 200
    assert soon(lambda: served.client.get("/drift").json()["texts"] >= seen)
    return dict(served.client.get("/drift").json())


def events(served: Served, event: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, served.log.getvalue().splitlines()) if line["event"] == event]


def test_new_texts_are_reported_as_drift(serve: Serve, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memgrow.serve.service.DRIFT_SHARE", 1.0)
    served = serve(window=24)
    first = served.client.get("/drift").json()
    assert (first["texts"], first["due"], first["p"]) == (0, False, None)
    before = ask(served, known(stream), 24)
    assert (before["texts"], before["windows"], before["due"]) == (24, 1, False)
    after = ask(served, NEW, 48)
    assert (after["texts"], after["alarms"], after["due"]) == (48, 1, True)
    assert after["unknown_words"] > before["unknown_words"]
    text = served.client.get("/metrics").text
    for line in ("memgrow_drift_due 1.0", "memgrow_drift_texts 48.0", "memgrow_drift_alarms 1.0"):
        assert line in text.splitlines()
    assert "lamp" not in str(after) + text + served.log.getvalue()
    assert served.client.post("/rollback", json={}).status_code == 200
    assert served.client.get("/drift").json()["texts"] == 0  # another version begins anew


def test_a_failing_drift_test_is_logged_without_texts(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(monitor: DriftMonitor, examples: Sequence[Example], confidences: Any = None) -> Any:
        raise ValueError(examples[0].text)

    monkeypatch.setattr(DriftMonitor, "add", fail)
    served = serve()
    assert served.client.post("/explain", json={"input": NEW[0]}).status_code == 200
    assert [line["error"] for line in events(served, "drift not tested")] == ["ValueError"]
    assert "lamp" not in served.log.getvalue()


def test_a_version_that_cannot_be_loaded_now_is_loaded_later(
    serve: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memgrow.serve.service.POLL_SECONDS", 0.02)
    served = serve()
    load, tries = Learner.load, list[int]()

    def fails(*args: Any, **options: Any) -> Learner:
        tries.append(1)
        if len(tries) <= 3:
            raise ModelError("damaged")
        return load(*args, **options)

    monkeypatch.setattr(Learner, "load", fails)
    undo(folder)
    assert soon(lambda: served.client.get("/health").json()["version"] == 1)
    assert served.client.post("/predict", json={"inputs": [PAIR]}).json()["version"] == 1
    assert len(events(served, "not loaded")) == 1
    assert len(events(served, "loaded")) == 1
