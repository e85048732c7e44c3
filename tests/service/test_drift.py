"""What the service says of drift: after the answers, without the texts, for the version that is served."""

import json
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from memgrow.data import Example, Stream
from memgrow.drift import DriftMonitor
from memgrow.service import drift_watch
from memgrow.service.drift_watch import MOST, DriftWatch
from tests.service.conftest import Serve, Served

pytest.importorskip("fastapi")
NEW = [{"premise": f"my lamp number {number} glows", "hypothesis": "lamps never glow"} for number in range(24)]


def known(stream: Stream) -> list[dict[str, str]]:
    return [{"premise": one.text, "hypothesis": one.pair or ""} for one in stream[0].test]


def ask(served: Served, inputs: list[dict[str, str]], seen: int) -> dict[str, Any]:
    """What is said once so many texts have been looked at, which happens after the answer."""
    assert served.client.post("/predict", json={"inputs": inputs}).status_code == 200
    return told(served, seen)


def told(served: Served, seen: int) -> dict[str, Any]:
    until = time.monotonic() + 10
    while (drift := served.client.get("/drift").json())["texts"] < seen and time.monotonic() < until:
        time.sleep(0.01)
    return dict(drift)


def test_new_texts_are_told_after_known_ones_and_exported(serve: Serve, stream: Stream) -> None:
    served = serve(window=24)
    first = served.client.get("/drift").json()
    assert (first["texts"], first["due"], first["p"]) == (0, False, None)
    before = ask(served, known(stream), 24)
    assert (before["texts"], before["windows"], before["due"]) == (24, 1, False)
    assert before["sentence"].startswith("the last 24 texts look like what was learnt")
    after = ask(served, NEW, 48)
    assert (after["texts"], after["alarms"], after["due"]) == (48, 1, True)
    assert after["sentence"].startswith("adapting seems due")
    assert after["unknown_words"] > before["unknown_words"]
    assert after["distance"] > 1
    text = served.client.get("/metrics").text
    for line in ("memgrow_drift_due 1.0", "memgrow_drift_texts 48.0", "memgrow_drift_alarms 1.0"):
        assert line in text.splitlines()
    assert "lamp" not in str(after) + text + served.log.getvalue()


def test_a_batch_that_cannot_be_looked_at_is_told_and_watching_goes_on(
    serve: Serve, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = DriftMonitor.add

    def stumble(monitor: DriftMonitor, examples: Sequence[Example], confidences: Sequence[float] | None = None) -> Any:
        if "lamp" in examples[0].text:
            raise ValueError(examples[0].text)
        return add(monitor, examples, confidences)

    monkeypatch.setattr(DriftMonitor, "add", stumble)
    served = serve(window=24)
    assert served.client.post("/predict", json={"inputs": NEW[:3]}).status_code == 200
    after = ask(served, known(stream), 24)
    assert (after["texts"], after["windows"], after["due"]) == (24, 1, False)
    assert after["sentence"].endswith("; 3 texts could not be looked at: the log says why")
    figures = served.client.get("/metrics").text.splitlines()
    assert {"memgrow_drift_failed 3.0", "memgrow_drift_texts 24.0"} <= set(figures)
    lines = [json.loads(line) for line in served.log.getvalue().splitlines()]
    assert [(one["error"], one["texts"]) for one in lines if one["event"] == "drift not watched"] == [("ValueError", 3)]
    assert "lamp" not in served.log.getvalue()
    assert served.client.get("/health").status_code == 200
    assert served.client.post("/rollback", json={}).status_code == 200
    assert "could not" not in served.client.get("/drift").json()["sentence"], "another version begins anew"


def test_texts_that_are_explained_count_and_another_version_begins_anew(serve: Serve) -> None:
    served = serve()
    served.client.post("/explain", json={"input": NEW[0]})
    assert told(served, 1)["texts"] == 1
    assert served.client.post("/rollback", json={}).status_code == 200
    assert served.client.get("/drift").json()["texts"] == 0
    assert ask(served, NEW[:2], 2)["texts"] == 2


def test_the_card_tells_how_probabilities_were_calibrated(serve: Serve) -> None:
    served = serve()
    calibration = served.service.publisher.current.learner.calibration
    card = served.client.get("/model").json()["calibration"]
    assert card["temperature"] == calibration.temperature
    assert list(card["domains"]) == list(calibration.domains)


def test_a_flood_is_looked_at_in_part_and_nobody_waits_for_it(serve: Serve, stream: Stream, monkeypatch) -> None:
    published = serve().service.publisher.current
    watch = DriftWatch(published)  # not started: nothing is looked at
    examples = list(stream[0].test)
    answers = [{"label": "a", "probabilities": {"a": 1.0}}] * len(examples)
    shown = threading.Thread(target=lambda: [watch.show(published, examples, answers) for _ in range(100)])
    shown.start()
    shown.join(5)
    assert not shown.is_alive()
    monkeypatch.setattr(drift_watch, "SHARE", 1.0)
    watch.start()
    until = time.monotonic() + 10
    while (seen := watch.report(published).texts) < MOST - len(examples) and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.05)
    watch.stop()
    assert seen <= watch.report(published).texts <= MOST
    assert seen >= MOST - len(examples)
